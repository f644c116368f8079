"""The record of one run, run.json: its keys are what reports, gates and other tools rely on.

A key never changes its meaning within a schema version. Units stand in the names; None is "not measured".
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from harness.scenario import Scenario
from harness.validity import Verdict


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What was started: the command line as it ran, the resolved options, the number of processes."""

    name: str
    argv: tuple[str, ...]
    options: dict[str, str | int] = {}
    workers: int


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it ran; absolute figures compare only within one class."""

    cpus: int
    model_name: str
    memory_bytes: int
    kernel: str
    python: str
    class_name: str = msgspec.field(name="class")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Which code ran: commit (None outside git), uncommitted changes, a hash of the files at both ends."""

    commit: str | None = None
    dirty: bool | None = None
    hash_start: str | None = None
    hash_end: str | None = None


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """t0_s on the monotonic clock; the others are offsets from it."""

    t0_s: float
    window_start_s: float
    window_end_s: float
    drain_end_s: float


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Exact percentiles of n values, None where n cannot carry one; p99_low to p99_high: 95 %."""

    n: int
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    p99_low: float | None = None
    p99_high: float | None = None
    max: float | None = None


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """How late requests were sent."""

    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Of the requests due inside the window; refused and timed_out are parts of failed.

    latency_s counts from when a request was due, service_s from when it was sent; both of completed requests.
    statuses counts whole answers that came in time, by HTTP status; latency_all_s is of all of these.
    """

    planned: int
    sent: int
    unsent: int
    completed: int
    failed: int
    refused: int
    timed_out: int
    unfinished: int
    rate_offered_rps: float | None = None
    throughput_rps: float | None = None
    latency_s: Latency
    service_s: Latency
    send_lag_s: Lag = Lag()
    statuses: dict[str, int] = {}
    latency_all_s: Latency = Latency(n=0)


class MeanPeak(msgspec.Struct, frozen=True, kw_only=True):
    """Of the samples inside the window."""

    mean: float | None = None
    peak: float | None = None


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """Garbage collections of the pod inside the window."""

    total: float | None = None
    max: float | None = None
    count: int | None = None


class GeneratorUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the load cost; cpu_percent_max is the busiest process, of one core."""

    cpu_s_per_request: float | None = None
    cpu_percent_max: float | None = None
    rss_peak_bytes: int | None = None


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What the pod's whole process tree took; cpu_percent is of one core."""

    rss_bytes: MeanPeak = MeanPeak()
    pss_bytes: MeanPeak = MeanPeak()
    os_threads: MeanPeak = MeanPeak()
    descriptors: MeanPeak = MeanPeak()
    cpu_percent: float | None = None
    cpu_s_per_request: float | None = None
    gc_pause_s: Pauses = Pauses()
    memory_at_rest_bytes: float | None = None
    bytes_per_request_in_flight: float | None = None
    generator: GeneratorUse = GeneratorUse()


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """Mean requests in flight during the window, seen from three places."""

    handlers_mean: float | None = None
    client_mean: float | None = None
    upstream_mean: float | None = None


Stack = tuple[str, ...]  # "file:line function", outermost first


class HandlerPins(msgspec.Struct, frozen=True, kw_only=True):
    """How often one handler held the loop or hub, for how long in all, and the first stacks caught in the act."""

    count: int
    seconds: float
    per_request: float | None = None
    stacks: tuple[Stack, ...] = ()


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """What held the loop or hub without working (servers/pins.py): by handler, and in all.

    Of the whole run, warm-up and drain included; `per_request` is for each request that completed in it.
    """

    count: int
    seconds: float
    per_request: float | None = None
    handlers: dict[str, HandlerPins] = {}


class Bystander(msgspec.Struct, frozen=True, kw_only=True):
    """How long a light request beside the load waited, of the `n` that were due inside the window.

    `unanswered` ones got no good answer within timeout_s, and count as that long: where a percentile reaches
    them it is a lower bound. None where n cannot carry it.
    """

    route: str
    timeout_s: float
    n: int
    unanswered: int
    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class Database(msgspec.Struct, frozen=True, kw_only=True):
    """What stood before the database: the permits there were, those in use; requests with and for a connection."""

    permits: float | None = None
    permits_in_use: MeanPeak = MeanPeak()
    used: MeanPeak = MeanPeak()
    waiting: MeanPeak = MeanPeak()


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Before the run: λ max by resource (`bounds`), the least one, L = λW; after: measured / predicted."""

    rate_max_rps: float | None = None
    concurrency: float | None = None
    bound_by: str | None = None
    bounds: dict[str, float] = {}
    ratio: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run, whole; `created` is UTC."""

    VERSION: ClassVar[int] = 1

    schema_version: Literal[1] = 1
    id: str
    created: str
    model: str
    target: Target
    scenario: Scenario
    machine: Machine
    versions: dict[str, str]
    source: Source
    phases: Phases
    summary: Summary
    resources: Resources
    concurrency: Concurrency
    pins: Pins | None = None
    bystander: Bystander | None = None
    database: Database | None = None
    prediction: Prediction
    verdict: Verdict
    notes: tuple[str, ...] = ()
