"""What requests cost a pod, as straight lines drawn through a few modest runs.

A cost is taken per process: so much at rest, and so much for each request per second (CPU) or each request in
flight (memory, descriptors, threads, the longest collection). Two rates, one at least SPREAD times the other,
give the slope by itself, whatever stands at rest. Where all runs have one rate, what stands at rest must be
known or assumed: CPU 0; memory as recorded before the load, so that what only the first requests allocate is
counted in; descriptors per request a whole number; threads and collections do not grow.

How requests wait for the CPU is fitted too, where the runs were busy enough to tell: the p99 above W against
ρ / (1 − ρ), the form that a queue of one server has (Kingman 1961), with its two numbers measured. They depend on
the arrivals: evenly spaced requests hardly meet, random ones do.

Pure functions of runs. Reference: Draper and Smith, Applied Regression Analysis, 1998, ch. 1 (the interval).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import scipy.stats

from harness.errors import MeasurementError
from harness.run import Run
from harness.statistics import CONFIDENCE, bootstrap_median

SPREAD = 2.0
QUEUE_SPREAD = 0.5  # of ρ / (1 − ρ) between the runs; below that, what rises is lost in the noise
VISITS = 3  # how often a request needs its server: it arrives, and each of its two calls returns

# scipy fills its namespaces at run time, out of mypy's sight.
stats: Any = scipy.stats


class Cost(msgspec.Struct, frozen=True):
    """A line: `at_rest` + `each` × load, of one process; `low` to `high` is the 95 % interval of `each`.

    None where the runs are too few for one. `residual` is how far the furthest run is from the line, as a
    share of it.
    """

    at_rest: float
    each: float
    low: float | None = None
    high: float | None = None
    residual: float = 0.0


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What a target takes; None is "not measured in any run".

    cpu_s: cores at rest, CPU seconds per request. queue_s: p99 − W without load, and per ρ / (1 − ρ), collections
    left out. The others: at rest, and per request in flight.
    """

    target: str
    runs: int
    cpu_s: Cost | None = None
    memory_bytes: Cost | None = None
    descriptors: Cost | None = None
    threads: Cost | None = None
    pause_s: Cost | None = None
    queue_s: Cost | None = None


class _Point(NamedTuple):
    """One run, of one process: the value at a load, and at rest where that is known."""

    load: float
    value: float
    rest: float = 0.0


def fit(runs: Sequence[Run]) -> Costs:
    """Costs of one target from its valid steady runs; the others are left out.

    Raises MeasurementError without a valid steady run, and for runs of different targets or options.
    """
    steady = [run for run in runs if is_usable(run)]
    if not steady:
        raise MeasurementError(
            f"none of {len(runs)} runs is valid and steady: no cost can be fitted; run again"
        )
    kinds = {(run.target.name, tuple(sorted(run.target.options.items()))) for run in steady}
    if len(kinds) > 1:
        raise MeasurementError(f"{len(kinds)} targets or options among the runs: give those of one")
    return Costs(
        target=steady[0].target.name,
        runs=len(steady),
        cpu_s=_cost(steady, _cpu, _through_rest),
        memory_bytes=_cost(steady, _memory, _through_rest),
        descriptors=_cost(steady, _descriptors, _whole),
        threads=_cost(steady, _threads, _constant),
        pause_s=_cost(steady, _pause, _constant),
        queue_s=_queue(steady),
    )


def is_usable(run: Run) -> bool:
    """Whether a run says what requests cost: valid, and not saturated on purpose."""
    return run.verdict.valid and run.scenario.load.regime == "steady"


def in_flight(run: Run) -> float | None:
    """Mean requests in flight by the target's own gauge, or else as its clients saw it."""
    handlers = run.concurrency.handlers_mean
    return run.concurrency.client_mean if handlers is None else handlers


def _cpu(run: Run) -> _Point | None:
    cost_s, rate_rps = run.resources.cpu_s_per_request, run.summary.throughput_rps
    if cost_s is None or not rate_rps:
        return None
    rate_rps /= run.target.workers
    return _Point(rate_rps, cost_s * rate_rps)


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


def _pause(run: Run) -> _Point | None:
    """The longest collection; 0 where collecting takes so little time that under 1 % of requests meet it."""
    pause, workers = run.resources.gc_pause_s, run.target.workers
    held = in_flight(run)
    if not held or pause.max is None or pause.total is None:
        return None
    met = VISITS * pause.total / workers / run.scenario.load.window_s
    return _Point(held / workers, pause.max if met >= 0.01 else 0.0)


def _overhead(run: Run) -> _Point | None:
    """p99 above W, less the collections in it, against ρ / (1 − ρ); W is the upstream's p99 if it is constant."""
    cpu_percent, p99, workers = run.resources.cpu_percent, run.summary.latency_s.p99, run.target.workers
    delays = (run.scenario.upstream.vector, run.scenario.upstream.llm)
    if cpu_percent is None or p99 is None or any(delay.kind != "constant" for delay in delays):
        return None
    busy = cpu_percent / 100 / min(run.scenario.pod.cpus or workers, workers)
    pause = _pause(run)
    above_s = p99 - run.scenario.w_s - (pause.value if pause else 0.0)
    return _Point(busy / (1 - busy), max(above_s, 0.0)) if busy < 1 else None


def _queue(runs: Sequence[Run]) -> Cost | None:
    points = [point for run in runs if (point := _overhead(run)) is not None]
    loads = [point.load for point in points]
    if not points or max(loads) - min(loads) < QUEUE_SPREAD:
        return None
    line = _line(points)
    # A queue does not shrink with load, nor is there less than none without.
    if line.each < 0:
        return _constant(points)
    return line if line.at_rest >= 0 else _through_rest([point._replace(rest=0.0) for point in points])


def _per_process(run: Run, value: float | None) -> _Point | None:
    held, workers = in_flight(run), run.target.workers
    return _Point(held / workers, value / workers) if held and value is not None else None


def _cost(
    runs: Sequence[Run], read: Callable[[Run], _Point | None], of_one_load: Callable[[Sequence[_Point]], Cost]
) -> Cost | None:
    points = [point for run in runs if (point := read(run)) is not None]
    if not points:
        return None
    loads = [point.load for point in points]
    if max(loads) < SPREAD * min(loads):
        return of_one_load(points)
    line = _line(points)
    # Nothing takes less than nothing at rest: a line that says so is noise, and one through zero does better.
    return line if line.at_rest >= 0 else _through_rest([point._replace(rest=0.0) for point in points])


def _line(points: Sequence[_Point]) -> Cost:
    load, value = (np.array([point[column] for point in points]) for column in (0, 1))
    line = stats.linregress(load, value)
    rest, each = float(line.intercept), float(line.slope)
    if len(points) < 3:
        return _drawn(points, rest, each)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(points) - 2) * line.stderr)
    return _drawn(points, rest, each, each - half, each + half)


def _through_rest(points: Sequence[_Point]) -> Cost:
    each = [(point.value - point.rest) / point.load for point in points]
    interval = bootstrap_median(each)
    rest = float(np.median([point.rest for point in points]))
    return _drawn(points, rest, float(np.median(each)), interval.low, interval.high)


def _whole(points: Sequence[_Point]) -> Cost:
    each = max(1, round(float(np.median([point.value / point.load for point in points]))))
    return _drawn(points, max(0.0, float(np.median([p.value - each * p.load for p in points]))), each)


def _constant(points: Sequence[_Point]) -> Cost:
    return _drawn(points, float(np.median([point.value for point in points])), 0.0)


def _drawn(
    points: Sequence[_Point], rest: float, each: float, low: float | None = None, high: float | None = None
) -> Cost:
    off = [(abs(point.value - rest - each * point.load), rest + each * point.load) for point in points]
    residual = max(apart / abs(line) if line else float(apart > 0) for apart, line in off)
    return Cost(rest, each, low, high, residual)
