"""What one pod carries and what stops it: costs fitted from modest runs, then the largest λ by resource.

- Costs are straight lines, per process: so much at rest, and so much for each request per second (CPU) or
  each request in flight (memory, descriptors, threads, longest collection). `fit` draws them.
- With the pod's limits each line is a bound on λ; the smallest binds: `predict`. λ is what is offered, so a
  bound says nothing of how a pod behaves beyond it: search.py checks it with runs.
- A line is trusted between and somewhat beyond its runs. Runs of two rates, one at least twice the other, give
  its slope; of one rate, what stands at rest must be known or assumed (`fit` says how).

CPU and the latency goal are one story. A server runs one thread, so that a request of c seconds of CPU meets
a queue. Taken as M/M/1, its time in it is exponential with mean c / (1 − ρ) (Kleinrock, Queueing Systems I,
1975, §3.2), hence p99 = c ln 100 / (1 − ρ). That is on the safe side: requests are served in several short
visits, of the same mean in all and a shorter tail, and constant arrivals queue less than random ones. On top,
a request may meet a garbage collection, which stops all others, the longer the more are in flight. Both share
the slack that the goal leaves above W; the one that takes the larger part of it gets the blame.

Pure functions of runs and numbers. Times in seconds, λ in requests/second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import scipy.optimize
import scipy.stats

from harness import little
from harness.errors import MeasurementError
from harness.little import Bound
from harness.run import Run
from harness.statistics import CONFIDENCE, bootstrap_median

GOAL_SHARE = 0.01  # the goal where none is stated: p99 ≤ 1.01 W
SPREAD = 2.0  # the highest load over the lowest, from which a slope can be told from noise
VISITS = 3  # how often a request needs its server: it arrives, and each of two calls returns

# What a user can do about the resource that binds.
ADVICE = {
    "pool": "raise the pool (--set pod.threads=…), or add workers",
    "permits": "raise the permits, if what they protect allows it",
    "cpu": "spend less CPU on a request, or give the pod more CPUs and as many workers",
    "latency": "spare the collector (--set pod.gc=freeze or off), spread over more workers, or relax the goal",
    "memory": "raise the pod's memory, or hold less per request in flight",
    "descriptors": "raise the limit of open files, or add workers: it counts per process",
    "ports": "spread the upstream over more addresses",
    "hidden pool": "look for a bound on connections, threads or permits of this size in the target's settings",
}

# scipy fills its namespaces at run time, out of mypy's sight.
stats: Any = scipy.stats
optimize: Any = scipy.optimize


class Cost(msgspec.Struct, frozen=True):
    """A line: `at_rest` + `each` × load, in one process. `low` to `high` is the 95 % interval of `each`.

    None where the runs are too few for one. `residual` is the furthest run from the line, as a share of it.
    """

    at_rest: float
    each: float
    low: float | None
    high: float | None
    residual: float


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What a target takes; None is "not measured in any run".

    cpu_s: cores at rest, CPU seconds per request. The others: at rest, and per request in flight.
    """

    target: str
    runs: int
    cpu_s: Cost | None
    memory_bytes: Cost | None
    descriptors: Cost | None
    threads: Cost | None
    pause_s: Cost | None


class PodLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod may use; None does not bound it.

    cpus = 0 is one for each worker. descriptors, pool and permits are those of one process; memory and ports
    of the pod. A verdict that wants a margin (Limits.descriptors_share) is met by limits less that margin.
    """

    cpus: int = 0
    memory_bytes: int | None = None
    descriptors: int | None = None
    ports: int | None = None
    pool: int | None = None
    permits: int | None = None

    def cores(self, workers: int) -> int:
        """CPUs that `workers` single-threaded processes can keep busy."""
        return min(self.cpus or workers, workers)


class _Point(NamedTuple):
    """One run, per process: the value at a load, and at rest where that is known."""

    load: float
    value: float
    rest: float | None = None


def fit(runs: Sequence[Run]) -> Costs:
    """Costs of one target from its valid steady runs; the others are left out.

    From runs whose loads are apart by SPREAD, by least squares. From runs of one load: CPU at rest is 0,
    memory at rest as recorded, descriptors per request a whole number, and threads and collections do not
    grow. Raises MeasurementError without a valid steady run, and for runs of different targets or options.
    """
    steady = [run for run in runs if is_usable(run)]
    if not steady:
        raise MeasurementError(f"none of {len(runs)} runs is valid and steady: costs cannot be fitted; run again")
    kinds = {(run.target.name, tuple(sorted(run.target.options.items()))) for run in steady}
    if len(kinds) > 1:
        raise MeasurementError(f"runs of {len(kinds)} targets or options have no common cost; give those of one")
    return Costs(
        target=steady[0].target.name,
        runs=len(steady),
        cpu_s=_cost(steady, _cpu, _in_proportion),
        memory_bytes=_cost(steady, _memory, _in_proportion),
        descriptors=_cost(steady, _descriptors, _whole),
        threads=_cost(steady, _threads, _constant),
        pause_s=_cost(steady, _pause, _constant),
    )


def is_usable(run: Run) -> bool:
    """Whether a run says what requests cost: valid, and not saturated on purpose."""
    return run.verdict.valid and run.scenario.load.regime == "steady"


def in_flight(run: Run) -> float | None:
    """Mean requests in flight, from the target's gauge, or else as the clients saw it."""
    handlers = run.concurrency.handlers_mean
    return run.concurrency.client_mean if handlers is None else handlers


def predict(
    costs: Costs, limits: PodLimits, w_s: float, workers: int, slack_s: float | None = None
) -> tuple[Bound, ...]:
    """The largest λ that each resource of a pod allows; `little.binding` picks the least, `explain` words it.

    A request is held for `w_s`. `slack_s` is how far the goal's p99 lies above the upstream's own (default:
    GOAL_SHARE of W). A resource without a limit or a measured cost gives no bound; raises MeasurementError
    if none is left.
    """
    slack_s = GOAL_SHARE * w_s if slack_s is None else slack_s
    bounds = []
    if limits.pool is not None:
        bounds.append(little.by_pool(limits.pool, workers, w_s))
    if limits.permits is not None:
        bounds.append(little.by_permits(limits.permits, workers, w_s))
    bounds += _by_time(costs, limits.cores(workers), w_s, workers, slack_s)
    if limits.memory_bytes is not None and costs.memory_bytes is not None:
        bounds += _by_memory(costs.memory_bytes, limits.memory_bytes, w_s, workers)
    if limits.descriptors is not None and costs.descriptors is not None:
        bounds += _by_descriptors(costs.descriptors, limits.descriptors, w_s, workers)
    if limits.ports is not None:
        bounds.append(little.by_ports(limits.ports, 1, w_s))
    if not bounds:
        raise MeasurementError(f"{costs.target}: nothing that could bind was measured or limited")
    return tuple(bounds)


def explain(bound: Bound) -> str:
    """One line: what binds, with its figures, and what to do about it."""
    advice = ADVICE.get(bound.resource, "")
    return f"{bound.resource}: {bound.rate_max_rps:.4g}/s, {bound.detail}" + (f"; {advice}" if advice else "")


def _cpu(run: Run) -> _Point | None:
    cost_s, rate = run.resources.cpu_s_per_request, run.summary.throughput_rps
    if cost_s is None or not rate:
        return None
    rate /= run.target.workers
    return _Point(rate, cost_s * rate, 0.0)


def _memory(run: Run) -> _Point | None:
    rest, each, held = (
        run.resources.memory_at_rest_bytes,
        run.resources.bytes_per_request_in_flight,
        in_flight(run),
    )
    if rest is None or each is None or not held:
        return None
    workers = run.target.workers
    return _Point(held / workers, (rest + each * held) / workers, rest / workers)


def _descriptors(run: Run) -> _Point | None:
    return _per_process(run, run.resources.descriptors.mean)


def _threads(run: Run) -> _Point | None:
    return _per_process(run, run.resources.os_threads.mean)


def _per_process(run: Run, value: float | None) -> _Point | None:
    held, workers = in_flight(run), run.target.workers
    return _Point(held / workers, value / workers) if held and value is not None else None


def _pause(run: Run) -> _Point | None:
    """The longest collection; 0 where they take so little time that fewer than 1 % of requests meet one."""
    held, pause = in_flight(run), run.resources.gc_pause_s
    if not held or pause.max is None or pause.total is None:
        return None
    workers = run.target.workers
    met = VISITS * pause.total / workers / run.scenario.load.window_s
    return _Point(held / workers, pause.max if met >= 0.01 else 0.0)


def _cost(
    runs: Sequence[Run], read: Callable[[Run], _Point | None], alone: Callable[[Sequence[_Point]], Cost]
) -> Cost | None:
    points = [point for run in runs if (point := read(run)) is not None]
    if not points:
        return None
    loads = [point.load for point in points]
    if max(loads) < SPREAD * min(loads):
        return alone(points)
    line = _line(points)
    # Nothing takes less than nothing at rest: then a line through zero is the better one.
    return line if line.at_rest >= 0 else _through([point._replace(rest=0.0) for point in points])


def _line(points: Sequence[_Point]) -> Cost:
    load, value = (np.array([point[column] for point in points]) for column in (0, 1))
    line = stats.linregress(load, value)
    rest, each = float(line.intercept), float(line.slope)
    low = high = None
    if len(points) > 2:
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(points) - 2) * line.stderr)
        low, high = each - half, each + half
    return Cost(rest, each, low, high, _residual(points, rest, each))


def _through(points: Sequence[_Point]) -> Cost:
    """From a known value at rest: the median over runs of what each request adds."""
    each = bootstrap_median([(point.value - (point.rest or 0.0)) / point.load for point in points])
    rest = float(np.median([point.rest or 0.0 for point in points]))
    value = each.value or 0.0
    return Cost(rest, value, each.low, each.high, _residual(points, rest, value))


_in_proportion = _through


def _whole(points: Sequence[_Point]) -> Cost:
    each = max(1, round(float(np.median([point.value / point.load for point in points]))))
    rest = max(0.0, float(np.median([point.value - each * point.load for point in points])))
    return Cost(rest, each, None, None, _residual(points, rest, each))


def _constant(points: Sequence[_Point]) -> Cost:
    rest = float(np.median([point.value for point in points]))
    return Cost(rest, 0.0, None, None, _residual(points, rest, 0.0))


def _residual(points: Sequence[_Point], rest: float, each: float) -> float:
    lines = [(rest + each * point.load, point.value) for point in points]
    return max(abs(value - line) / line if line else float(value != 0) for line, value in lines)


def _by_time(costs: Costs, cores: int, w_s: float, workers: int, slack_s: float) -> list[Bound]:
    """CPU and latency: where the p99 of queueing and the longest collection together use up the slack."""
    if costs.cpu_s is None or costs.cpu_s.each <= 0:
        return []
    cost_s, idle = costs.cpu_s.each, costs.cpu_s.at_rest * workers / cores
    pause = costs.pause_s or Cost(0.0, 0.0, None, None, 0.0)
    tail_s, full_rps = cost_s * math.log(100), (1 - idle) * cores / cost_s

    def wait_s(rate_rps: float) -> float:
        return tail_s / (1 - idle - rate_rps * cost_s / cores)

    def pause_s(rate_rps: float) -> float:
        return pause.at_rest + max(pause.each, 0.0) * rate_rps * w_s / workers

    def spare_s(rate_rps: float) -> float:
        return slack_s - wait_s(rate_rps) - pause_s(rate_rps)

    if idle >= 1 or spare_s(0.0) <= 0:
        detail = f"the goal leaves {slack_s * 1e3:.3g} ms, a lone request may take {tail_s * 1e3:.3g} ms"
        return [Bound("latency", 0.0, 0, f"{detail} and a collection {pause.at_rest * 1e3:.3g} ms")]
    rate = float(optimize.brentq(spare_s, 0.0, full_rps * (1 - 1e-12)))
    queue_first = wait_s(rate) >= pause_s(rate)
    busy = idle + rate * cost_s / cores
    name = "cpu" if queue_first else "latency"
    detail = (
        f"{cost_s * 1e3:.3g} ms a request on {cores} CPU, {busy:.0%} busy: beyond, queueing "
        f"({wait_s(rate) * 1e3:.3g} ms) and collections ({pause_s(rate) * 1e3:.3g} ms) take a p99 over the "
        f"{slack_s * 1e3:.3g} ms that the goal leaves"
    )
    return [Bound(name, rate, int(rate * w_s), detail)]


def _by_memory(cost: Cost, limit_bytes: int, w_s: float, workers: int) -> list[Bound]:
    if cost.each <= 0:
        return []
    rest = cost.at_rest * workers
    detail = (
        f"({limit_bytes / 2**20:.0f} − {rest / 2**20:.0f} at rest) MiB / "
        f"{cost.each / 2**10:.3g} KiB a request in flight, held for {w_s:g} s"
    )
    return [_by_places("memory", (limit_bytes - rest) / cost.each, w_s, detail)]


def _by_descriptors(cost: Cost, limit: int, w_s: float, workers: int) -> list[Bound]:
    if cost.each <= 0:
        return []
    detail = (
        f"({limit} − {cost.at_rest:.0f} at rest) / {cost.each:.3g} a request × {workers} workers, "
        f"held for {w_s:g} s"
    )
    return [_by_places("descriptors", (limit - cost.at_rest) / cost.each * workers, w_s, detail)]


def _by_places(resource: str, places: float, w_s: float, detail: str) -> Bound:
    held = max(0, int(places))
    return Bound(resource, held / w_s, held, detail)
