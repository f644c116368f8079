"""Runs a sweep: each value against each target, all of them interleaved, one row a condition.

A condition that cannot be started here (too few descriptors) is refused before anything runs, and costs the sweep
nothing but itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from harness import preflight, scenario
from harness.bench import Job, Row, interleaved, row
from harness.errors import ScenarioError
from harness.run import Run
from harness.sweep import points
from harness.targets import Target, get_target

RUN_OVERHEAD_S = 3.5  # start, settle and stop, as measured


class Planned(NamedTuple):
    """What will run, on how many processes each, and what will not, with the reason."""

    jobs: list[Job]
    workers: dict[str, int]
    refused: list[tuple[Job, str]]

    @property
    def seconds(self) -> float:
        """About how long one repeat takes: a steady run ends W after its last request was due."""
        return sum(
            load.warmup_s
            + load.window_s
            + (load.drain_s if load.regime == "saturated" else job.scenario.w_s)
            + RUN_OVERHEAD_S
            for job in self.jobs
            for load in (job.scenario.load,)
        )


def plan(
    name: str,
    overrides: Mapping[str, str],
    chosen: Sequence[str],
    known: Mapping[str, Target],
    host: preflight.Host,
) -> Planned:
    """The sweep of a scenario, against its own targets or those `chosen`.

    Raises ScenarioError for a scenario without a sweep, an override of its axis, or if nothing can be started.
    """
    base = scenario.load(name, overrides)
    if base.sweep is None:
        raise ScenarioError(
            f"{name}: has no table [sweep]; run it with: harness run TARGET --scenario {name}"
        )
    _check_overrides(base.sweep.axis, overrides)
    planned = Planned([], {}, [])
    for point in points(base.sweep):
        wanted = scenario.load(name, overrides, point)
        for target in [get_target(each, known) for each in dict.fromkeys(chosen or base.sweep.targets)]:
            job = Job(f"{target.name} {point.name}", target, wanted)
            try:
                layout = preflight.plan(wanted, target, host)
            except ScenarioError as error:
                planned.refused.append((job, str(error)))
                continue
            planned.jobs.append(job)
            planned.workers[job.row] = layout.workers
    if not planned.jobs:
        job, reason = planned.refused[0]
        raise ScenarioError(f"{name}: no condition can be started; {job.row}: {reason}")
    return planned


def run(planned: Planned, repeats: int, run_once: Callable[[Job], Run], seed: int = 1) -> list[Row]:
    """A row for each condition; one that was refused has no run, and its reason."""
    made = interleaved(planned.jobs, repeats, run_once, seed)
    return [
        *(row(_rate_rps(job), job.row, planned.workers[job.row], *made[job.row]) for job in planned.jobs),
        *(row(_rate_rps(job), job.row, 0, (), [f"not started: {reason}"]) for job, reason in planned.refused),
    ]


def _rate_rps(job: Job) -> float:
    return job.scenario.load.rate_rps


def _check_overrides(axis: str, overrides: Mapping[str, str]) -> None:
    for key in overrides:
        dotted = scenario.SHORTHANDS.get(key, key)
        if f"{dotted}.".startswith(f"{axis}.") or f"{axis}.".startswith(f"{dotted}."):
            raise ScenarioError(f"{key}: the sweep itself sets {axis}; leave it out, or use harness run")
