"""What the articles measured, as data, so that it stands beside what is measured here.

"Execution models under LLM latency" (M. Matei, H. Marc, D. Gabor): Quarkus on a JVM, one pod of 4 CPUs and 2 GB,
W = 20 ms + 20 s, constant arrival rate. It does not say of what its CPU percentage is a share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.admission import Setting

W_S = 20.02
RATE_RPS = 500.0  # the article's question: how many pods for this rate
POOL_THREADS = 200
BYTES_PER_THREAD = 1e6  # “10,000 threads = 10 GB”


@dataclass(frozen=True)
class Load:
    """What one configuration took at one rate; None where the article has no figure."""

    rate_rps: float
    rss_bytes: float
    cpu_percent: float
    latency_p99_s: float | None = None
    os_threads: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True)
class Configuration:
    """A row of the article's table; `rate_max_at_least`: it found no limit up to `rate_max_rps`."""

    name: str
    rate_max_rps: float
    rate_max_at_least: bool
    pods: int
    measured_over_predicted: float
    loads: tuple[Load, ...]
    rate_predicted_rps: float | None = None

    def nearest(self, rate_rps: float) -> Load:
        """Its load closest to a rate."""
        return min(self.loads, key=lambda load: abs(load.rate_rps - rate_rps))


WORKER_POOL = Configuration(
    name="worker pool (200)",
    rate_max_rps=9.96,
    rate_max_at_least=False,
    pods=51,
    measured_over_predicted=9.96 / 9.99,
    loads=(Load(9.96, 181e6, 3.0, latency_p99_s=20.082, os_threads=210, concurrency=182),),
    rate_predicted_rps=9.99,
)
REACTIVE = Configuration(
    name="reactive",
    rate_max_rps=1000,
    rate_max_at_least=True,
    pods=1,
    measured_over_predicted=1.00,
    loads=(
        Load(500, 556e6, 35.0),
        Load(1000, 841e6, 20.0, latency_p99_s=20.126, os_threads=29, concurrency=21_369),
    ),
)
VIRTUAL_THREADS = Configuration(
    name="virtual threads",
    rate_max_rps=1000,
    rate_max_at_least=True,
    pods=1,
    measured_over_predicted=1.00,
    loads=(
        Load(500, 631e6, 42.0),
        Load(1000, 917e6, 34.0, latency_p99_s=20.168, os_threads=38, concurrency=21_118),
    ),
)

# Who plays which part here: threads in a fixed pool; an event loop; blocking code on cheap threads.
COUNTERPARTS: Mapping[str, Configuration] = {
    "threadpool": WORKER_POOL,
    "asyncio": REACTIVE,
    "trio": REACTIVE,
    "gevent": VIRTUAL_THREADS,
}


def counterpart(model: str, w_s: float, pool: int | None) -> Configuration | None:
    """The article's configuration for a model, where W is the article's and so is a pool's size (of all workers)."""
    if abs(w_s / W_S - 1) > 0.005 or pool not in (None, POOL_THREADS):
        return None
    return COUNTERPARTS.get(model)


@dataclass(frozen=True)
class Held:
    """What one endpoint did in a window: completions, calls in flight upstream, pins, median wait."""

    ok: int
    in_flight: int
    latency_p50_s: float
    pins: int | None = None  # of platform threads there can be none


# "Pinning, and admission without a bound" (Spring on JDK 21): medians of three windows of the pinning lab.
PINNING_CLIENTS = 100
PINNING_W_S = 0.2
PINNING_WINDOW_S = 30.0
PLATFORM, VIRTUAL = "platform threads", "virtual threads"
PINNING: Mapping[str, Mapping[str, Held]] = {
    "plain": {PLATFORM: Held(14_009, 100, 0.20693), VIRTUAL: Held(14_449, 100, 0.20590, 0)},
    "sync-striped": {PLATFORM: Held(14_398, 100, 0.20583), VIRTUAL: Held(392, 1, 10.26973, 579)},
    "lock-striped": {PLATFORM: Held(14_446, 100, 0.20544), VIRTUAL: Held(13_435, 100, 0.20634, 0)},
    "sync-shared": {PLATFORM: Held(220, 100, 15.40687), VIRTUAL: Held(246, 2, 20.18352, 345)},
    "lock-shared": {PLATFORM: Held(246, 145, 20.44874), VIRTUAL: Held(174, 100, 20.47181, 0)},
}


@dataclass(frozen=True)
class Admission:
    """One condition of "Pinning, and admission without a bound" (Spring on JDK 21): 300/s for 60 s, cold start.

    Before a database whose pool of 10 connections, 2 s wait, is held for 100 ms; latency is of all answers.
    """

    name: str
    threads: int | None
    permits: int
    p50_ms: float
    p99_ms: float
    ok_count: int
    refused_429: int
    refused_503: int
    in_flight: int
    waiting: int
    unsent: int


ADMISSION = (
    Admission("platform threads", 200, 0, 18_214.94, 20_111.56, 7_593, 0, 2_056, 199, 189, 8_272),
    Admission("virtual threads", None, 0, 2_003.49, 2_114.52, 5_984, 0, 12_016, 605, 595, 0),
    Admission("virtual threads + semaphore", None, 10, 103.66, 223.26, 5_782, 12_218, 0, 52, 0, 0),
)


def admission_counterpart(given: Setting) -> Admission | None:
    """The article's condition for a setting, where load, pool and waits are the article's too."""
    own = (given.rate_rps, given.hold_s, given.connections, given.connection_wait_s, given.permit_wait_s)
    if own != (300.0, 0.1, 10, 2.0, 0.1):
        return None
    same = (found for found in ADMISSION if (found.threads, found.permits) == (given.threads, given.permits))
    return next(same, None)
