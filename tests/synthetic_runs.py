"""Runs that never ran, with the columns that they would have left: for tests of what reads runs.

The pod is a model: an unbounded one answers W and a little later; a pool of N starts a request when the N-th one
before it is done, which is what a fixed pool of threads does.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pyarrow.lib import Table

from harness import records, scenario, statistics
from harness.figures import Figures
from harness.run import (
    Concurrency,
    Lag,
    Latency,
    Machine,
    MeanPeak,
    Pauses,
    Phases,
    Prediction,
    Resources,
    Run,
    Source,
    Summary,
    Target,
)
from harness.sweep import Sweep
from harness.validity import judge

Floats = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]

RAG = scenario.load("rag")


@dataclass(frozen=True)
class Pod:
    """What to pretend: a target at a rate, and what a request, and a request in flight, cost it."""

    target: str = "asyncio"
    model: str = "asyncio"
    options: Mapping[str, str | int] = field(
        default_factory=lambda: {"loop": "asyncio", "gc": "default", "backlog": 4096}
    )
    workers: int = 1
    workers_asked: int | Literal["auto"] = "auto"
    scenario: str = "rag"
    description: str = RAG.description
    route: str = "/rag"
    machine: str = "x86_64, 2 CPUs, 24 GiB"
    rate_rps: float = 500.0
    regime: Literal["steady", "saturated"] = "steady"
    w_s: float = 20.02
    window_s: float = 60.06
    pool: int | None = None
    overhead_s: float = 0.004
    cpu_s_per_request: float = 0.6e-3
    bytes_at_rest: float = 23e6
    bytes_per_request: float = 6300.0
    pause_s: float = 0.0  # of a full collection, each ten seconds
    gauges: bool = True
    valid: bool = True
    repeat: int = 0
    notes: tuple[str, ...] = ()
    axis: str | None = field(default=None, repr=False)  # of a sweep that the run belongs to

    @property
    def created(self) -> datetime:
        return datetime(2026, 11, 30, 9, self.repeat % 60, tzinfo=UTC)

    @property
    def id(self) -> str:
        """As records.new_id makes them, but the same each time for the same pod."""
        return records.new_id(self.target, self.scenario, self.created)[:-4] + f"{self._digest:04x}"

    @property
    def seed(self) -> int:
        return self._digest

    @property
    def _digest(self) -> int:
        return zlib.crc32(repr(self).encode()) & 0xFFFF


THREADS = Pod(
    target="threadpool",
    model="threadpool",
    options={"threads": 200, "queue": 0, "gc": "default", "backlog": 4096},
    pool=200,
    bytes_per_request=40e3,
)
TRIO = Pod(target="trio", model="trio", options={"gc": "default", "backlog": 4096}, bytes_per_request=8400.0)
GEVENT = Pod(
    target="gevent", model="gevent", options={"gc": "default", "backlog": 4096}, bytes_per_request=16e3
)


def published(results: Path, pod: Pod, *, discarded: str | None = None) -> Path:
    """Write the pod's run as an experiment does; its directory."""
    requests, collections = _requests(pod), _collections(pod)
    samples = _samples(pod, requests)
    run = _run(pod, requests, samples, collections)
    staging = records.stage(results, run.id)
    records.write_run(staging, run, requests, samples)
    pq.write_table(Table.from_pydict(dict(collections)), staging / "gc.parquet")
    return records.publish(staging, discarded=discarded)


def repeated(results: Path, pod: Pod, times: int = 3) -> None:
    """The same condition several times."""
    for repeat in range(times):
        published(results, replace(pod, repeat=repeat))


def _warmup_s(pod: Pod) -> float:
    return 1.25 * pod.w_s


def _requests(pod: Pod) -> Columns:
    chance = np.random.default_rng(pod.seed)
    due = np.arange(round(pod.rate_rps * (_warmup_s(pod) + pod.window_s))) / pod.rate_rps
    sent = due + chance.exponential(0.0004, due.size)
    started = sent.copy()
    if pod.pool is not None:
        for i in range(pod.pool, due.size):
            started[i] = max(sent[i], started[i - pod.pool] + pod.w_s)
    # Whoever meets a pause waits for its rest, at the start or at the end.
    paused = np.minimum.reduce([(t % 10.0) for t in (started, started + pod.w_s)])
    late = chance.lognormal(np.log(pod.overhead_s), 0.6, due.size) + np.maximum(pod.pause_s - paused, 0.0)
    done = started + pod.w_s + late
    end = _warmup_s(pod) + pod.window_s + 1.25 * pod.w_s
    outcome = np.where(done <= end, "ok", "unfinished")
    done = np.where(done <= end, done, np.nan)
    return {
        "sequence": np.arange(due.size),
        "due_s": due,
        "sent_s": sent,
        "first_byte_s": done,
        "done_s": done,
        "status": np.where(np.isnan(done), 0, 200),
        "outcome": outcome,
        "reason": np.full(due.size, ""),
        "bytes": np.full(due.size, 300),
        "source": np.zeros(due.size, dtype=np.int8),
    }


def _collections(pod: Pod) -> Columns:
    young = np.arange(0.0, _warmup_s(pod) + pod.window_s + pod.w_s if pod.pause_s else 0.0, 0.25)
    full = np.arange(10.0, _warmup_s(pod) + pod.window_s + pod.w_s if pod.pause_s else 0.0, 10.0)
    return {
        "end_s": np.concatenate([young, full]),
        "pause_s": np.concatenate([np.full(young.size, 0.0006), np.full(full.size, pod.pause_s)]),
        "generation": np.concatenate([np.zeros(young.size), np.full(full.size, 2)]).astype(np.uint8),
    }


def _under_way(started: Floats, ended: Floats, at: Floats) -> Floats:
    ends = np.sort(np.where(np.isnan(ended), np.inf, ended))
    begun = np.searchsorted(np.sort(started), at, side="right")
    return np.asarray(begun - np.searchsorted(ends, at, side="right"), dtype=np.float64)


def _samples(pod: Pod, requests: Columns) -> Columns:
    end = _warmup_s(pod) + pod.window_s + 1.25 * pod.w_s
    t_s = np.arange(0.0, end, 1.0)
    client = _under_way(requests["sent_s"], requests["done_s"], t_s)
    handlers = np.minimum(client, pod.pool or np.inf)
    return {
        "t_s": t_s,
        "in_flight": handlers if pod.gauges else np.full(t_s.size, np.nan),
        "rss_bytes": pod.bytes_at_rest + pod.bytes_per_request * handlers,
    }


def _latency(values: Floats) -> Latency:
    found = statistics.summarize(values)
    return Latency(**{name: getattr(found, name) for name in Latency.__struct_fields__})


def _summary(pod: Pod, requests: Columns) -> Summary:
    start, end = _warmup_s(pod), _warmup_s(pod) + pod.window_s
    due, done = requests["due_s"], requests["done_s"]
    inside = (due >= start) & (due < end)
    ok = inside & (requests["outcome"] == "ok")
    planned, completed = int(inside.sum()), int(ok.sum())
    latency = _latency((done - due)[ok])
    return Summary(
        planned=planned,
        sent=planned,
        unsent=0,
        completed=completed,
        failed=0,
        refused=0,
        timed_out=0,
        unfinished=planned - completed,
        rate_offered_rps=planned / pod.window_s,
        throughput_rps=float(((done >= start) & (done < end)).sum() / pod.window_s),
        latency_s=latency,
        service_s=latency,
        send_lag_s=Lag(p50=0.0003, p99=0.0018, max=0.004),
    )


def _resources(pod: Pod, summary: Summary, handlers: float, collections: Columns) -> Resources:
    rss = pod.bytes_at_rest + pod.bytes_per_request * handlers
    cpu_rps = (summary.throughput_rps or 0.0) * pod.cpu_s_per_request * (1 + 0.02 * pod.repeat)
    pauses = collections["pause_s"]
    threads = 10.0 + (pod.pool or 0)
    return Resources(
        rss_bytes=MeanPeak(mean=rss, peak=1.02 * rss),
        os_threads=MeanPeak(mean=threads, peak=threads),
        descriptors=MeanPeak(mean=2 * handlers, peak=2 * handlers),
        cpu_percent=100 * cpu_rps,
        cpu_s_per_request=pod.cpu_s_per_request * (1 + 0.02 * pod.repeat),
        gc_pause_s=Pauses(
            total=float(pauses.sum()), max=float(pauses.max()) if pauses.size else 0.0, count=pauses.size
        )
        if pod.gauges
        else Pauses(),
        memory_at_rest_bytes=pod.bytes_at_rest,
        bytes_per_request_in_flight=pod.bytes_per_request,
    )


def _run(pod: Pod, requests: Columns, samples: Columns, collections: Columns) -> Run:
    start, end = _warmup_s(pod), _warmup_s(pod) + pod.window_s
    summary = _summary(pod, requests)
    inside = (samples["t_s"] >= start) & (samples["t_s"] < end)
    client = float(_under_way(requests["sent_s"], requests["done_s"], samples["t_s"])[inside].mean())
    handlers = min(client, pod.pool or client)
    rate_max = pod.pool / pod.w_s if pod.pool else 9_990 / pod.w_s
    saturated = pod.regime == "saturated"
    return Run(
        id=pod.id,
        created=pod.created.isoformat(timespec="seconds"),
        model=pod.model,
        target=Target(name=pod.target, argv=("python",), options=dict(pod.options), workers=pod.workers),
        scenario=_scenario(pod),
        machine=Machine(
            cpus=2,
            model_name="x",
            memory_bytes=2**34,
            kernel="6.1",
            python="CPython 3.11.7",
            class_name=pod.machine,
        ),
        versions={"trio": "0.35.0"},
        source=Source(commit="0123456789abcdef", dirty=False, hash_start="1", hash_end="1"),
        phases=Phases(t0_s=1e5, window_start_s=start, window_end_s=end, drain_end_s=end + 1.25 * pod.w_s),
        summary=summary,
        resources=_resources(pod, summary, handlers, collections),
        concurrency=Concurrency(handlers_mean=handlers if pod.gauges else None, client_mean=client),
        prediction=Prediction(
            rate_max_rps=rate_max,
            concurrency=pod.rate_rps * pod.w_s,
            bound_by="pool" if pod.pool else "descriptors",
            ratio=(summary.throughput_rps or 0) / rate_max
            if saturated
            else handlers / (pod.rate_rps * pod.w_s),
        ),
        verdict=judge(
            Figures(
                w_s=pod.w_s,
                warmup_s=start,
                window_s=pod.window_s,
                timeout_s=3 * pod.w_s,
                regime=pod.regime,
                completed=summary.completed if pod.valid else 0,
                sent=summary.sent,
                unsent=0,
                planned=summary.planned,
            ),
            RAG.limits,
        ),
        notes=pod.notes,
    )


def _scenario(pod: Pod) -> scenario.Scenario:
    vector_s = pod.w_s / 1001
    load = msgspec.structs.replace(
        RAG.load,
        rate_rps=pod.rate_rps,
        window_s=pod.window_s,
        warmup_s=_warmup_s(pod),
        regime=pod.regime,
        route=pod.route,
    )
    upstream = scenario.Upstream(
        vector=scenario.Delay(mean_s=vector_s), llm=scenario.Delay(mean_s=pod.w_s - vector_s)
    )
    return msgspec.structs.replace(
        RAG,
        name=pod.scenario,
        description=pod.description,
        load=load,
        upstream=upstream,
        pod=msgspec.structs.replace(RAG.pod, workers=pod.workers_asked),
        sweep=Sweep(axis=pod.axis, values=("…",), targets=(pod.target,)) if pod.axis else None,
    )
