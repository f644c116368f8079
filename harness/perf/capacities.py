"""What the costs of two modest runs predict a pod to carry, against what a search finds."""

from __future__ import annotations

from collections.abc import Iterator

from harness import preflight, scenario, sizing, targets
from harness.cli_common import RESULTS, run_one
from harness.errors import MeasurementError
from harness.perf.figure import Figure, at_most

LOOPS = ("asyncio", "trio", "gevent")
# Of the second, the CPU is what binds; a pool of 200 is full before that.
SCENARIOS = {"capacity": ("threadpool", *LOOPS), "capacity-cpu": LOOPS}
ERROR_PERCENT = 5.0


def capacity() -> Iterator[Figure]:
    """The models of each of SCENARIOS; kept for `harness plan` like any other sizing."""
    known = targets.load_targets()
    for name, models in SCENARIOS.items():
        wanted = scenario.load(name)
        for model in models:
            case, target = f"{name}, {model}", known[model]
            try:
                sized = sizing.size(
                    wanted,
                    target,
                    preflight.Host.here(),
                    lambda part, target=target: run_one(part, target, RESULTS, None).run,  # type: ignore[misc]
                )
            except MeasurementError as error:
                yield Figure(case, "λ max", None, "req/s", note=str(error).partition("\n")[0])
                continue
            sizing.keep(RESULTS, name, sized)
            found = sized.found
            bound = f"{sized.measured.bound_by}; {len(found.trials)} runs, {found.ended}"
            yield Figure(case, "λ max", found.rate_max_rps, "req/s", note=bound)
            error_percent = abs(found.prediction_error) * 100
            yield at_most(case, "prediction off the search", error_percent, "%", ERROR_PERCENT)
