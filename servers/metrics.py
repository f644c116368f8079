"""Counters and gauges in memory-mapped files, so that they are read from outside while a loop is pinned.

The files are those of prometheus_client's multiprocess mode; they live in PROMETHEUS_MULTIPROC_DIR, which the
entry point sets before this module is imported. An update costs about 1 µs and never leaves the process.
"""

from __future__ import annotations

import gc
import json
import os
import struct
import time
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from servers.native import Stack

OUTCOMES = ("ok", "client_error", "refused", "upstream_error", "timed_out", "failed")
STACKS = 64  # kept as evidence of pins
PAUSE = struct.Struct("<ddB")  # end (CLOCK_MONOTONIC, seconds), length (seconds), generation


class Metrics:
    """The metrics of one server process; names follow OpenTelemetry, spelled for Prometheus."""

    def __init__(self, directory: str | None) -> None:
        registry = CollectorRegistry()

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, registry=registry, multiprocess_mode="livesum")

        self.active = gauge("http_server_active_requests", "Requests inside handlers")
        self.waiting = gauge("http_server_waiting_requests", "Connections waiting for a thread")
        self.upstream_active = gauge("http_client_active_requests", "Upstream calls in flight")
        self.duration = Summary(
            "http_server_request_duration_seconds", "Time inside handlers", registry=registry
        )
        requests = Counter(
            "http_server_requests", "Requests answered, by outcome", ["outcome"], registry=registry
        )
        self.permits = gauge("pod_permits", "Permits of the semaphore before the database")
        self.permits_in_use = gauge("pod_permits_in_use", "Permits that requests hold")
        self.connections_pending = gauge(
            "db_client_connection_pending_requests", "Requests waiting for a database connection"
        )
        self.connections_used = gauge("db_client_connection_used", "Database connections in use")
        self._pins = Counter("server_pins", "Times a loop or hub was held", ["handler"], registry=registry)
        self._pinned = Counter(
            "server_pinned_seconds", "Time a loop or hub was held for", ["handler"], registry=registry
        )
        self.outcome = {outcome: requests.labels(outcome) for outcome in OUTCOMES}
        self._directory = None if directory is None else Path(directory)
        self._stacks: set[tuple[str, Stack]] = set()
        if self._directory is not None:
            record_collections(self._directory)

    def count_pin(self, handler: str, seconds: float, stack: Stack) -> None:
        """Count a pin; each stack that is new for its handler goes into `pins_<pid>.jsonl`, as evidence."""
        self._pins.labels(handler).inc()
        self._pinned.labels(handler).inc(seconds)
        found = (handler, stack)
        if self._directory is None or not stack or len(self._stacks) >= STACKS or found in self._stacks:
            return
        self._stacks.add(found)
        evidence = {"handler": handler, "seconds": seconds, "stack": stack}
        with (self._directory / f"pins_{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(evidence) + "\n")


def record_collections(directory: Path) -> None:
    """Record each pause of the garbage collector: totals in a metrics file, every pause in `gc_<pid>.log`.

    A collection can start inside any allocation, also one made while prometheus_client holds its lock; so the
    callback must not take that lock, and writes to a file of its own.
    """
    totals = MmapedDict(str(directory / f"counter_gc-{os.getpid()}.db"))
    name = "process_runtime_gc_pause_seconds"
    keys = [
        mmap_key(name, f"{name}_{part}", [], [], "Collector pauses") for part in ("count_total", "sum_total")
    ]
    log = os.open(directory / f"gc_{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    state = [0.0, 0.0, 0.0]  # start of the running collection, count, sum

    def callback(phase: str, info: dict[str, int]) -> None:
        now = time.monotonic()
        if phase == "start":
            state[0] = now
            return
        pause = now - state[0]
        state[1] += 1
        state[2] += pause
        os.write(log, PAUSE.pack(now, pause, info["generation"]))
        for key, value in zip(keys, state[1:], strict=True):
            totals.write_value(key, value, 0.0)

    gc.callbacks.append(callback)
