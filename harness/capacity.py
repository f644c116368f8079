"""What one pod carries and what stops it: the largest λ by resource, from costs and the pod's limits.

Each resource of a pod bounds λ on its own, and the smallest bound binds. What stands in places (pool, permits,
memory, descriptors, ports) is Little's law. CPU and the latency goal are one story. A process serves on one
thread, so that a request of c seconds of CPU meets a queue, whose p99 is

    p99 = base + rise × ρ / (1 − ρ),   ρ = λ c / cores

with base and rise as fitted from runs that were busy enough to tell them (costs.py). Otherwise both are taken as
c ln 100, those of M/M/1 (Gross et al., Fundamentals of Queueing Theory, 2008, §2.2). That errs on the safe side:
a request is served in several short visits, which take as long on average and have a shorter tail, and arrivals
at a constant rate queue less than random ones. A request may also meet a garbage collection, which stops all
others, the longer the more are in flight. Both eat from the slack that the goal leaves above W. At the rate where
it is gone, the larger eater is what binds: "cpu", or "latency", which stands for the collector. The other's bound
is what it would allow alone.

A bound says nothing of how a pod behaves beyond it; search.py checks it with runs. Pure functions of numbers;
times in seconds, λ in requests/second.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import msgspec
import scipy.optimize

from harness import little
from harness.costs import Cost, Costs, fit
from harness.errors import MeasurementError
from harness.little import Bound
from harness.statistics import Estimate

__all__ = ["ADVICE", "Cost", "Costs", "PodLimits", "explain", "fit", "predict", "rate_max"]

GOAL_SHARE = 0.01  # the goal where none is stated: p99 ≤ 1.01 W

ADVICE = {
    "pool": "raise the pool (--set pod.threads=…), or add workers",
    "permits": "raise the permits, if what they protect allows it",
    "cpu": "spend less CPU on a request, or give the pod more CPUs and as many workers",
    "latency": "spare the collector (--set pod.gc=freeze), spread over more workers, or relax the goal",
    "memory": "raise the pod's memory, or hold less per request in flight",
    "descriptors": "raise the limit of open files, or add workers: it counts per process",
    "ports": "spread the upstream over more addresses",
    "hidden pool": "look in the target's settings for a bound of this size on connections, threads or permits",
}

# scipy fills its namespaces at run time, out of mypy's sight.
optimize: Any = scipy.optimize


class PodLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod may use; None does not bound it.

    cpus = 0 is one for each worker. pool, permits and descriptors are those of one process; memory and ports
    those of the pod. Where a verdict wants a margin (as Limits.descriptors_share), give the limit less that.
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


def predict(
    costs: Costs, limits: PodLimits, w_s: float, workers: int, slack_s: float | None = None
) -> tuple[Bound, ...]:
    """The largest λ by resource; `little.binding` picks the least of them, `explain` puts one into words.

    A request is held for `w_s`. `slack_s` is how far the goal for p99 lies above the upstream's own p99 (None:
    GOAL_SHARE × W). A resource without a limit or without a measured cost gives no bound; raises
    MeasurementError where none is left.
    """
    goal = GOAL_SHARE * w_s if slack_s is None else slack_s
    bounds: list[Bound | None] = [
        little.by_pool(limits.pool, workers, w_s) if limits.pool is not None else None,
        little.by_permits(limits.permits, workers, w_s) if limits.permits is not None else None,
        *_by_time(costs, limits.cores(workers), workers, w_s, goal),
        _by_memory(costs.memory_bytes, limits.memory_bytes, workers, w_s),
        _by_descriptors(costs.descriptors, limits.descriptors, workers, w_s),
        little.by_ports(limits.ports, 1, w_s) if limits.ports is not None else None,
    ]
    found = tuple(bound for bound in bounds if bound is not None)
    if not found:
        raise MeasurementError(f"{costs.target}: nothing that could bind it was measured or limited")
    return found


def rate_max(
    costs: Costs, limits: PodLimits, w_s: float, workers: int, slack_s: float | None = None
) -> Estimate:
    """λ max with the interval that the costs' own intervals give it; without those, low = high = value."""
    value, low, high = (
        little.binding(predict(at, limits, w_s, workers, slack_s)).rate_max_rps
        for at in (costs, _at_end(costs, "high"), _at_end(costs, "low"))
    )
    return Estimate(value, low, high)


def explain(bound: Bound) -> str:
    """One line: what binds, with its figures, and what to do about it."""
    words = f"{bound.resource}: {bound.rate_max_rps:.4g}/s; {bound.detail}"
    return f"{words}; {ADVICE[bound.resource]}" if bound.resource in ADVICE else words


class _Eaters(NamedTuple):
    """What eats the goal's slack: queueing and collections; `load` is ρ for each request/second."""

    slack_s: float
    base_s: float
    rise_s: float
    idle: float
    load: float
    pause_s: float
    pause_growth_s: float

    def queue_s(self, rate_rps: float) -> float:
        busy = self.idle + rate_rps * self.load
        return self.base_s + self.rise_s * busy / (1 - busy)

    def collection_s(self, rate_rps: float) -> float:
        return self.pause_s + self.pause_growth_s * rate_rps

    def left_s(self, rate_rps: float) -> float:
        return self.slack_s - self.queue_s(rate_rps) - self.collection_s(rate_rps)

    def rate_rps(self) -> float:
        """Where nothing is left; a queue that did not rise in any run leaves something up to ρ = 1."""
        most = (1 - self.idle) / self.load * (1 - 1e-12)
        return most if self.left_s(most) >= 0 else float(optimize.brentq(self.left_s, 0.0, most))

    def queue_alone_rps(self) -> float:
        queue = (self.slack_s - self.base_s) / self.rise_s if self.rise_s else math.inf
        busy = queue / (1 + queue) if queue < math.inf else 1.0
        return max(0.0, busy - self.idle) / self.load

    def collection_alone_rps(self) -> float:
        return (self.slack_s - self.pause_s) / self.pause_growth_s if self.pause_growth_s else math.inf


def _by_time(costs: Costs, cores: int, workers: int, w_s: float, slack_s: float) -> list[Bound]:
    cpu, pause = costs.cpu_s, costs.pause_s or Cost(0.0, 0.0)
    if cpu is None or cpu.each <= 0:
        return []
    tail_s = cpu.each * math.log(100)
    queue = costs.queue_s or Cost(tail_s, tail_s)
    eaters = _Eaters(
        slack_s=slack_s,
        base_s=queue.at_rest,
        rise_s=queue.each,
        idle=cpu.at_rest * workers / cores,
        load=cpu.each / cores,
        pause_s=pause.at_rest,
        pause_growth_s=max(pause.each, 0.0) * w_s / workers,
    )
    if eaters.idle >= 1 or eaters.left_s(0.0) <= 0:
        lone = f"{eaters.base_s * 1e3:.3g} ms of CPU and {pause.at_rest * 1e3:.3g} ms of collection"
        return [
            Bound("latency", 0.0, 0, f"the goal leaves {slack_s * 1e3:.3g} ms, the p99 alone takes {lone}")
        ]
    rate = eaters.rate_rps()
    blame_cpu = eaters.queue_s(rate) >= eaters.collection_s(rate)
    cpu_rps = rate if blame_cpu else eaters.queue_alone_rps()
    gc_rps = eaters.collection_alone_rps() if blame_cpu else rate
    busy = eaters.idle + cpu_rps * eaters.load
    cpu_detail = (
        f"{cpu.each * 1e3:.3g} ms a request on {cores} CPU; beyond {busy:.0%} busy, "
        "queueing takes the p99 over the goal"
    )
    bounds = [Bound("cpu", cpu_rps, int(cpu_rps * w_s), cpu_detail)]
    if gc_rps < math.inf:
        gc_detail = f"collections of {eaters.collection_s(gc_rps) * 1e3:.3g} ms, the goal leaves {slack_s * 1e3:.3g} ms"
        bounds.append(Bound("latency", gc_rps, int(gc_rps * w_s), gc_detail))
    return bounds


def _by_memory(cost: Cost | None, limit_bytes: int | None, workers: int, w_s: float) -> Bound | None:
    if cost is None or limit_bytes is None or cost.each <= 0:
        return None
    rest = cost.at_rest * workers
    detail = (
        f"({limit_bytes / 2**20:.0f} − {rest / 2**20:.0f} at rest) MiB / {cost.each / 2**10:.3g} KiB a request, "
        f"held for {w_s:g} s"
    )
    return _by_places("memory", (limit_bytes - rest) / cost.each, w_s, detail)


def _by_descriptors(cost: Cost | None, limit: int | None, workers: int, w_s: float) -> Bound | None:
    if cost is None or limit is None or cost.each <= 0:
        return None
    detail = (
        f"({limit} − {cost.at_rest:.0f} at rest) / {cost.each:.3g} a request × {workers} workers, "
        f"held for {w_s:g} s"
    )
    return _by_places("descriptors", (limit - cost.at_rest) / cost.each * workers, w_s, detail)


def _by_places(resource: str, places: float, w_s: float, detail: str) -> Bound:
    held = max(0, int(places))
    return Bound(resource, held / w_s, held, detail)


def _at_end(costs: Costs, end: Literal["low", "high"]) -> Costs:
    ends = {
        name: msgspec.structs.replace(cost, each=edge)
        for name in ("cpu_s", "memory_bytes", "descriptors", "pause_s")
        if (cost := getattr(costs, name)) is not None and (edge := getattr(cost, end)) is not None
    }
    return msgspec.structs.replace(costs, **ends)
