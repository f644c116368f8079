"""Admission in front of a database: which conditions are tried, and what arithmetic says of each. Pure.

A request holds one of n connections for h, so a pod answers μ = n/h a second, whatever runs it; λ > μ are offered.
All that differs is where the rest waits, and how it is refused. Before the connections stands a gate of g places,
and who has waited at it for w is refused: the pool itself (g = n, then 503), or a semaphore (g permits, then 429).

- First come, first served: a turn comes after (those in front)/μ, so somebody waits for as long as w only where μw
  stand in line. The tipping point is T* = g + μw requests inside; up to it the gate refuses nobody.
- Who lets everybody in holds g + λw: of the λ that join the line each second μ are served, and all leave after w.
- T threads hold at most T. Up to T* they take μ a second. Above it the T − g in line leave after w each, so by
  Little's law they take m = (T − g)/w, of which μ are served. What is not taken waits for a thread, where no gate
  refuses anybody, until the K clients there are (load.in_flight_max) all wait: then the rest stays unsent.

These are means of a fluid: no arrival is early or late, and nothing but the hold takes time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from harness.scenario import Scenario
from harness.targets import Target, Value

OPTIONS = ("connections", "connection_wait_ms", "permits", "permit_wait_ms")
POOLS = (200, 400)  # threads: below T* = 210 of the scenario `admission`, and above it


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A pod before a database, all its workers together, and what is offered to it."""

    rate_rps: float
    warmup_s: float
    window_s: float
    timeout_s: float
    clients: int | None  # requests in flight at most, at the client
    hold_s: float
    connections: int
    connection_wait_s: float
    permits: int  # 0: no semaphore
    permit_wait_s: float
    threads: int | None

    @property
    def places(self) -> int:
        """g, of the gate that refuses."""
        return self.permits or self.connections

    @property
    def wait_s(self) -> float:
        """w, at that gate."""
        return self.permit_wait_s if self.permits else self.connection_wait_s

    @property
    def room(self) -> float:
        """T: requests that may be inside, as far as threads and clients limit it."""
        return min(self.threads or math.inf, self.clients or math.inf)

    @property
    def carried_rps(self) -> float:
        """μ."""
        return min(self.connections, self.places, self.room) / self.hold_s

    @property
    def tipping_point(self) -> float:
        """T*."""
        return self.places + self.carried_rps * self.wait_s

    @property
    def taken_rps(self) -> float:
        """m: the rate at which requests enter, once the pod holds as many as it can."""
        if self.rate_rps <= self.carried_rps:
            return self.rate_rps
        if self.room <= self.tipping_point:
            return self.carried_rps
        return min(self.rate_rps, (self.room - self.places) / self.wait_s) if self.wait_s else self.rate_rps

    @property
    def inside(self) -> float:
        """Requests in handlers, once the pod holds as many as it can."""
        if self.rate_rps <= self.carried_rps:
            return self.rate_rps * self.hold_s
        return min(self.room, self.places + self.rate_rps * self.wait_s)


class Predicted(NamedTuple):
    """Of the requests due inside the window, when every one sent is answered; latency is of the last ones due."""

    ok: float
    refused_429: float
    refused_503: float
    unsent: float
    in_flight: float  # in handlers
    waiting: float  # for a connection
    ok_latency_s: float


def setting(
    scenario: Scenario, options: Mapping[str, Value], workers: int, threads: int | None
) -> Setting | None:
    """The setting of a run; `threads` are those of all workers. None without a database, or without OPTIONS."""
    if scenario.database is None or any(name not in options for name in OPTIONS):
        return None
    connections, connection_wait_ms, permits, permit_wait_ms = (int(options[name]) for name in OPTIONS)
    load = scenario.load
    return Setting(
        rate_rps=load.rate_rps,
        warmup_s=load.warmup_s,
        window_s=load.window_s,
        timeout_s=load.timeout_s,
        clients=load.in_flight_max,
        hold_s=scenario.database.hold_s,
        connections=connections * workers,
        connection_wait_s=connection_wait_ms / 1000,
        permits=permits * workers,
        permit_wait_s=permit_wait_ms / 1000,
        threads=threads,
    )


def predict(given: Setting) -> Predicted | None:
    """Counts by outcome, and where the requests are.

    The pod starts empty. Requests in flight grow by λ − μ a second until the first is refused, which is the one
    that came when T* were inside, t* = T*/(λ − μ), and leaves w later; from then on by λ − m, up to the K clients.
    So of what is due after t* and is sent, the share 1 − μ/m is refused; of what is due once all K wait, m are sent.

    None where this does not hold: more permits than T* guard nothing, and the pool refuses behind them; and where
    answers come after the time-out, the pod works for clients that have gone.
    """
    rate, carried, taken = given.rate_rps, given.carried_rps, given.taken_rps
    start_s, end_s = given.warmup_s, given.warmup_s + given.window_s
    if given.permits > given.connections + carried * given.connection_wait_s:
        return None
    refuses_s = given.tipping_point / (rate - carried) if taken > carried and rate > carried else math.inf
    all_wait_s, in_flight = _grown(given, refuses_s)
    latency_s = _ok_latency_s(given, in_flight)
    if latency_s > given.timeout_s:
        return None
    unsent = (rate - taken) * _overlap(all_wait_s, start_s, end_s)
    due_unrefused = rate * (given.window_s - _overlap(refuses_s, start_s, end_s))
    sent = rate * given.window_s - unsent
    refused = max(0.0, sent - due_unrefused) * (1 - carried / taken)
    in_line = given.inside if not given.permits else min(given.inside, given.permits)
    return Predicted(
        ok=sent - refused,
        refused_429=refused if given.permits else 0.0,
        refused_503=0.0 if given.permits else refused,
        unsent=unsent,
        in_flight=given.inside,
        waiting=max(0.0, in_line - given.connections),
        ok_latency_s=latency_s,
    )


def _grown(given: Setting, refuses_s: float) -> tuple[float, float]:
    """When all clients wait (never: inf), and the requests in flight at the client when the window ends."""
    rate, end_s = given.rate_rps, given.warmup_s + given.window_s
    if rate <= given.carried_rps:
        return math.inf, given.inside
    first_s = refuses_s + given.wait_s  # the first refusal is answered
    filled = (rate - given.carried_rps) * min(first_s, end_s)
    in_flight = filled + (rate - given.taken_rps) * max(0.0, end_s - first_s)
    if given.clients is None or in_flight < given.clients:
        return math.inf, in_flight
    if filled >= given.clients:
        return given.clients / (rate - given.carried_rps), given.clients
    return first_s + (given.clients - filled) / (rate - given.taken_rps), given.clients


def _ok_latency_s(given: Setting, in_flight: float) -> float:
    """Of a request that is answered well, when so many are in flight at the client."""
    if given.rate_rps <= given.carried_rps:
        return given.hold_s
    if given.taken_rps <= given.carried_rps:
        return in_flight / given.carried_rps
    for_a_thread = max(0.0, in_flight - given.inside)
    return for_a_thread / given.taken_rps + given.wait_s + given.places / given.carried_rps


def _overlap(since_s: float, start_s: float, end_s: float) -> float:
    """How much of the window comes after `since_s`."""
    return max(0.0, end_s - max(since_s, start_s))


class Condition(NamedTuple):
    """A target and the scenario that it is run with."""

    target: Target
    scenario: Scenario


def conditions(
    scenario: Scenario, targets: Sequence[Target], pools: Sequence[int] = POOLS
) -> dict[str, Condition]:
    """By label: each target without and then with a semaphore of as many permits as the pool has connections.

    A target with a pool of threads is run with each of the sizes `pools`.
    """
    options = scenario.pod.options
    found = {}
    for permits in (0, int(options.get("connections", 0))):
        for target in targets:
            sizes: Sequence[int | None] = pools if target.pool else (None,)
            for threads in sizes:
                pool = {target.pool: threads} if target.pool and threads else {}
                changed: dict[str, Value] = {**options, **pool, "permits": permits}
                pod = msgspec.structs.replace(scenario.pod, options=changed)
                part = msgspec.structs.replace(scenario, pod=pod)
                found[label(target.name, threads, permits)] = Condition(target, part)
    return found


def label(target: str, threads: int | None, permits: int) -> str:
    """How a condition is called."""
    return f"{target}{f' {threads}' if threads else ''}{' + semaphore' if permits else ''}"
