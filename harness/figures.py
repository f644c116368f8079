"""What a run is judged by: its figures, flat and plain, so that any of them can be written down in a test.

The experiment fills them in; validity.py judges them. It alone knows what a good figure is.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Figures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured, as plain numbers; None is "not measured". Of the window, where nothing else is said.

    A share is a part of 1; a CPU share a part of one core, except `cpu_*`: of all the cores that are meant.
    """

    regime: Literal["steady", "saturated"] = "steady"
    arrivals: Literal["constant", "stages", "poisson", "closed"] = "constant"
    random_delays: bool = False
    vector_calls: int = 1  # that one request makes (routes.py)
    llm_calls: int = 1
    shared_cpus: bool = False  # pod and harness run on the same CPUs
    w_s: float
    warmup_s: float
    window_s: float
    timeout_s: float

    # requests due inside the window; failed = refused + timed out + other failures
    planned: int | None = None
    sent: int | None = None
    unsent: int | None = None
    unsent_capped: int | None = None  # of these: because load.in_flight_max were in flight
    completed: int | None = None
    failed: int | None = None
    refused: int | None = None
    timed_out: int | None = None
    unfinished: int | None = None
    # the whole run, warm-up included
    sent_in_all: int | None = None
    completed_in_all: int | None = None
    vector_hits: int | None = None
    llm_hits: int | None = None

    rate_offered_rps: float | None = None
    throughput_rps: float | None = None
    service_min_s: float | None = None  # of requests that were answered well
    latency_p99_s: float | None = None
    latency_first_third_s: float | None = None  # medians of the requests due in that third
    latency_last_third_s: float | None = None
    send_lag_p99_s: float | None = None

    # the busiest process of each
    generator_cpu_share: float | None = None
    generator_gc_pause_s: float | None = None
    upstream_cpu_share: float | None = None
    cpu_shared_share: float | None = None  # all CPUs that pod and harness share
    cpu_steal_share: float | None = None

    # Little's law at three places: mean of the gauge, and rate × mean time
    handlers_mean: float | None = None
    handlers_expected: float | None = None
    client_mean: float | None = None
    client_expected: float | None = None
    upstream_mean: float | None = None
    upstream_expected: float | None = None
    handlers_min: float | None = None  # 5th percentile of the gauge's samples
    pool_size: int | None = None  # of all workers; None without a pool

    # a database behind the pod; None without one
    connections_rps: float | None = None  # what its connections carry, and permits before them
    database_errors: int | None = None  # requests of the whole run that lost their connection
    held_at_end: int | None = None  # connections, permits and places in line that were still taken

    # kernel counters: what they grew by from start to end of the run
    listen_overflows: int | None = None
    syn_retransmits: int | None = None
    paws_timewait: int | None = None
    tw_recycled: int | None = None

    # the fullest process of each, and its limit; ports of one source towards one destination
    pod_descriptors: int | None = None
    pod_descriptors_max: int | None = None
    generator_descriptors: int | None = None
    generator_descriptors_max: int | None = None
    ports: int | None = None
    ports_max: int | None = None

    # processes that were gone before the end
    pod_lost: int | None = None
    generator_lost: int | None = None
    upstream_lost: int | None = None
    in_flight_at_start: int | None = None
    source_unchanged: bool | None = None
    # how often the loop or hub was held (servers/pins.py), and for how long in all; of the whole run
    pins: int | None = None
    pins_per_request: float | None = None
    pinned_s: float | None = None
    samples_expected: int | None = None
    samples_missed: int | None = None
