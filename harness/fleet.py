"""How many pods for a rate: what Little's mean asks for, what random arrivals ask for, and what failures ask for.

- The mean: λ / λ max, rounded up. No pod has a place to spare then.
- Staffed: the fewest pods for which the chance that a request finds no place stays below a stated bound. What
  it finds instead decides the law (LAWS): at a pool or permits it waits, Erlang C; where memory, descriptors
  or ports end it fails, and the number in flight is Poisson (M/G/∞); at CPU and latency, λ max itself already
  holds the waiting that the goal allows, and random arrivals add nothing.
- A balancer that knows nothing of the pods deals each of k pods a Poisson stream of λ / k, and a request
  cannot change its pod: each is staffed alone. One that sends to the least loaded makes them one big pool
  (`shared`): the spare grows as √(λW) over all, not for each. Real balancers lie between.

Pure functions of numbers; λ in requests/second, times in seconds. Unless they say otherwise they raise
ScenarioError for a number out of its domain, because it comes from a command line.
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
REQUESTS = 1_000_000


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One model's pod: λ max with its interval (a search's bracket), what binds, at which W, at which cost.

    slack_s is the goal's, above W (None: capacity.GOAL_SHARE of W).
    """

    name: str
    rate_max_rps: Estimate
    bound_by: str
    w_s: float
    slack_s: float | None = None
    workers: int
    limits: PodLimits
    costs: Costs


class Surge(msgspec.Struct, frozen=True, kw_only=True):
    """A rolling update, as Kubernetes has it: "25%" of the pods, or a number of them; its defaults."""

    max_unavailable: str = "25%"
    max_surge: str = "25%"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet of one model's pods for the planned rate and W; None is "not measured".

    pods_mean, pods, pods_shared: by the mean, staffed pod by pod, and staffed as one pool; the figures below
    are those of `pods`. in_flight_peak is exceeded as rarely as a request waits. vcpus_busy is what the work
    takes, vcpus what is reserved (None where a pod's CPUs are not confined). pods_node_lost: with one node
    gone, enough are left. pods_rolling, pods_rolling_peak: enough throughout an update, and the most at once.
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


def pods_mean(rate_rps: float, rate_max_rps: float) -> int:
    """⌈λ / λ max⌉."""
    # 500 / (200 / 20) is 50 pods also where the division leaves 50.000000000000007.
    return max(1, math.ceil(_above("rate", rate_rps) / _carries(rate_max_rps) * (1 - 1e-12)))


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

    A pod has ⌊λ max W⌋ places (M/M/n of that size; for constant W the chance to wait is nearly the same). For
    a resource that is not in LAWS a request is taken to wait.
    """
    fewest, law = pods_mean(rate_rps, rate_max_rps), LAWS.get(bound_by, "waits")
    _above("w", w_s), _probability(wait_probability)
    offered, places = rate_rps * w_s, math.floor(rate_max_rps * w_s * (1 + 1e-9))
    if law == "allowed for":
        return fewest
    if not places:
        raise MeasurementError(f"{bound_by}: a pod that carries {rate_max_rps:g}/s × {w_s:g} s has no place")
    if shared:
        needed = (
            little.servers_for(offered, wait_probability)
            if law == "waits"
            else little.in_flight_quantile(offered, 1 - wait_probability) + 1
        )
        return max(fewest, math.ceil(needed / places))

    def enough(pods: int) -> bool:
        if law == "waits":
            return little.erlang_c(offered / pods, places) <= wait_probability
        # One finds no place where all are taken already.
        return little.in_flight_quantile(offered / pods, 1 - wait_probability) < places

    return _least(fewest, enough)


def pods_for_node_loss(pods: int, nodes: int) -> int:
    """The fewest pods, spread evenly over `nodes`, of which `pods` are left when the fullest node is lost."""
    if nodes < 2:
        raise ScenarioError(f"nodes: a lost node of {nodes} leaves none; use at least 2")
    return pods + math.ceil(pods / (nodes - 1))


def pods_for_update(pods: int, surge: Surge) -> tuple[int, int]:
    """The fewest replicas of which `pods` stay available throughout a rolling update, and the most at once.

    As Kubernetes rounds: unavailable down, surge up, and one unavailable where both are 0.
    """

    def unavailable(replicas: int) -> int:
        down, up = _part("max-unavailable", surge.max_unavailable, replicas), surged(replicas)
        return math.floor(down) if up or down >= 1 else 1

    def surged(replicas: int) -> int:
        return math.ceil(_part("max-surge", surge.max_surge, replicas))

    replicas = _least(pods, lambda n: n - unavailable(n) >= pods)
    return replicas, replicas + surged(replicas)


def plan(
    rate_rps: float,
    w_s: float,
    measured: Sequence[Measured],
    *,
    wait_probability: float = 0.01,
    nodes: int = 3,
    surge: Surge | None = None,
    slack_s: float | None = None,
) -> tuple[Row, ...]:
    """A row for each of `measured`, in their order; `slack_s` is the goal's at this W, None as it was measured.

    Raises ScenarioError, and MeasurementError where no pod was measured or one carries nothing at this W.
    """
    if not measured:
        raise MeasurementError("no measured capacity to plan from: run `harness capacity TARGET` first")
    _above("rate", rate_rps), _above("w", w_s)
    rows = []
    for one in measured:
        bound_by, rate_max = carried(one, w_s, slack_s)
        rows.append(_row(rate_rps, w_s, one, bound_by, rate_max, wait_probability, nodes, surge or Surge()))
    return tuple(rows)


def carried(measured: Measured, w_s: float, slack_s: float | None = None) -> tuple[str, Estimate]:
    """What binds at another W, and λ max there: as the costs predict it, by as much as they erred at theirs."""
    slack_s = measured.slack_s if slack_s is None else slack_s
    if (w_s, slack_s) == (measured.w_s, measured.slack_s):
        return measured.bound_by, measured.rate_max_rps
    here = _binding(measured, measured.w_s, measured.slack_s)
    there = _binding(measured, w_s, slack_s)
    if not here.rate_max_rps or not there.rate_max_rps:
        raise MeasurementError(f"{measured.name} carries nothing at W = {w_s:g} s: {explain(there)}")
    ratio = there.rate_max_rps / here.rate_max_rps
    return there.resource, _map(measured.rate_max_rps, lambda rate: rate * ratio)


def _binding(measured: Measured, w_s: float, slack_s: float | None) -> Bound:
    bounds = predict(measured.costs, measured.limits, w_s, measured.workers, slack_s)
    if measured.bound_by == "hidden pool":
        # Of this one, nothing but the measurement tells.
        places = (measured.rate_max_rps.value or 0.0) * measured.w_s
        bounds = (*bounds, Bound("hidden pool", places / w_s, round(places), f"{places:.0f} places"))
    return little.binding(bounds)


def _row(
    rate_rps: float,
    w_s: float,
    one: Measured,
    bound_by: str,
    rate_max: Estimate,
    wait_probability: float,
    nodes: int,
    surge: Surge,
) -> Row:
    in_flight = rate_rps * w_s

    def staffed(shared: bool) -> Estimate:
        return _fewer(
            rate_max,
            lambda rate: pods_staffed(rate_rps, rate, w_s, bound_by, wait_probability, shared=shared),
        )

    pods = staffed(False)
    count = round(pods.value or 0)
    rolling, peak = pods_for_update(count, surge)
    rest = one.workers * count
    memory, cpu = one.costs.memory_bytes, one.costs.cpu_s
    return Row(
        name=one.name,
        bound_by=bound_by,
        rate_max_rps=rate_max,
        pods_mean=_fewer(rate_max, lambda rate: pods_mean(rate_rps, rate)),
        pods=pods,
        pods_shared=staffed(True),
        in_flight=in_flight,
        in_flight_peak=little.in_flight_quantile(in_flight, 1 - wait_probability),
        memory_bytes=_taken(memory, rest, in_flight),
        vcpus_busy=_taken(cpu, rest, rate_rps),
        vcpus=one.limits.cpus * count or None,
        pod_hours_per_million=_map(pods, lambda n: n * REQUESTS / rate_rps / 3600),
        pods_node_lost=pods_for_node_loss(count, nodes),
        pods_rolling=rolling,
        pods_rolling_peak=peak,
    )


def _taken(cost: Cost | None, processes: int, load: float) -> Estimate | None:
    if cost is None:
        return None
    return _map(Estimate(cost.each, cost.low, cost.high), lambda each: cost.at_rest * processes + each * load)


def _fewer(rate_max: Estimate, pods: Callable[[float], int]) -> Estimate:
    """More carried is fewer pods: the ends change places."""
    ends = _map(rate_max, pods)
    return Estimate(ends.value, ends.high, ends.low, ends.reason)


def _map(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    value, low, high = (
        None if end is None else function(end) for end in (estimate.value, estimate.low, estimate.high)
    )
    return Estimate(value, low, high, estimate.reason)


def _least(start: int, enough: Callable[[int], bool]) -> int:
    """The smallest n ≥ start that is enough, where more never is less so: doubling steps, then halves."""
    low, high = start - 1, start
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _part(name: str, text: str, of: int) -> float:
    number = text.removesuffix("%").strip()
    if not number.isdecimal() or (text.endswith("%") and int(number) >= 100):
        raise ScenarioError(f'{name}: expected a number of pods, or less of them than "100%", found {text!r}')
    return int(number) * of / 100 if text.endswith("%") else int(number)


def _above(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ScenarioError(f"{name}: expected a finite number above 0, found {value:g}")
    return value


def _carries(rate_max_rps: float) -> float:
    if not 0 < rate_max_rps < math.inf:
        raise MeasurementError(
            f"a pod that carries {rate_max_rps:g}/s cannot be counted on: no number is enough"
        )
    return rate_max_rps


def _probability(value: float) -> None:
    if not 0 < value < 1:
        raise ScenarioError(f"wait probability: expected a number between 0 and 1, found {value:g}")
