"""The pinning lab: each endpoint under each model, one window at a time, each on a pod of its own.

A window never meets what the last one left: its pod and upstream are new, and the verdict checks that nothing
was in flight. The order is random and new in each repeat, so a machine that grows slower over an hour slows
no cell more than another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from harness import expected
from harness.bench import Job, interleaved, known_median
from harness.errors import ScenarioError
from harness.expected import ENDPOINTS, PREFIX, Expected
from harness.preflight import Host, plan
from harness.run import Run
from harness.scenario import Scenario
from harness.targets import Target

TARGETS = ("threadpool", "asyncio", "trio", "gevent")

RunOnce = Callable[[Target, Scenario], Run]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint under one target: medians over the valid runs by FIGURES, and what was expected."""

    target: str
    endpoint: str
    runs: int
    valid: bool
    measured: dict[str, float | None]
    expected: Expected | None = None
    reasons: tuple[str, ...] = ()


def _ok(run: Run) -> float | None:
    rate_rps = run.summary.throughput_rps
    return None if rate_rps is None else round(rate_rps * run.scenario.load.window_s)


def _attributed(run: Run) -> float | None:
    """The part of the requests whose pin is laid at their own handler's door; None where they have none.

    Each of them pins once. Pins beyond those are others', and show in the number of pins a request.
    """
    wanted = expected.of_run(run)
    if run.pins is None or wanted is None or not wanted.pins_per_request:
        return None
    own = run.pins.handlers.get(run.scenario.load.route)
    return min(1.0, (own.per_request or 0.0) if own else 0.0)


# Names are those of CSV columns. Completions are those inside the window; pins are those of the whole run.
FIGURES: Mapping[str, Callable[[Run], float | None]] = {
    "ok": _ok,
    "throughput_rps": lambda run: run.summary.throughput_rps,
    "upstream_in_flight": lambda run: run.concurrency.upstream_mean,
    "pins": lambda run: run.pins.count if run.pins else None,
    "pins_per_request": lambda run: run.pins.per_request if run.pins else None,
    "attributed_share": _attributed,
    "latency_p50_s": lambda run: run.summary.latency_s.p50,
    "bystander_p50_s": lambda run: run.bystander.p50 if run.bystander else None,
    "bystander_p99_s": lambda run: run.bystander.p99 if run.bystander else None,
}


def check(scenario: Scenario, targets: Sequence[Target], host: Host) -> None:
    """Refuse, by ScenarioError and before anything starts, what is no pinning lab or does not fit."""
    if scenario.load.clients is None:
        raise ScenarioError(
            f'{scenario.name}: the lab asks in a closed model: arrivals = "closed", clients = 100'
        )
    if scenario.pod.options.get("hold") != "on":
        raise ScenarioError(f'{scenario.name}: the lab needs the routes {PREFIX}…: [pod] hold = "on"')
    for target in targets:
        plan(scenario, target, host)


def run(
    scenario: Scenario, targets: Sequence[Target], repeats: int, run_once: RunOnce, seed: int = 1
) -> list[Cell]:
    """Ask every endpoint of every target; `run_once` runs a scenario against one and keeps the run.

    A run that breaks costs its cell, and nobody else's.
    """
    cells = {f"{target.name} {endpoint}": (target, endpoint) for endpoint in ENDPOINTS for target in targets}
    jobs = [Job(row, target, asking(scenario, endpoint)) for row, (target, endpoint) in cells.items()]
    made = interleaved(jobs, repeats, lambda job: run_once(job.target, job.scenario), seed)
    return [cell(target.name, endpoint, *made[row]) for row, (target, endpoint) in cells.items()]


def asking(scenario: Scenario, endpoint: str) -> Scenario:
    """The scenario on one of the lab's endpoints; W, and so all else, is the same for each."""
    load = msgspec.structs.replace(scenario.load, route=PREFIX + endpoint)
    return msgspec.structs.replace(scenario, load=load)


def cell(target: str, endpoint: str, runs: Sequence[Run], broken: Sequence[str] = ()) -> Cell:
    """What these runs give; an invalid or broken one gives nothing but its reason."""
    valid = [run for run in runs if run.verdict.valid]
    return Cell(
        target=target,
        endpoint=endpoint,
        runs=len(valid),
        valid=len(valid) == len(runs) and not broken,
        measured={name: known_median(map(read, valid)) for name, read in FIGURES.items()},
        expected=expected.of_run(runs[0]) if runs else None,
        reasons=(*broken, *(f"{run.id}: {run.verdict.reason}" for run in runs if not run.verdict.valid)),
    )
