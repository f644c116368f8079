"""How many pods for a rate: what Little's mean asks for, what random arrivals ask for, and what failures ask for.

- The mean: λ / λ max, rounded up. No pod has a place to spare then.
- Staffed: the fewest pods for which the chance that a request finds no place stays below a stated bound. What
  becomes of such a request decides the law (LAWS): at a pool or at permits it waits, Erlang C; where memory,
  descriptors or ports end it fails, and the number in flight is Poisson (M/G/∞); at CPU and latency, λ max
  itself holds the queueing that the goal allows, and random arrivals add nothing.
- A balancer that knows nothing of the pods deals each of k pods a Poisson stream of λ / k, and a request
  cannot change its pod: each is staffed alone. One that picks the least loaded makes them one large pool
  (`shared`), whose spare grows as √(λW) once, not for each pod. Real balancers lie between the two.

Pure functions of numbers; λ in requests/second, times in seconds. A number out of its domain is a ValueError,
and a ScenarioError in a Demand, which a user writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from harness import little
from harness.capacity import PodLimits, explain, predict
from harness.costs import Cost, Costs
from harness.errors import MeasurementError, ScenarioError
from harness.little import Bound
from harness.statistics import Estimate

Law = Literal["waits", "fails", "allowed for"]

LAWS: Mapping[str, Law] = {
    "pool": "waits",
    "hidden pool": "waits",
    "permits": "waits",
    "memory": "fails",
    "descriptors": "fails",
    "ports": "fails",
    "cpu": "allowed for",
    "latency": "allowed for",
    "instrument": "allowed for",
}


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet is planned for; raises ScenarioError for what cannot be.

    max_unavailable and max_surge as Kubernetes has them, and its defaults: a number of pods, or a percentage.
    slack_s is how far the goal for p99 lies above the upstream's own; None: as each pod was measured.
    """

    rate_rps: float
    w_s: float
    wait_probability: float = 0.01
    nodes: int = 3
    max_unavailable: str = "25%"
    max_surge: str = "25%"
    slack_s: float | None = None

    def __post_init__(self) -> None:
        for name, value, top in (
            ("rate", self.rate_rps, math.inf),
            ("w", self.w_s, math.inf),
            ("wait probability", self.wait_probability, 1),
        ):
            if not 0 < value < top:
                raise ScenarioError(f"{name}: expected a number above 0 and below {top:g}, found {value:g}")
        if self.nodes < 2:
            raise ScenarioError(f"nodes: with {self.nodes}, losing one leaves none; use at least 2")
        for name, text in (("max-unavailable", self.max_unavailable), ("max-surge", self.max_surge)):
            if not text.removesuffix("%").isdecimal():
                raise ScenarioError(f'{name}: expected a number of pods or "25%", found {text!r}')
        if part_of(self.max_unavailable, 100) >= 100 and self.max_unavailable.endswith("%"):
            raise ScenarioError(f"max-unavailable: {self.max_unavailable} leaves no pod; use less than 100%")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One model's pod: λ max with its interval (a search's bracket), what binds it, at which W and goal."""

    name: str
    rate_max_rps: Estimate
    bound_by: str
    w_s: float
    slack_s: float | None = None
    workers: int
    limits: PodLimits
    costs: Costs


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet of one model's pods; None is "not measured".

    pods_mean, pods, pods_shared: by the mean, staffed pod by pod, and staffed as one; what follows is of
    `pods`. in_flight_peak is exceeded as rarely as a request waits. vcpus_busy is what the work takes, vcpus
    what is reserved (None where CPUs are not confined). pods_node_lost: enough are left with one node gone.
    pods_rolling, pods_rolling_peak: enough are left throughout an update, and there are at most so many.
    """

    name: str
    bound_by: str
    rate_max_rps: Estimate
    pods_mean: Estimate
    pods: Estimate
    pods_shared: Estimate
    in_flight: float
    in_flight_peak: int
    memory_bytes: Estimate | None
    vcpus_busy: Estimate | None
    vcpus: int | None
    pod_hours_per_million: Estimate
    pods_node_lost: int
    pods_rolling: int
    pods_rolling_peak: int


def plan(demand: Demand, measured: Sequence[Measured]) -> tuple[Row, ...]:
    """A row for each of `measured`, in order; MeasurementError for none, or one that carries nothing at W."""
    if not measured:
        raise MeasurementError("no measured capacity to plan from; measure one: harness capacity TARGET")
    return tuple(_row(demand, one, *carried(one, demand.w_s, demand.slack_s)) for one in measured)


def pods_mean(rate_rps: float, rate_max_rps: float) -> int:
    """⌈λ / λ max⌉."""
    # 500 / (200 / 20) is 50 pods, also where the division leaves 50.000000000000007.
    return math.ceil(_above(rate_rps) / _above(rate_max_rps) * (1 - 1e-12))


def pods_staffed(
    rate_rps: float,
    rate_max_rps: float,
    w_s: float,
    bound_by: str,
    wait_probability: float,
    *,
    shared: bool = False,
) -> int:
    """The fewest pods in which an arrival finds no place with at most `wait_probability`.

    A pod has ⌊λ max W⌋ places. Erlang C is for exponential W; with many places it is near for any other. For a
    resource that is not in LAWS, a request waits.
    """
    fewest, law = pods_mean(rate_rps, rate_max_rps), LAWS.get(bound_by, "waits")
    offered, places = rate_rps * _above(w_s), math.floor(rate_max_rps * w_s * (1 + 1e-9))
    if law == "allowed for":
        return fewest
    if not places:
        raise ValueError(f"{bound_by}: a pod of {rate_max_rps:g}/s × {w_s:g} s has no place")

    def needed(erlangs: float) -> int:
        if law == "waits":
            return little.servers_for(erlangs, wait_probability)
        # An arrival that finds as many in flight as there are places finds none.
        return little.in_flight_quantile(erlangs, 1 - wait_probability) + 1

    if shared:
        return max(fewest, math.ceil(needed(offered) / places))
    return _least(fewest, lambda pods: needed(offered / pods) <= places)


def pods_for_node_loss(pods: int, nodes: int) -> int:
    """The fewest pods, spread evenly over `nodes`, of which `pods` are left when the fullest node is lost."""
    if nodes < 2:
        raise ValueError(f"a lost node of {nodes} leaves none")
    return pods + math.ceil(pods / (nodes - 1))


def pods_for_update(pods: int, max_unavailable: str, max_surge: str) -> tuple[int, int]:
    """The fewest replicas of which `pods` stay available throughout a rolling update, and the most at once.

    As Kubernetes rounds them: unavailable down, surge up, and one unavailable where both come to 0.
    """

    def surge(replicas: int) -> int:
        return math.ceil(part_of(max_surge, replicas))

    def left(replicas: int) -> int:
        unavailable = math.floor(part_of(max_unavailable, replicas))
        return replicas - (unavailable or (0 if surge(replicas) else 1))

    replicas = _least(pods, lambda n: left(n) >= pods)
    return replicas, replicas + surge(replicas)


def part_of(text: str, replicas: int) -> float:
    """A number of pods as it is written, or a percentage of `replicas`."""
    return int(text.removesuffix("%")) * replicas / 100 if text.endswith("%") else int(text)


def carried(measured: Measured, w_s: float, slack_s: float | None = None) -> tuple[str, Estimate]:
    """What binds at another W, and λ max there: as the costs predict it, by as much as they erred at theirs."""
    slack_s = measured.slack_s if slack_s is None else slack_s
    if (w_s, slack_s) == (measured.w_s, measured.slack_s):
        return measured.bound_by, measured.rate_max_rps
    here, there = (
        _binding(measured, w, slack) for w, slack in ((measured.w_s, measured.slack_s), (w_s, slack_s))
    )
    if not here.rate_max_rps or not there.rate_max_rps:
        raise MeasurementError(f"{measured.name} carries nothing at W = {w_s:g} s: {explain(there)}")
    ratio = there.rate_max_rps / here.rate_max_rps
    return there.resource, _map(measured.rate_max_rps, lambda rate: rate * ratio)


def _binding(measured: Measured, w_s: float, slack_s: float | None) -> Bound:
    bounds = predict(measured.costs, measured.limits, w_s, measured.workers, slack_s)
    if measured.bound_by == "hidden pool":
        # No limit tells of this one, only the measurement.
        places = (measured.rate_max_rps.value or 0.0) * measured.w_s
        bounds = (*bounds, Bound("hidden pool", places / w_s, round(places), f"{places:.0f} places"))
    return little.binding(bounds)


def _row(demand: Demand, one: Measured, bound_by: str, rate_max: Estimate) -> Row:
    rate, w_s, wait = demand.rate_rps, demand.w_s, demand.wait_probability

    def staffed(shared: bool) -> Estimate:
        return _pods(rate_max, lambda most: pods_staffed(rate, most, w_s, bound_by, wait, shared=shared))

    pods = staffed(False)
    count = int(pods.value or 0)
    rolling, peak = pods_for_update(count, demand.max_unavailable, demand.max_surge)
    return Row(
        name=one.name,
        bound_by=bound_by,
        rate_max_rps=rate_max,
        pods_mean=_pods(rate_max, lambda most: pods_mean(rate, most)),
        pods=pods,
        pods_shared=staffed(True),
        in_flight=rate * w_s,
        in_flight_peak=little.in_flight_quantile(rate * w_s, 1 - wait),
        memory_bytes=_taken(one.costs.memory_bytes, count * one.workers, rate * w_s),
        vcpus_busy=_taken(one.costs.cpu_s, count * one.workers, rate),
        vcpus=one.limits.cpus * count or None,
        pod_hours_per_million=_map(pods, lambda n: n * 1_000_000 / rate / 3600),
        pods_node_lost=pods_for_node_loss(count, demand.nodes),
        pods_rolling=rolling,
        pods_rolling_peak=peak,
    )


def _taken(cost: Cost | None, processes: int, load: float) -> Estimate | None:
    if cost is None:
        return None
    each = Estimate(cost.each, cost.low, cost.high)
    return _map(each, lambda value: cost.at_rest * processes + value * load)


def _pods(rate_max: Estimate, pods: Callable[[float], int]) -> Estimate:
    """A pod that carries more makes fewer of them: the ends change places."""
    ends = _map(rate_max, pods)
    return Estimate(ends.value, ends.high, ends.low, ends.reason)


def _map(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    value, low, high = (
        None if end is None else function(end) for end in (estimate.value, estimate.low, estimate.high)
    )
    return Estimate(value, low, high, estimate.reason)


def _least(start: int, enough: Callable[[int], bool]) -> int:
    """The smallest n ≥ start that is enough, where more is never less so: doubling steps, then halves."""
    low, high = start - 1, start
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _above(value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"expected a finite number above 0, got {value}")
    return value
