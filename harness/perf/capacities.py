"""What the costs of two modest runs predict a pod to carry, against what a search finds."""

from __future__ import annotations

from collections.abc import Iterator

from harness import preflight, scenario, sizing, targets
from harness.cli_common import RESULTS, run_one
from harness.errors import MeasurementError
from harness.perf.figure import Figure, at_most
from harness.run import Run

LOOPS = ("asyncio", "trio", "gevent")
# Where the CPU is what binds; a pool of 200 is full before that.
CASES = {"capacity": ("threadpool", *LOOPS), "capacity-cpu": LOOPS}
ERROR_PERCENT = 5.0


def capacity(name: str) -> Iterator[Figure]:
    """The models of one of CASES, a scenario; kept for `harness plan` like any other sizing."""
    known, wanted = targets.load_targets(), scenario.load(name)
    for model in CASES[name]:
        case, target = f"{name}, {model}", known[model]

        def run_once(part: scenario.Scenario, target: targets.Target = target) -> Run:
            return run_one(part, target, RESULTS, None).run

        try:
            sized = sizing.size(wanted, target, preflight.Host.here(), run_once)
        except MeasurementError as error:
            yield Figure(case, "λ max", None, "req/s", note=str(error).partition("\n")[0])
            continue
        sizing.keep(RESULTS, name, sized)
        found = sized.found
        bound = f"{sized.measured.bound_by}; {len(found.trials)} runs, {found.ended}"
        yield Figure(case, "λ max", found.rate_max_rps, "req/s", note=bound)
        error_percent = abs(found.prediction_error) * 100
        yield at_most(case, "prediction off the search", error_percent, "%", ERROR_PERCENT)
