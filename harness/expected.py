"""What the pinning lab should find for each endpoint and model: pure functions of the clients N and of W.

How many calls are at the upstream at once, k, follows from who may go on while one request waits:

| endpoint | threads | loop or hub |
|---|---|---|
| plain, lock-striped | all | all |
| sync-striped | all: it is the request's own thread that waits | one: its only thread waits |
| sync-shared, lock-shared | one: they wait for the lock | one |

The rest is Little's law in a closed system without thinking time (Lazowska et al., Quantitative System
Performance, 1984, §3.3, with Z = 0): X = k / W requests a second, and each client waits R = N / X for its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from harness.run import Run

PREFIX = "/hold/"
THREADS = "threadpool"
CARRIERS = ("asyncio", "trio", "gevent")  # many requests on one thread, which a request may hold


class Endpoint(NamedTuple):
    """What a handler holds over its call; `native` goes with a call that blocks the thread."""

    native: bool
    shared: bool


ENDPOINTS: Mapping[str, Endpoint] = {
    "plain": Endpoint(native=False, shared=False),
    "sync-striped": Endpoint(native=True, shared=False),
    "lock-striped": Endpoint(native=False, shared=False),
    "sync-shared": Endpoint(native=True, shared=True),
    "lock-shared": Endpoint(native=False, shared=True),
}


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """Of one endpoint under one model: calls in flight, requests a second, their median wait, pins for each."""

    upstream_in_flight: int
    throughput_rps: float
    latency_p50_s: float
    pins_per_request: int
    bystander_s: float

    @property
    def bystander_waits(self) -> bool:
        """Whether a bystander's median wait is at least `bystander_s`, W / 2; if not, it is below.

        Where every request is a pin of W, a bystander comes in the middle of one and has to wait for the rest of
        it, if not for those that stand in the same turn of the loop, up to N of them. Where there is none, it
        waits for nobody.
        """
        return bool(self.pins_per_request)

    def is_met_by(self, bystander_p50_s: float) -> bool:
        """Whether a bystander waited where it should and nowhere else."""
        return (bystander_p50_s >= self.bystander_s) == self.bystander_waits


def expect(
    model: str, endpoint: str, clients: int, w_s: float, *, workers: int = 1, pool: int | None = None
) -> Expected | None:
    """The figures for N = `clients` and `w_s`; None for a model or endpoint of which nothing is known.

    `pool` is the size of all workers' pools of threads. Each worker has a loop or hub, and locks, of its own.
    """
    held = ENDPOINTS.get(endpoint)
    if held is None or model not in (THREADS, *CARRIERS):
        return None
    pins = held.native and model in CARRIERS
    at_once = min(clients, workers if pins or held.shared else pool or clients)
    throughput_rps = at_once / w_s
    return Expected(
        upstream_in_flight=at_once,
        throughput_rps=throughput_rps,
        latency_p50_s=clients / throughput_rps,
        pins_per_request=int(pins),
        bystander_s=w_s / 2,
    )


def endpoint_of(run: Run) -> str:
    """The lab's name of the endpoint that was asked; of any other route the route."""
    return run.scenario.load.route.removeprefix(PREFIX)


def of_run(run: Run) -> Expected | None:
    """What this run should have found; None if it was none of the lab's."""
    load, workers = run.scenario.load, run.target.workers
    if load.clients is None or not load.route.startswith(PREFIX):
        return None
    threads = run.target.options.get("threads")
    return expect(
        run.model,
        endpoint_of(run),
        load.clients,
        run.scenario.w_s,
        workers=workers,
        pool=None if threads is None else int(threads) * workers,
    )
