"""From what was recorded to what is reported: columns in, figures out. Pure.

A request belongs to the window in which it was DUE; latency counts from there. Throughput counts completions
inside the window, whenever they were due. Gauges and counters are read between the first and the last sample
inside the window, never interpolated.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

from harness import evidence, held, statistics
from harness import recorded as look
from harness.figures import Figures
from harness.preflight import Layout
from harness.recorded import Recorded
from harness.run import (
    Bystander,
    Concurrency,
    Database,
    GeneratorUse,
    Lag,
    Latency,
    Pauses,
    Pins,
    Prediction,
    Resources,
    Summary,
)
from harness.scenario import Scenario

Floats = npt.NDArray[np.float64]


class Measures(msgspec.Struct, frozen=True):
    """What goes into run.json, and what the run is judged by."""

    summary: Summary
    resources: Resources
    concurrency: Concurrency
    prediction: Prediction
    figures: Figures
    database: Database | None = None
    pins: Pins | None = None
    bystander: Bystander | None = None


def measure(recorded: Recorded) -> Measures:
    """Everything there is to say about a run but for the verdict."""
    summary = summarize(recorded)
    concurrency = concurrencies(recorded)
    resources = use(recorded, summary, concurrency)
    prediction = predict(recorded.layout, recorded.scenario, summary, concurrency)
    pins = None if recorded.pins is None else held.pins(recorded.pins, look.completed_in_all(recorded))
    found = evidence.figures(recorded, summary, concurrency)
    if pins is not None:
        found = msgspec.structs.replace(
            found, pins=pins.count, pins_per_request=pins.per_request, pinned_s=pins.seconds
        )
    return Measures(
        summary=summary,
        resources=resources,
        concurrency=concurrency,
        database=before_database(recorded),
        prediction=prediction,
        figures=found,
        pins=pins,
        bystander=_bystander(recorded),
    )


def predict(
    layout: Layout,
    scenario: Scenario,
    summary: Summary | None = None,
    concurrency: Concurrency | None = None,
) -> Prediction:
    """λ max by resource and L = λW; after the run, measured / predicted of what the regime is about.

    Of a closed load there is no such ratio: how many of its clients are served at once is what it asks.
    """
    binding = layout.binding
    ratio = None
    if summary is not None and concurrency is not None and scenario.load.clients is None:
        measured = concurrency.handlers_mean or concurrency.client_mean
        if scenario.load.regime == "saturated":
            ratio = look.ratio(summary.throughput_rps, binding.rate_max_rps)
        else:
            ratio = look.ratio(measured, layout.in_flight)
    return Prediction(
        rate_max_rps=binding.rate_max_rps,
        concurrency=layout.in_flight,
        bound_by=binding.resource,
        bounds={bound.resource: bound.rate_max_rps for bound in layout.bounds},
        ratio=ratio,
    )


def summarize(recorded: Recorded) -> Summary:
    """Counts, rates and times of the requests due inside the window."""
    requests, load = recorded.requests, recorded.scenario.load
    due, sent, done, outcome = (requests[name] for name in ("due_s", "sent_s", "done_s", "outcome"))
    inside = (due >= recorded.start_s) & (due < recorded.end_s)
    ok = inside & (outcome == "ok")
    left = inside & (outcome != "unsent")
    counts = {name: int(np.sum(inside & (outcome == name))) for name in ("refused", "failed", "timed_out")}
    answered = inside & np.isin(outcome, ("ok", "refused", "failed")) & (requests["status"] > 0)
    statuses, times = np.unique(requests["status"][answered], return_counts=True)
    completions = (outcome == "ok") & (done >= recorded.start_s) & (done < recorded.end_s)
    lag = statistics.summarize((sent - due)[left])
    return Summary(
        planned=int(np.sum(inside)),
        sent=int(np.sum(left)),
        unsent=int(np.sum(inside & (outcome == "unsent"))),
        completed=int(np.sum(ok)),
        failed=sum(counts.values()),
        refused=counts["refused"],
        timed_out=counts["timed_out"],
        unfinished=int(np.sum(inside & (outcome == "unfinished"))),
        rate_offered_rps=float(np.sum(inside)) / load.window_s,
        throughput_rps=float(np.sum(completions)) / load.window_s,
        latency_s=_latency((done - due)[ok]),
        service_s=_latency((done - sent)[ok]),
        send_lag_s=Lag(p50=lag.p50, p99=lag.p99, max=lag.max),
        statuses={str(status): int(n) for status, n in zip(statuses, times, strict=True)},
        latency_all_s=_latency((done - due)[answered]),
    )


def concurrencies(recorded: Recorded) -> Concurrency:
    """Mean requests in flight inside the window, from three places."""
    requests = recorded.requests
    return Concurrency(
        handlers_mean=look.mean(look.inside(recorded, "in_flight")),
        client_mean=statistics.mean_in_flight(
            requests["sent_s"], requests["done_s"], recorded.start_s, recorded.end_s
        ),
        upstream_mean=look.mean(look.inside(recorded, "upstream_active")),
    )


def before_database(recorded: Recorded) -> Database | None:
    """Permits and connections, in use and waited for, inside the window; None without a database."""
    if recorded.scenario.database is None:
        return None
    return Database(
        permits=look.mean(look.inside(recorded, "permits")),
        permits_in_use=look.mean_peak(look.inside(recorded, "permits_in_use")),
        used=look.mean_peak(look.inside(recorded, "connections_used")),
        waiting=look.mean_peak(look.inside(recorded, "connections_waiting")),
    )


def use(recorded: Recorded, summary: Summary, concurrency: Concurrency) -> Resources:
    """What the pod took inside the window, and what the load cost."""
    window_s = recorded.scenario.load.window_s
    cpu_rps = look.rate(recorded, "cpu_s")
    pss = np.concatenate((look.inside(recorded, "pss_bytes"), np.array(recorded.edge_pss_bytes, dtype=float)))
    rss = look.mean_peak(look.inside(recorded, "rss_bytes"))
    in_flight = concurrency.handlers_mean or concurrency.client_mean
    rest = recorded.rest.get("rss_bytes", math.nan)
    grown = None if rss.mean is None or math.isnan(rest) else rss.mean - rest
    cpu_windows = [account.cpu_window_s for account in recorded.accounts]
    return Resources(
        rss_bytes=rss,
        pss_bytes=look.mean_peak(pss),
        os_threads=look.mean_peak(look.inside(recorded, "os_threads")),
        descriptors=look.mean_peak(look.inside(recorded, "descriptors")),
        cpu_percent=None if cpu_rps is None else 100 * cpu_rps,
        cpu_s_per_request=look.ratio(cpu_rps, summary.throughput_rps),
        gc_pause_s=_pauses(recorded),
        memory_at_rest_bytes=None if math.isnan(rest) else rest,
        bytes_per_request_in_flight=look.ratio(grown, in_flight),
        generator=GeneratorUse(
            cpu_s_per_request=look.ratio(sum(cpu_windows), summary.sent),
            cpu_percent_max=100 * max(cpu_windows, default=0.0) / window_s,
            rss_peak_bytes=sum(account.rss_peak_bytes for account in recorded.accounts),
        ),
    )


def _latency(values: Floats) -> Latency:
    found = statistics.summarize(values)
    return Latency(
        n=found.n,
        p50=found.p50,
        p90=found.p90,
        p99=found.p99,
        p99_low=found.p99_low,
        p99_high=found.p99_high,
        max=found.max,
    )


def _pauses(recorded: Recorded) -> Pauses:
    if np.isnan(recorded.rest.get("in_flight", math.nan)):
        return Pauses()  # a target without gauges records no collections either
    end_s, pause_s = recorded.pauses["end_s"], recorded.pauses["pause_s"]
    inside = pause_s[(end_s >= recorded.start_s) & (end_s < recorded.end_s)]
    return Pauses(
        total=float(inside.sum()), max=float(inside.max()) if len(inside) else 0.0, count=len(inside)
    )


def _bystander(recorded: Recorded) -> Bystander | None:
    route, probes = recorded.scenario.load.bystander, recorded.probes
    if route is None or probes is None:
        return None
    window_s = (recorded.start_s, recorded.end_s)
    return held.bystander(route, probes["due_s"], probes["latency_s"], window_s)
