"""Sizes one pod by runs: fit its costs, predict λ max, search for it, and keep what was found.

Two modest runs give the costs (and a busier one, where CPU may bind), the costs and the pod's limits a bound for
each resource; the search starts from the smallest. A rate that the machine cannot even offer this pod
(descriptors), or that brings it down, is one that it does not carry. What was found lies in
results/capacity/SCENARIO.json, by target, for `harness plan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from harness import files, little
from harness.capacity import GOAL_SHARE, PodLimits, explain, predict
from harness.costs import Costs, fit, is_usable
from harness.errors import MeasurementError, ScenarioError, TargetError
from harness.fleet import Measured
from harness.little import Bound
from harness.preflight import Forecast, Host, forecast
from harness.run import Run
from harness.scenario import Scenario
from harness.search import OVERLOADS, Found, Trial, assess, hidden_pool, search
from harness.statistics import Estimate
from harness.targets import Target

# Of the first guess: low enough to be carried by any pod, and far enough apart to tell slope from rest.
MODEST, SPREAD = 0.25, 2.4
MODEST_RPS = 80.0
BUSY = 0.8  # of the CPU, where it is what will bind: how its queue grows cannot be told from lower down
LOWER, LOWER_STEPS = 4.0, 3

RunOnce = Callable[[Scenario], Run]


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod carries: predicted by resource, searched, and what binds it in a user's words."""

    measured: Measured
    found: Found
    bounds: tuple[str, ...]
    bound_by: str
    verified: bool  # the search ended at the pod's own limit, not at the instrument's


def size(scenario: Scenario, target: Target, host: Host, run_once: RunOnce) -> Sizing:
    """Find λ max of one pod. Raises MeasurementError where no rate passes."""
    scenario = one_pod(scenario)
    pod = forecast(scenario, target, host)
    runs = _modest(scenario, min(MODEST * pod.binding.rate_max_rps, MODEST_RPS * pod.workers), run_once)
    costs, limits = fit(runs), pod_limits(scenario, target, pod)
    if (busy_rps := _busy_rps(costs, limits, scenario.w_s, pod.workers)) is not None:
        with suppress(
            ScenarioError, TargetError
        ):  # a pod that does not get so far: the search finds where it ends
            costs = fit([*runs, run_once(at(scenario, busy_rps))])
    bounds = predict(costs, limits, scenario.w_s, pod.workers)
    binding = little.binding(bounds)
    found = search(lambda rate: _trial(scenario, rate, run_once), binding.rate_max_rps)
    if target.pool is None and not target.gauges:
        binding = _hidden(scenario, found, run_once) or binding
    estimate = Estimate(found.rate_max_rps, found.rate_max_rps, found.failed_at_rps or found.rate_max_rps)
    return Sizing(
        measured=Measured(
            name=target.name,
            rate_max_rps=estimate,
            bound_by=binding.resource,
            w_s=scenario.w_s,
            slack_s=GOAL_SHARE * scenario.w_s,
            workers=pod.workers,
            limits=limits,
            costs=costs,
        ),
        found=found,
        bounds=tuple(explain(bound) for bound in sorted(bounds, key=lambda bound: bound.rate_max_rps)),
        bound_by=explain(binding),
        verified=found.ended == "narrowed",
    )


def one_pod(scenario: Scenario) -> Scenario:
    """One pod is one process unless more are asked for: "auto" would grow it with the rate."""
    if scenario.pod.workers != "auto":
        return scenario
    return msgspec.structs.replace(scenario, pod=msgspec.structs.replace(scenario.pod, workers=1))


def at(scenario: Scenario, rate_rps: float) -> Scenario:
    """The scenario at another rate."""
    return msgspec.structs.replace(
        scenario, load=msgspec.structs.replace(scenario.load, rate_rps=rate_rps, regime="steady")
    )


def pod_limits(scenario: Scenario, target: Target, pod: Forecast) -> PodLimits:
    """What one pod may use; descriptors less the margin that the verdict wants."""
    return PodLimits(
        cpus=scenario.pod.cpus,
        descriptors=int(pod.descriptors * scenario.limits.descriptors_share),
        pool=None if target.pool is None else int(pod.options[target.pool]),
    )


def file_of(results: Path, scenario: str) -> Path:
    """Where the capacities of a scenario are kept."""
    return results / "capacity" / f"{scenario}.json"


def keep(results: Path, scenario: str, sizing: Sizing) -> Path:
    """Write what was found beside that of the other targets; the file."""
    file = file_of(results, scenario)
    try:
        known = load(results, scenario) if file.exists() else {}
        known[sizing.measured.name] = sizing
        files.write(file, files.encode(known))
    except OSError as error:
        raise MeasurementError(f"{file}: could not be written: {error}; free some space?") from error
    return file


def load(results: Path, scenario: str) -> dict[str, Sizing]:
    """What was found for a scenario, by target. Raises MeasurementError saying how to find it."""
    refusal = files.Refusal(
        MeasurementError,
        absent=f"no capacity was measured; run: harness capacity TARGET --scenario {scenario}",
        foreign="not a record of capacities: {why}; measure again",
    )
    return files.read(results / "capacity" / f"{scenario}.json", dict[str, Sizing], refusal)


def _modest(scenario: Scenario, low_rps: float, run_once: RunOnce) -> list[Run]:
    """Runs at two rates, lower ones where a pod of unknown inside does not even carry those."""
    for step in range(LOWER_STEPS):
        low = low_rps / LOWER**step
        runs = [run_once(at(scenario, rate)) for rate in (low, SPREAD * low)]
        if all(is_usable(run) for run in runs):
            break
    return runs


def _busy_rps(costs: Costs, limits: PodLimits, w_s: float, workers: int) -> float | None:
    """The rate of one run more, where CPU may be what binds and its queue was not seen yet; or None."""
    if costs.cpu_s is None or costs.cpu_s.each <= 0 or costs.queue_s is not None:
        return None
    rate_rps = BUSY * limits.cores(workers) / costs.cpu_s.each
    places = (b for b in predict(costs, limits, w_s, workers) if b.resource not in ("cpu", "latency"))
    return rate_rps if rate_rps < min((bound.rate_max_rps for bound in places), default=math.inf) else None


def _trial(scenario: Scenario, rate_rps: float, run_once: RunOnce) -> Trial:
    try:
        return assess(run_once(at(scenario, rate_rps)))
    except (ScenarioError, TargetError) as error:
        return Trial(rate_rps=rate_rps, outcome="failed", reason=str(error).partition("\n")[0])


def _hidden(scenario: Scenario, found: Found, run_once: RunOnce) -> Bound | None:
    beyond = [_trial(scenario, found.rate_max_rps * factor, run_once) for factor in OVERLOADS]
    return hidden_pool([*found.trials, *beyond], scenario.w_s)
