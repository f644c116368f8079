"""The figures that a run is judged by, from what it recorded: columns in, flat numbers out. Pure.

What a good figure is, validity.py knows. None is "not measured".
"""

from __future__ import annotations

import math

import numpy as np

from harness import recorded as look
from harness.figures import Figures
from harness.preflight import Layout
from harness.recorded import Recorded
from harness.routes import calls
from harness.run import Concurrency, Summary

KERNEL = ("listen_overflows", "syn_retransmits", "paws_timewait", "tw_recycled")
HELD = ("connections_used", "connections_waiting", "permits_in_use")
CPU = ("cpu_s", "upstream_cpu_s", "generator_cpu_s", "harness_cpu_s")
COUNTS = ("planned", "sent", "unsent", "completed", "failed", "refused", "timed_out", "unfinished")


def figures(recorded: Recorded, summary: Summary, concurrency: Concurrency) -> Figures:
    """The flat figures that the verdict is made of; None is "not measured"."""
    scenario, layout, requests = recorded.scenario, recorded.layout, recorded.requests
    load, window_s = scenario.load, scenario.load.window_s
    outcome = requests["outcome"]
    kernel = {name: look.growth_until_window_end(recorded, name) for name in KERNEL}
    first_third_s, last_third_s = _thirds(recorded)
    chat_rps, search_rps = (look.rate(recorded, f"upstream_{route}_total") for route in ("chat", "search"))
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
        unsent_capped=_capped(recorded),
        sent_in_all=int(np.sum(outcome != "unsent")),
        completed_in_all=look.completed_in_all(recorded),
        vector_hits=look.growth(recorded, "upstream_search_total"),
        llm_hits=look.growth(recorded, "upstream_chat_total"),
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
        upstream_cpu_share=look.ratio(look.rate(recorded, "upstream_cpu_s"), layout.upstreams),
        cpu_shared_share=look.ratio(
            look.total(look.rate(recorded, name) for name in CPU), len(layout.pod_cpus)
        ),
        cpu_steal_share=look.ratio(
            look.rate(recorded, "cpu_steal_s"), len({*layout.pod_cpus, *layout.harness_cpus})
        ),
        handlers_mean=concurrency.handlers_mean,
        handlers_expected=look.rate(recorded, "handled_seconds_total"),
        client_mean=concurrency.client_mean,
        client_expected=_client_expected(recorded, summary),
        upstream_mean=concurrency.upstream_mean,
        upstream_expected=None
        if chat_rps is None or search_rps is None
        else chat_rps * delays.llm.mean_s + search_rps * delays.vector.mean_s,
        handlers_min=look.low(look.inside(recorded, "in_flight")),
        pool_size=layout.pool_size,
        connections_rps=_connections_rps(layout),
        database_errors=look.growth(recorded, "upstream_errors_total"),
        held_at_end=look.whole_number(look.total(look.last(recorded, name) for name in HELD)),
        **kernel,
        pod_descriptors=look.peak(look.inside(recorded, "descriptors_fullest")),
        pod_descriptors_max=layout.descriptors,
        generator_descriptors=max((a.descriptors_peak for a in recorded.accounts), default=None),
        generator_descriptors_max=layout.descriptors,
        ports=_ports(recorded),
        ports_max=layout.ports,
        pod_lost=_lost(recorded),
        generator_lost=layout.generators - len(recorded.accounts),
        upstream_lost=0,  # one that is lost ends the run
        in_flight_at_start=look.whole_number(
            look.total(recorded.rest.get(name) for name in ("in_flight", "upstream_active"))
        ),
        source_unchanged=recorded.source_unchanged,
        samples_expected=len(recorded.samples["t_s"]) + recorded.samples_missed,
        samples_missed=recorded.samples_missed,
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
    at_upstream = (
        look.peak(look.inside(recorded, "upstream_active")) or 0
    ) / recorded.layout.upstream_addresses
    return max(at_source, math.ceil(at_upstream))


def _capped(recorded: Recorded) -> int:
    due, reason = recorded.requests["due_s"], recorded.requests["reason"]
    return int(np.sum((due >= recorded.start_s) & (due < recorded.end_s) & (reason == "cap")))


def _connections_rps(layout: Layout) -> float | None:
    found = [bound.rate_max_rps for bound in layout.bounds if bound.resource in ("connections", "permits")]
    return min(found, default=None)


def _lost(recorded: Recorded) -> int | None:
    processes = recorded.samples["processes"]
    return max(0, recorded.processes_expected - int(processes[-1])) if len(processes) else None
