"""Figures from columns: synthetic runs whose every figure is known beforehand."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from harness import measures, preflight, scenario, targets
from harness.generator.messages import Account
from harness.recorded import Recorded
from harness.run import HandlerPins
from harness.sampler import COLUMNS
from harness.validity import judge

RATE, W, WARMUP, WINDOW, DRAIN = 100.0, 2.0, 3.0, 8.0, 4.0
HOST = preflight.Host(cpus=(0, 1), descriptors=20_000, ports=28_232)


def recorded(
    *,
    target: str = "asyncio",
    latency_s: float = 2.004,
    regime: str = "steady",
    lost: int = 0,
    **columns: Any,
) -> Recorded:
    """A perfect run at 100/s with every latency the same; `columns` replaces sample columns."""
    changes = {"rate": str(RATE), "warmup": str(WARMUP), "duration": str(WINDOW)}
    changes |= {
        "upstream.vector": "0 ms",
        "upstream.llm": "2 s",
        "load.drain": str(DRAIN),
        "load.regime": regime,
    }
    wanted = scenario.load("rag-compressed", changes)
    layout = preflight.plan(wanted, targets.get_target(target, targets.load_targets()), HOST)
    due = np.arange(int(RATE * (WARMUP + WINDOW))) / RATE
    sent = due + 0.001
    done = due + latency_s
    n = len(due)
    requests = {
        "sequence": np.arange(n),
        "due_s": due,
        "sent_s": sent,
        "first_byte_s": done,
        "done_s": done,
        "status": np.full(n, 200),
        "outcome": np.array(["ok"] * n),
        "reason": np.array([""] * n),
    }
    t_s = np.arange(0.5, WARMUP + WINDOW + DRAIN)
    started = np.clip(t_s, 0, WARMUP + WINDOW) * RATE
    ended = np.clip(t_s - latency_s, 0, WARMUP + WINDOW) * RATE
    samples = {name: np.zeros(len(t_s)) for name in COLUMNS}
    samples |= {
        "t_s": t_s,
        "in_flight": started - ended,
        "upstream_active": started - ended,
        "upstream_search_total": started,
        "upstream_chat_total": started,
        "handled_total": ended,
        "handled_seconds_total": ended * latency_s,
        "cpu_s": ended * 0.0005,
        "rss_bytes": 20e6 + 10_000 * (started - ended),
        "pss_bytes": np.full(len(t_s), 15e6),
        "os_threads": np.full(len(t_s), 1.0),
        "descriptors": 10 + 2 * (started - ended),
        "descriptors_fullest": 10 + 2 * (started - ended),
        "processes": np.full(len(t_s), 1.0 - lost),
    }
    samples["upstream_search_total"][-1] = samples["upstream_chat_total"][-1] = n
    account = Account(0, 1, 1.0, 0.4, 50_000_000, 300, 0.0, n, n, 0)
    return Recorded(
        scenario=wanted,
        layout=layout,
        requests=requests,
        samples=samples | {name: np.asarray(values, dtype=float) for name, values in columns.items()},
        pauses={"end_s": np.array([1.0, 5.0, 6.0]), "pause_s": np.array([0.5, 0.01, 0.02])},
        accounts=[account],
        edge_pss_bytes=[],
        rest=dict.fromkeys(COLUMNS, 0.0) | {"rss_bytes": 20e6, "processes": 1.0},
        processes_expected=1,
        samples_missed=0,
        source_unchanged=True,
    )


def with_outcome(run: Recorded, chosen: slice, outcome: str) -> Recorded:
    outcomes = run.requests["outcome"].astype("U10").copy()
    outcomes[chosen] = outcome
    done = run.requests["done_s"].copy()
    if outcome in ("unsent", "unfinished"):
        done[chosen] = np.nan
    sent = run.requests["sent_s"].copy()
    if outcome == "unsent":
        sent[chosen] = np.nan
    changed = {**run.requests, "outcome": outcomes, "done_s": done, "sent_s": sent}
    return msgspec.structs.replace(run, requests=changed)


def failed(run: Recorded) -> set[str]:
    verdict = judge(measures.measure(run).figures, run.scenario.limits)
    return {check.name for check in verdict.checks if check.ok is False}


def test_a_perfect_run_is_valid_and_every_figure_is_the_known_one() -> None:
    run = recorded()
    found = measures.measure(run)
    summary, resources = found.summary, found.resources
    assert failed(run) == set()
    assert (summary.planned, summary.sent, summary.completed, summary.failed) == (800, 800, 800, 0)
    assert summary.rate_offered_rps == pytest.approx(100)
    assert summary.throughput_rps == pytest.approx(100, rel=0.002)
    assert summary.latency_s.p99 == pytest.approx(2.004)
    assert summary.service_s.p50 == pytest.approx(2.003)
    assert summary.send_lag_s.p99 == pytest.approx(0.001)
    assert found.concurrency.handlers_mean == pytest.approx(200.4, rel=0.01)
    assert found.concurrency.client_mean == pytest.approx(200.3, rel=0.01)
    assert resources.cpu_percent == pytest.approx(5.0, rel=0.01)
    assert resources.cpu_s_per_request == pytest.approx(0.0005, rel=0.01)
    assert resources.bytes_per_request_in_flight == pytest.approx(10_000, rel=0.01)
    assert resources.generator.cpu_s_per_request == pytest.approx(0.4 / 800)
    assert found.prediction.concurrency == pytest.approx(200)
    assert found.prediction.ratio == pytest.approx(1.002, rel=0.01)


def test_only_pauses_inside_the_window_count() -> None:
    pauses = measures.measure(recorded()).resources.gc_pause_s
    assert (pauses.count, pauses.max) == (2, 0.02)
    assert pauses.total == pytest.approx(0.03)


def test_a_request_belongs_to_the_window_in_which_it_was_due() -> None:
    run = recorded()
    late = with_outcome(run, slice(0, 300), "failed")  # all due in the warm-up
    assert measures.measure(late).summary.failed == 0
    inside = with_outcome(run, slice(300, 310), "failed")
    assert measures.measure(inside).summary.failed == 10


def test_throughput_counts_completions_inside_the_window_whenever_they_were_due() -> None:
    summary = measures.measure(recorded(latency_s=6.0)).summary
    assert summary.completed == 800, "all of the window's requests complete, most of them after it"
    assert summary.throughput_rps == pytest.approx(100 * 5 / 8, rel=0.01), "but only those of 5 s inside it"


@pytest.mark.parametrize("outcome", ["unsent", "unfinished", "failed", "refused", "timed_out"])
def test_the_ledger_adds_up_whatever_happens(outcome: str) -> None:
    summary = measures.measure(with_outcome(recorded(), slice(400, 450), outcome)).summary
    assert summary.planned == summary.sent + summary.unsent
    assert summary.sent == summary.completed + summary.failed + summary.unfinished


def test_all_failed_is_not_evaluated_and_never_a_p99_of_zero() -> None:
    run = with_outcome(recorded(), slice(0, None), "failed")
    found = measures.measure(run)
    assert found.summary.latency_s.p99 is None
    assert {"completions", "failures"} <= failed(run)


@pytest.mark.parametrize(
    ("run", "fires"),
    [
        (recorded(lost=1), "workers_present"),
        (recorded(latency_s=1.5), "latency_floor"),
        (recorded(in_flight=np.full(15, 150.0)), "little_handlers"),
        (recorded(upstream_active=np.full(15, 20.0)), "little_upstream"),
        (recorded(listen_overflows=np.arange(15.0)), "listen_overflows"),
        (recorded(syn_retransmits=np.arange(15.0)), "syn_retransmits"),
        (recorded(descriptors_fullest=np.full(15, 19_900.0)), "pod_descriptors"),
        (recorded(upstream_chat_total=np.zeros(15)), "upstream_reached"),
        (recorded(cpu_steal_s=np.arange(15.0)), "cpu_steal"),
        (recorded(upstream_cpu_s=np.arange(15.0)), "upstream_cpu"),
        (msgspec.structs.replace(recorded(), source_unchanged=False), "source_unchanged"),
        (msgspec.structs.replace(recorded(), samples_missed=9), "samples_complete"),
        (msgspec.structs.replace(recorded(), rest={**recorded().rest, "in_flight": 3.0}), "started_empty"),
        (with_outcome(recorded(), slice(400, 450), "unsent"), "unsent"),
        (with_outcome(recorded(), slice(400, 450), "unfinished"), "unfinished"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_wrong_figure_fires_its_check(run: Recorded, fires: str) -> None:
    assert fires in failed(run)


def test_a_saturated_pool_is_measured_by_its_throughput() -> None:
    run = recorded(target="threadpool", regime="saturated", in_flight=np.full(15, 200.0))
    found = measures.measure(run)
    assert found.prediction.bound_by == "pool"
    assert found.prediction.rate_max_rps == pytest.approx(100)
    assert found.prediction.ratio == pytest.approx((found.summary.throughput_rps or 0) / 100)
    assert "saturation" not in failed(run)
    assert "saturation" in failed(
        recorded(target="threadpool", regime="saturated", in_flight=np.full(15, 100.0))
    )


def closed(route: str = "/hold/plain", **changes: Any) -> Recorded:
    """The perfect run, asked by its 200 clients on a route that calls the model only."""
    run = recorded(upstream_search_total=np.zeros(15))
    load = msgspec.structs.replace(run.scenario.load, arrivals="closed", clients=200, route=route, **changes)
    requests = {**run.requests, "due_s": run.requests["sent_s"]}
    wanted = msgspec.structs.replace(run.scenario, load=load)
    return msgspec.structs.replace(run, scenario=wanted, requests=requests)


def test_a_closed_run_is_judged_by_what_its_route_asks_and_its_clients_hold() -> None:
    run = closed()
    assert failed(run) == set()
    figures = measures.measure(run).figures
    assert (figures.vector_calls, figures.llm_calls, figures.client_expected) == (0, 1, 200)
    assert failed(closed(route="/rag")) == {"upstream_reached"}
    idle = msgspec.structs.replace(run, requests={**run.requests, "sent_s": run.requests["sent_s"] + 0.5})
    assert "little_client" in failed(idle), "a client that does not ask again is seen"


def test_pins_are_for_each_request_that_completed_in_the_whole_run() -> None:
    counted = {"/rag": HandlerPins(count=11, seconds=0.5)}
    run = msgspec.structs.replace(recorded(), pins=counted)
    found = measures.measure(run)
    assert found.pins is not None
    assert (found.pins.count, found.pins.per_request) == (11, 0.01)
    assert (found.figures.pins, found.figures.pins_per_request, found.figures.pinned_s) == (11, 0.01, 0.5)
    assert measures.measure(recorded()).pins is None
    limits = msgspec.structs.replace(run.scenario.limits, pins_per_request=0.009)
    assert "pins" in judge(found.figures, limits).reason


def test_a_bystander_is_that_of_the_window() -> None:
    probes = {"due_s": np.arange(0.0, 15.0, 0.1), "latency_s": np.full(150, 0.004)}
    found = measures.measure(msgspec.structs.replace(closed(bystander="/health"), probes=probes)).bystander
    assert found is not None
    assert (found.route, found.n, found.p50) == ("/health", round(WINDOW / 0.1), 0.004)
    assert measures.measure(closed()).bystander is None


def test_a_target_without_gauges_is_measured_from_outside_and_says_so() -> None:
    nothing = np.full(15, np.nan)
    run = recorded(in_flight=nothing, handled_seconds_total=nothing)
    run = msgspec.structs.replace(run, rest={**run.rest, "in_flight": float("nan")})
    found = measures.measure(run)
    assert found.concurrency.handlers_mean is None
    assert found.concurrency.client_mean is not None
    assert found.resources.gc_pause_s.count is None
    verdict = judge(found.figures, run.scenario.limits)
    check = next(check for check in verdict.checks if check.name == "little_handlers")
    assert check.ok is None
    assert "not measured" in check.detail


def before_a_database(**columns: Any) -> Recorded:
    """100/s, of which 20/s end well, 50/s get 503 after 0.4 s, and the rest finds no client left."""
    wanted = scenario.load(
        "admission-compressed", {"rate": "100", "warmup": str(WARMUP), "duration": str(WINDOW)}
    )
    layout = preflight.plan(wanted, targets.get_target("asyncio", targets.load_targets()), HOST)
    nothing = np.zeros(15)
    held = {"connections_used": np.full(15, 5.0), "connections_waiting": np.full(15, 20.0)}
    held |= dict.fromkeys(("permits", "permits_in_use", "upstream_errors_total"), nothing)
    held |= dict.fromkeys(("upstream_search_total", "upstream_chat_total"), nothing)
    for name in ("connections_used", "connections_waiting"):
        held[name][-1] = 0.0  # the last sample is taken when all have been answered
    run = recorded(latency_s=0.45, **held | columns)
    run = msgspec.structs.replace(run, scenario=wanted, layout=layout)
    turn = np.arange(len(run.requests["due_s"])) % 10
    kinds = [turn < 2, turn < 7]
    due = run.requests["due_s"]
    requests = {
        "outcome": np.select(kinds, ["ok", "refused"], "unsent"),
        "status": np.select(kinds, [200, 503], 0),
        "reason": np.select(kinds, ["", ""], "cap"),
        "done_s": np.select(kinds, [due + 0.45, due + 0.4], np.nan),
        "sent_s": np.where(turn < 7, run.requests["sent_s"], np.nan),
    }
    return msgspec.structs.replace(run, requests={**run.requests, **requests})


def test_outcomes_are_counted_by_status_and_latency_is_of_all_answers_too() -> None:
    found = measures.measure(before_a_database())
    summary = found.summary
    assert summary.statuses == {"200": 160, "503": 400}
    assert (summary.planned, summary.completed, summary.refused, summary.unsent) == (800, 160, 400, 240)
    assert (summary.latency_s.n, summary.latency_all_s.n) == (160, 560)
    assert summary.latency_s.p50 == pytest.approx(0.45)
    assert summary.latency_all_s.p50 == pytest.approx(0.4)
    assert found.database is not None
    assert (found.database.used.mean, found.database.waiting.mean, found.database.permits) == (5, 20, 0)
    assert (found.figures.unsent_capped, found.figures.llm_calls) == (240, 0)
    assert found.figures.connections_rps == pytest.approx(100)
    assert (found.figures.database_errors, found.figures.held_at_end) == (0, 0)


def test_without_a_database_there_is_nothing_before_it() -> None:
    found = measures.measure(recorded())
    assert found.database is None
    assert found.summary.statuses == {"200": 800}
    assert found.summary.latency_all_s == found.summary.latency_s
    assert found.figures.connections_rps is None


@pytest.mark.parametrize(
    ("columns", "fires"),
    [
        ({"upstream_errors_total": np.arange(15.0)}, "database_present"),
        ({"connections_used": np.full(15, 1.0)}, "database_released"),
        ({"permits_in_use": np.full(15, 1.0)}, "database_released"),
        ({"upstream_chat_total": np.arange(15.0)}, "upstream_reached"),
        ({}, "database_throughput"),  # 20 of 100/s
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_fault_before_a_database_fires_its_check(columns: dict[str, Any], fires: str) -> None:
    assert fires in failed(before_a_database(**columns))
    assert columns == {} or fires not in failed(before_a_database())


def test_a_gauge_that_is_not_there_is_not_judged() -> None:
    found = measures.measure(before_a_database(connections_used=np.full(15, np.nan)))
    assert found.figures.held_at_end is None
    assert found.database is not None
    assert found.database.used.mean is None
