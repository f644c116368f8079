"""Little's law, the largest rate that each resource allows, and staffing under random arrivals.

- L = λW holds for averages of any stationary system, whatever its distributions (Little 1961): `concurrency`.
- A resource that offers `limit` places, each held for `held_s` per request, carries λ ≤ limit / held_s. The
  smallest such bound binds: `binding`.
- These are means. Arrivals that come at random need more than the mean, or they wait: the Erlang formulas,
  and M/G/∞ where nothing can wait, say how much more.

Pure functions of numbers. λ is `rate_rps` (requests/second), times are seconds, offered loads are erlangs: λ
times the holding time, a count of places busy on average. Every function raises ValueError for a number out
of its domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import Any, NamedTuple

HEADROOM = 0.05


class Bound(NamedTuple):
    """The largest rate that one resource allows; `limit` is in requests in flight, over the whole pod."""

    resource: str
    rate_max_rps: float
    limit: int
    detail: str


def concurrency(rate_rps: float, w_s: float) -> float:
    """Mean requests in flight, L = λW."""
    return _above("rate_rps", rate_rps) * _above("w_s", w_s)


def by_pool(threads: int, workers: int, w_s: float) -> Bound:
    """A pool of `threads` in each of `workers` processes; a thread is held for the whole request."""
    detail = f"{threads} threads × {workers} workers, each held for {w_s:g} s"
    return _bound("pool", threads * workers, w_s, detail)


def by_permits(permits: int, workers: int, held_s: float) -> Bound:
    """A semaphore of `permits` in each of `workers` processes, each permit held for `held_s` of a request."""
    detail = f"{permits} permits × {workers} workers, each held for {held_s:g} s"
    return _bound("permits", permits * workers, held_s, detail)


def by_connections(connections: int, workers: int, held_s: float) -> Bound:
    """A pool of `connections` to a database in each of `workers` processes, each held for `held_s` of a request."""
    detail = f"{connections} connections × {workers} workers, each held for {held_s:g} s"
    return _bound("connections", connections * workers, held_s, detail)


def by_descriptors(limit: int, base: int, per_request: int, workers: int, w_s: float) -> Bound:
    """Open files: `limit` a process, `base` of them taken at rest, `per_request` by each one in flight."""
    places = descriptor_places(limit, base, per_request)
    detail = f"({limit} − {base} at rest) / {per_request} a request × {workers} workers, held for {w_s:g} s"
    return _bound("descriptors", places * workers, w_s, detail)


def by_ports(ports: int, sources: int, held_s: float, time_wait_s: float = 0.0) -> Bound:
    """Ephemeral ports of a client: `ports` for each of `sources` addresses, towards one destination.

    A port stays taken `time_wait_s` longer where the client closes the connection after each request (60 s on
    Linux), and not at all where it keeps connections open.
    """
    detail = f"{ports} ports × {sources} source addresses, each held for {held_s:g} s"
    if time_wait_s:
        detail += f", then {time_wait_s:g} s in TIME_WAIT"
    return _bound("ports", ports * sources, held_s + time_wait_s, detail)


def binding(bounds: Iterable[Bound]) -> Bound:
    """The bound with the smallest rate, the first of equals."""
    return min(bounds, key=lambda bound: bound.rate_max_rps)


def descriptor_places(limit: int, base: int, per_request: int) -> int:
    """Requests in flight that one process can hold: ⌊(limit − base) / per_request⌋, and never below 0."""
    return max(limit - base, 0) // int(_above("per_request", per_request))


def processes_needed(in_flight: float, capacity: int, headroom: float = HEADROOM) -> int:
    """The fewest processes that carry `in_flight`, each with a share `headroom` of its `capacity` kept free.

    SO_REUSEPORT deals connections out by hash, so a process holds a binomial number of them, whose standard
    deviation is below √capacity: the default keeps five of them free at 10,000. Raises ValueError when one
    process carries nothing.
    """
    if not 0 <= headroom < 1:
        raise ValueError(f"headroom must be in [0, 1), got {headroom}")
    usable = _above("capacity", capacity) * (1 - headroom)
    return math.ceil(_above("in_flight", in_flight) / usable)


def erlang_b(offered: float, servers: int) -> float:
    """Probability that an arrival finds all `servers` busy and is lost (M/G/n/n).

    By the recurrence B(0) = 1, B(n) = aB(n−1) / (n + aB(n−1)): only positive terms, hence stable at any size,
    while the textbook's powers and factorials overflow (Jagerman 1974).
    """
    _above("offered", offered)
    blocked = 1.0
    for n in range(1, _count(servers) + 1):
        blocked = _next_b(offered, n, blocked)
    return blocked


def erlang_c(offered: float, servers: int) -> float:
    """Probability that an arrival finds all `servers` busy and waits (M/M/n); 1 where the queue has no bound.

    C = nB / (n − a(1 − B)) for a < n (Cooper, Introduction to Queueing Theory, 1981).
    """
    return _c_of_b(offered, servers, erlang_b(offered, servers))


def servers_for(offered: float, wait_probability: float) -> int:
    """The smallest n for which `erlang_c(offered, n)` ≤ `wait_probability`; 0.2 s for a million."""
    _above("offered", offered)
    _probability("wait_probability", wait_probability)
    n, blocked = 0, 1.0
    while _c_of_b(offered, n, blocked) > wait_probability:
        n += 1
        blocked = _next_b(offered, n, blocked)
    return n


def square_root_staffing(offered: float, wait_probability: float) -> int:
    """⌈a + β√a⌉, β by the wait wanted: what `servers_for` tends to, and how the spare grows with the load.

    P(wait) = 1 / (1 + βΦ(β)/φ(β)) in the limit of many servers (Halfin and Whitt 1981), inverted by
    bisection.
    """
    _above("offered", offered)
    _probability("wait_probability", wait_probability)
    low, high = 0.0, 40.0
    while (beta := (low + high) / 2) not in (low, high):
        low, high = (beta, high) if halfin_whitt(beta) > wait_probability else (low, beta)
    return math.ceil(offered + high * math.sqrt(offered))


def halfin_whitt(beta: float) -> float:
    """Limit of the probability to wait with n = a + β√a servers, β ≥ 0 (Halfin and Whitt 1981)."""
    if not beta >= 0:
        raise ValueError(f"beta must not be negative, got {beta}")
    normal = NormalDist()
    density = normal.pdf(beta)
    return density / (density + beta * normal.cdf(beta))


def in_flight_quantile(offered: float, probability: float) -> int:
    """The number in flight that is not exceeded with `probability` when nothing waits (M/G/∞).

    Then the number in flight is Poisson with mean λW, for any distribution of W (Takács 1962).
    """
    from scipy import stats  # takes a second to import, and nothing else here needs it

    distribution: Any = stats
    return int(distribution.poisson.ppf(_probability("probability", probability), _above("offered", offered)))


def _bound(resource: str, places: int, held_s: float, detail: str) -> Bound:
    return Bound(resource, _count(places) / _above("held_s", held_s), places, detail)


def _next_b(offered: float, n: int, blocked: float) -> float:
    return offered * blocked / (n + offered * blocked)


def _c_of_b(offered: float, servers: int, blocked: float) -> float:
    return servers * blocked / (servers - offered * (1 - blocked)) if offered < servers else 1.0


def _above(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be finite and above 0, got {value}")
    return value


def _count(value: int) -> int:
    if value < 0:
        raise ValueError(f"a count of places cannot be negative, got {value}")
    return value


def _probability(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {value}")
    return value
