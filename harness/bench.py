"""One row of the table: what a pod carries, what it costs there, and how many pods a rate takes.

A pod that is predicted to carry less than the target rate is run twice: above its capacity, which gives λ max,
and just below it, which gives the latency and the use at capacity. Any other pod is run once, at the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from statistics import median
from typing import NamedTuple

import msgspec

from harness.errors import HarnessError
from harness.preflight import Forecast, Host, forecast
from harness.run import Run
from harness.scenario import Scenario
from harness.targets import Target

ABOVE = 1.2  # of the predicted capacity: full throughout, and a queue that the drain need not wait for
BELOW = 0.98
SATURATED_DRAIN_S = 1.0

RunOnce = Callable[[Target, Scenario], Run]


class Job(NamedTuple):
    """One run to make in each repeat, and the name of the row that it belongs to."""

    row: str
    target: Target
    scenario: Scenario


class Made(NamedTuple):
    """What a row was made from: its runs, and why others broke, a line each."""

    runs: list[Run]
    broken: list[str]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A table row, medians over its valid runs; None is "not measured".

    rate_max_at_least says that rate_max_rps is only what was offered and carried, not where it ends.
    """

    target: str
    workers: int
    rate_target_rps: float
    rate_max_rps: float | None = None
    rate_max_at_least: bool = False
    p99_s: float | None = None
    rss_bytes: float | None = None
    cpu_percent: float | None = None
    os_threads: float | None = None
    concurrency: float | None = None
    pods: int | None = None
    predicted_rps: float | None = None
    ratio: float | None = None
    bound_by: str | None = None
    unsent: int = 0
    valid: bool = False
    reasons: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


def scenarios(scenario: Scenario, pod: Forecast) -> tuple[Scenario, ...]:
    """What one repeat of the row runs: (above, below) its capacity, or the scenario as it is."""
    capacity = pod.binding.rate_max_rps
    if capacity >= scenario.load.rate_rps:
        return (scenario,)
    changes = (
        {"rate_rps": capacity * ABOVE, "regime": "saturated", "drain_s": SATURATED_DRAIN_S},
        {"rate_rps": capacity * BELOW},
    )
    return tuple(
        msgspec.structs.replace(scenario, load=msgspec.structs.replace(scenario.load, **change))
        for change in changes
    )


def bench(
    scenario: Scenario, targets: Sequence[Target], host: Host, repeats: int, run_once: RunOnce, seed: int = 1
) -> list[Row]:
    """Make a row for each target; `run_once` runs a scenario against one and keeps the run."""
    pods = {target.name: forecast(scenario, target, host) for target in targets}
    jobs = [
        Job(target.name, target, part)
        for target in targets
        for part in scenarios(scenario, pods[target.name])
    ]
    made = interleaved(jobs, repeats, lambda job: run_once(job.target, job.scenario), seed)
    rate_rps = scenario.load.rate_rps
    return [row(rate_rps, name, pods[name].workers, *made[name]) for name in pods]


def interleaved(
    jobs: Sequence[Job], repeats: int, run_once: Callable[[Job], Run], seed: int = 1
) -> dict[str, Made]:
    """Run every job once a repeat; what was made, by row.

    Each repeat has an order of its own: a machine that grows slower over an hour then slows no row more than
    another. A run that breaks costs its row; where there is but one, it ends everything.
    """
    made = {job.row: Made([], []) for job in jobs}
    for repeat in range(repeats):
        order = list(jobs)
        if len(made) > 1:
            Random(f"{seed}/{repeat}").shuffle(order)
        for job in order:
            try:
                made[job.row].runs.append(run_once(job))
            except HarnessError as error:
                if len(made) == 1:
                    raise
                made[job.row].broken.append(str(error).partition("\n")[0])
    return made


def row(rate_rps: float, target: str, workers: int, runs: Sequence[Run], broken: Sequence[str] = ()) -> Row:
    """The row that these runs give; an invalid or broken one gives nothing but its reason."""
    valid = [run for run in runs if run.verdict.valid]
    steady = [run for run in valid if run.scenario.load.regime == "steady"]
    saturated = [run for run in valid if run.scenario.load.regime == "saturated"]
    ceiling = saturated or steady
    use = steady or saturated  # a pod that is full takes what it takes; only its latency says nothing
    rate_max = known_median(run.summary.throughput_rps for run in ceiling)
    at_least = not saturated and rate_max is not None
    carried = rate_rps if at_least else rate_max
    return Row(
        target=target,
        workers=workers,
        rate_target_rps=rate_rps,
        rate_max_rps=rate_max,
        rate_max_at_least=at_least,
        p99_s=known_median(run.summary.latency_s.p99 for run in steady),
        rss_bytes=known_median(run.resources.rss_bytes.mean for run in use),
        cpu_percent=known_median(run.resources.cpu_percent for run in use),
        os_threads=known_median(run.resources.os_threads.peak for run in use),
        concurrency=known_median(run.concurrency.handlers_mean or run.concurrency.client_mean for run in use),
        pods=math.ceil(rate_rps / carried) if carried else None,
        predicted_rps=known_median(run.prediction.rate_max_rps for run in ceiling) if saturated else None,
        ratio=known_median(run.prediction.ratio for run in ceiling),
        bound_by=ceiling[0].prediction.bound_by if saturated else None,
        unsent=sum(run.summary.unsent for run in runs),
        valid=len(valid) == len(runs) and not broken,
        reasons=(*broken, *(f"{run.id}: {run.verdict.reason}" for run in runs if not run.verdict.valid)),
        runs=tuple(run.id for run in runs),
    )


def known_median(values: Iterable[float | None]) -> float | None:
    """The median of what was measured; None if nothing was."""
    found = [value for value in values if value is not None]
    return median(found) if found else None
