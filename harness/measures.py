"""From what was recorded to what is reported: columns in, figures out. Pure.

A request belongs to the window in which it was DUE; latency counts from there. Throughput counts completions
inside the window, whenever they were due. Gauges and counters are read between the first and the last sample
inside the window, never interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from harness import held, statistics
from harness.figures import Figures
from harness.generator.messages import Account
from harness.preflight import Layout
from harness.routes import calls
from harness.run import (
    Bystander,
    Concurrency,
    GeneratorUse,
    HandlerPins,
    Lag,
    Latency,
    MeanPeak,
    Pauses,
    Pins,
    Prediction,
    Resources,
    Summary,
)
from harness.scenario import Scenario

Floats = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[Any]]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run left behind. `samples` and `pauses` count time from t0, as `requests` do."""

    scenario: Scenario
    layout: Layout
    requests: Columns  # outcome as text
    samples: Columns
    pauses: Columns  # end_s, pause_s
    accounts: Sequence[Account]
    edge_pss_bytes: Sequence[float]  # at the window's start and end
    rest: Mapping[str, float]  # one sample before the first request
    processes_expected: int
    samples_missed: int
    source_unchanged: bool
    pins: Mapping[str, HandlerPins] | None = None  # by handler; None: not counted
    probes: Columns | None = None  # due_s, latency_s; None: no bystander

    @property
    def start_s(self) -> float:
        return self.scenario.load.warmup_s

    @property
    def end_s(self) -> float:
        return self.start_s + self.scenario.load.window_s


class Measures(msgspec.Struct, frozen=True):
    """What goes into run.json, and what the run is judged by."""

    summary: Summary
    resources: Resources
    concurrency: Concurrency
    prediction: Prediction
    figures: Figures
    pins: Pins | None = None
    bystander: Bystander | None = None


def measure(recorded: Recorded) -> Measures:
    """Everything there is to say about a run but for the verdict."""
    summary = summarize(recorded)
    concurrency = concurrencies(recorded)
    resources = use(recorded, summary, concurrency)
    prediction = predict(recorded.layout, recorded.scenario, summary, concurrency)
    pins = None if recorded.pins is None else held.pins(recorded.pins, _completed_in_all(recorded))
    found = figures(recorded, summary, concurrency)
    if pins is not None:
        found = msgspec.structs.replace(
            found, pins=pins.count, pins_per_request=pins.per_request, pinned_s=pins.seconds
        )
    return Measures(summary, resources, concurrency, prediction, found, pins, _bystander(recorded))


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
            ratio = _ratio(summary.throughput_rps, binding.rate_max_rps)
        else:
            ratio = _ratio(measured, layout.in_flight)
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
    )


def concurrencies(recorded: Recorded) -> Concurrency:
    """Mean requests in flight inside the window, from three places."""
    requests = recorded.requests
    return Concurrency(
        handlers_mean=_mean(_inside(recorded, "in_flight")),
        client_mean=statistics.mean_in_flight(
            requests["sent_s"], requests["done_s"], recorded.start_s, recorded.end_s
        ),
        upstream_mean=_mean(_inside(recorded, "upstream_active")),
    )


def use(recorded: Recorded, summary: Summary, concurrency: Concurrency) -> Resources:
    """What the pod took inside the window, and what the load cost."""
    window_s = recorded.scenario.load.window_s
    cpu_rps = _rate(recorded, "cpu_s")
    pss = np.concatenate((_inside(recorded, "pss_bytes"), np.array(recorded.edge_pss_bytes, dtype=float)))
    rss = _mean_peak(_inside(recorded, "rss_bytes"))
    in_flight = concurrency.handlers_mean or concurrency.client_mean
    rest = recorded.rest.get("rss_bytes", math.nan)
    grown = None if rss.mean is None or math.isnan(rest) else rss.mean - rest
    cpu_windows = [account.cpu_window_s for account in recorded.accounts]
    return Resources(
        rss_bytes=rss,
        pss_bytes=_mean_peak(pss),
        os_threads=_mean_peak(_inside(recorded, "os_threads")),
        descriptors=_mean_peak(_inside(recorded, "descriptors")),
        cpu_percent=None if cpu_rps is None else 100 * cpu_rps,
        cpu_s_per_request=_ratio(cpu_rps, summary.throughput_rps),
        gc_pause_s=_pauses(recorded),
        memory_at_rest_bytes=None if math.isnan(rest) else rest,
        bytes_per_request_in_flight=_ratio(grown, in_flight),
        generator=GeneratorUse(
            cpu_s_per_request=_ratio(sum(cpu_windows), summary.sent),
            cpu_percent_max=100 * max(cpu_windows, default=0.0) / window_s,
            rss_peak_bytes=sum(account.rss_peak_bytes for account in recorded.accounts),
        ),
    )


def figures(recorded: Recorded, summary: Summary, concurrency: Concurrency) -> Figures:
    """The flat figures that the verdict is made of; None is "not measured"."""
    scenario, layout, requests = recorded.scenario, recorded.layout, recorded.requests
    load, window_s = scenario.load, scenario.load.window_s
    outcome = requests["outcome"]
    kernel = {name: _until_window_end(recorded, name) for name in KERNEL}
    first_third_s, last_third_s = _thirds(recorded)
    chat_rps, search_rps = (_rate(recorded, f"upstream_{route}_total") for route in ("chat", "search"))
    delays = scenario.upstream
    return Figures(
        regime=load.regime,
        arrivals=load.arrivals,
        random_delays=any(delay.kind != "constant" for delay in scenario.delays),
        vector_calls=calls(load.route).count("vector"),
        llm_calls=calls(load.route).count("llm"),
        shared_cpus=layout.shared_cpus,
        w_s=scenario.w_s,
        warmup_s=load.warmup_s,
        window_s=window_s,
        timeout_s=load.timeout_s,
        **{name: getattr(summary, name) for name in COUNTS},
        sent_in_all=int(np.sum(outcome != "unsent")),
        completed_in_all=_completed_in_all(recorded),
        vector_hits=_whole(recorded, "upstream_search_total"),
        llm_hits=_whole(recorded, "upstream_chat_total"),
        rate_offered_rps=summary.rate_offered_rps,
        throughput_rps=summary.throughput_rps,
        service_min_s=_service_min(recorded),
        latency_p99_s=summary.latency_s.p99,
        latency_first_third_s=first_third_s,
        latency_last_third_s=last_third_s,
        send_lag_p99_s=summary.send_lag_s.p99
        if summary.send_lag_s.p99 is not None
        else summary.send_lag_s.max,
        generator_cpu_share=max((a.cpu_window_s for a in recorded.accounts), default=0.0) / window_s,
        generator_gc_pause_s=max((a.gc_pause_max_s for a in recorded.accounts), default=None),
        upstream_cpu_share=_ratio(_rate(recorded, "upstream_cpu_s"), layout.upstreams),
        cpu_shared_share=_ratio(_sum(_rate(recorded, name) for name in CPU), len(layout.pod_cpus)),
        cpu_steal_share=_ratio(_rate(recorded, "cpu_steal_s"), len({*layout.pod_cpus, *layout.harness_cpus})),
        handlers_mean=concurrency.handlers_mean,
        handlers_expected=_rate(recorded, "handled_seconds_total"),
        client_mean=concurrency.client_mean,
        client_expected=_client_expected(recorded, summary),
        upstream_mean=concurrency.upstream_mean,
        upstream_expected=None
        if chat_rps is None or search_rps is None
        else chat_rps * delays.llm.mean_s + search_rps * delays.vector.mean_s,
        handlers_min=_low(_inside(recorded, "in_flight")),
        pool_size=layout.pool_size,
        **kernel,
        pod_descriptors=_peak(_inside(recorded, "descriptors_fullest")),
        pod_descriptors_max=layout.descriptors,
        generator_descriptors=max((a.descriptors_peak for a in recorded.accounts), default=None),
        generator_descriptors_max=layout.descriptors,
        ports=_ports(recorded),
        ports_max=layout.ports,
        pod_lost=_lost(recorded),
        generator_lost=layout.generators - len(recorded.accounts),
        upstream_lost=0,  # one that is lost ends the run
        in_flight_at_start=_integer(
            _sum(recorded.rest.get(name) for name in ("in_flight", "upstream_active"))
        ),
        source_unchanged=recorded.source_unchanged,
        samples_expected=len(recorded.samples["t_s"]) + recorded.samples_missed,
        samples_missed=recorded.samples_missed,
    )


KERNEL = ("listen_overflows", "syn_retransmits", "paws_timewait", "tw_recycled")
CPU = ("cpu_s", "upstream_cpu_s", "generator_cpu_s", "harness_cpu_s")
COUNTS = ("planned", "sent", "unsent", "completed", "failed", "refused", "timed_out", "unfinished")


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


def _within(recorded: Recorded) -> npt.NDArray[np.bool_]:
    t_s = recorded.samples["t_s"]
    found: npt.NDArray[np.bool_] = (t_s >= recorded.start_s) & (t_s <= recorded.end_s)
    return found


def _inside(recorded: Recorded, column: str) -> Floats:
    """A column's samples inside the window, those that were measured."""
    values: Floats = recorded.samples[column][_within(recorded)]
    return values[~np.isnan(values)]


def _rate(recorded: Recorded, column: str) -> float | None:
    """A cumulative column's growth a second inside the window."""
    values, t_s = _inside(recorded, column), _inside(recorded, "t_s")
    if len(values) < 2 or len(values) != len(t_s):
        return None
    return float((values[-1] - values[0]) / (t_s[-1] - t_s[0]))


def _whole(recorded: Recorded, column: str) -> int | None:
    """A cumulative column's growth from before the first request to the last sample."""
    values = recorded.samples[column]
    before = recorded.rest.get(column, math.nan)
    return _integer(float(values[-1]) - before) if len(values) else None


def _until_window_end(recorded: Recorded, column: str) -> int | None:
    """Growth from before the first request to the window's end: what closing connections stir up is not counted."""
    values, before = _inside(recorded, column), recorded.rest.get(column, math.nan)
    return _integer(float(values[-1]) - before) if len(values) else None


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _peak(values: Floats) -> int | None:
    return int(values.max()) if len(values) else None


def _low(values: Floats) -> float | None:
    """The 5th percentile: a sample that falls into the hand-over of a place does not speak for the window."""
    return float(np.percentile(values, 5, method="lower")) if len(values) else None


def _mean_peak(values: Floats) -> MeanPeak:
    return MeanPeak(mean=float(values.mean()), peak=float(values.max())) if len(values) else MeanPeak()


def _pauses(recorded: Recorded) -> Pauses:
    if np.isnan(recorded.rest.get("in_flight", math.nan)):
        return Pauses()  # a target without gauges records no collections either
    end_s, pause_s = recorded.pauses["end_s"], recorded.pauses["pause_s"]
    inside = pause_s[(end_s >= recorded.start_s) & (end_s < recorded.end_s)]
    return Pauses(
        total=float(inside.sum()), max=float(inside.max()) if len(inside) else 0.0, count=len(inside)
    )


def _service_min(recorded: Recorded) -> float | None:
    requests = recorded.requests
    ok = requests["outcome"] == "ok"
    service = (requests["done_s"] - requests["sent_s"])[ok]
    return float(service.min()) if len(service) else None


def _thirds(recorded: Recorded) -> list[float | None]:
    """Median latencies of the requests due in the first and in the last third of the window."""
    requests, third_s = recorded.requests, (recorded.end_s - recorded.start_s) / 3
    due, ok = requests["due_s"], requests["outcome"] == "ok"
    found: list[float | None] = []
    for start_s in (recorded.start_s, recorded.end_s - third_s):
        latency = (requests["done_s"] - due)[ok & (due >= start_s) & (due < start_s + third_s)]
        found.append(float(np.median(latency)) if len(latency) else None)
    return found


def _completed_in_all(recorded: Recorded) -> int:
    return int(np.sum(recorded.requests["outcome"] == "ok"))


def _bystander(recorded: Recorded) -> Bystander | None:
    route, probes = recorded.scenario.load.bystander, recorded.probes
    if route is None or probes is None:
        return None
    window_s = (recorded.start_s, recorded.end_s)
    return held.bystander(route, probes["due_s"], probes["latency_s"], window_s)


def _client_expected(recorded: Recorded, summary: Summary) -> float | None:
    """Rate × time; of a closed load that is its clients, who all have a request under way."""
    if recorded.scenario.load.clients is not None:
        return recorded.scenario.load.clients
    requests = recorded.requests
    due = requests["due_s"]
    ok = (due >= recorded.start_s) & (due < recorded.end_s) & (requests["outcome"] == "ok")
    service = (requests["done_s"] - requests["sent_s"])[ok]
    if not len(service):
        return None
    return summary.sent / recorded.scenario.load.window_s * float(service.mean())


def _ports(recorded: Recorded) -> int | None:
    """Most ports in use between one source and one destination: at a source of the load, or at the pod."""
    requests = recorded.requests
    started = np.sort(requests["sent_s"][~np.isnan(requests["sent_s"])])
    ended = np.sort(requests["done_s"][~np.isnan(requests["done_s"])])
    if not len(started):
        return None
    in_flight = np.arange(1, len(started) + 1) - np.searchsorted(ended, started, side="right")
    at_source = math.ceil(int(in_flight.max()) / recorded.layout.sources)
    at_upstream = (_peak(_inside(recorded, "upstream_active")) or 0) / recorded.layout.upstream_addresses
    return max(at_source, math.ceil(at_upstream))


def _lost(recorded: Recorded) -> int | None:
    processes = recorded.samples["processes"]
    return max(0, recorded.processes_expected - int(processes[-1])) if len(processes) else None


def _ratio(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _sum(values: Any) -> float | None:
    found = list(values)
    return None if any(value is None or math.isnan(value) for value in found) else float(sum(found))


def _integer(value: float | None) -> int | None:
    return None if value is None or math.isnan(value) else round(value)
