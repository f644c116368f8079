"""Admission: the tipping point, and predicted counts beside those worked out by hand and by the article."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import scenario, targets
from harness.admission import OPTIONS, Setting, conditions, label, predict, setting

# The article's: 300/s before 10 connections, held for 100 ms, waited for up to 2 s; 60 s from a cold start.
OPEN = Setting(
    rate_rps=300.0,
    warmup_s=0.0,
    window_s=60.0,
    timeout_s=30.0,
    clients=2000,
    hold_s=0.1,
    connections=10,
    connection_wait_s=2.0,
    permits=0,
    permit_wait_s=0.1,
    threads=None,
)
STEADY = replace(OPEN, warmup_s=20.0)  # everything is full when the window begins
ALL = targets.load_targets()


def with_(given: Setting, **changes: Any) -> Setting:
    return replace(given, **changes)


@pytest.mark.parametrize(
    ("changes", "tipping_point", "taken_rps", "inside"),
    [
        ({}, 210, 300, 610),  # lets everybody in: 10 + 300/s × 2 s
        ({"threads": 200}, 210, 100, 200),
        ({"threads": 210}, 210, 100, 210),
        ({"threads": 400}, 210, 195, 400),  # (400 − 10) / 2 s
        ({"threads": 610}, 210, 300, 610),
        ({"threads": 9_000}, 210, 300, 610),
        ({"clients": 400}, 210, 195, 400),  # who runs out of clients waits for them as for threads
        ({"permits": 10}, 20, 300, 40),  # 10 + 300/s × 0.1 s
        ({"permits": 10, "threads": 200}, 20, 300, 40),
        ({"permits": 10, "threads": 25}, 20, 150, 25),
        ({"permits": 5}, 10, 300, 35),  # five permits carry 50/s
        ({"permits": 10, "permit_wait_s": 0.0}, 10, 300, 10),  # refused at once
        ({"rate_rps": 50.0}, 210, 50, 5),  # no overload: Little's law
        ({"threads": 5}, 110, 50, 5),  # fewer threads than connections
    ],
)
def test_where_requests_are(
    changes: dict[str, Any], tipping_point: float, taken_rps: float, inside: float
) -> None:
    found = with_(OPEN, **changes)
    assert found.tipping_point == pytest.approx(tipping_point)
    assert found.taken_rps == pytest.approx(taken_rps)
    assert found.inside == pytest.approx(inside)


# setting, what changes in it; ok, 429, 503, unsent; in flight, waiting for a connection, latency of the last successes
COUNTS: list[tuple[Setting, dict[str, Any], tuple[float, ...], tuple[float, ...]]] = [
    # Cold, T* = 210 are inside after 1.05 s; of the 17,685 due later a third is served: about 6,200 and 11,800.
    (OPEN, {}, (6_210, 0, 11_790, 0), (610, 600, 2.1)),
    (STEADY, {}, (6_000, 0, 12_000, 0), (610, 600, 2.1)),
    # 2,000 clients wait after 10 s: 3,000 sent by then, 5,000 more in the 50 s that follow.
    (OPEN, {"threads": 200}, (8_000, 0, 0, 10_000), (200, 190, 20.0)),
    (STEADY, {"threads": 200}, (6_000, 0, 0, 12_000), (200, 190, 20.0)),
    # (2,000 − 400) / 195 for a thread, then 2 s, then 0.1 s
    (STEADY, {"threads": 400}, (6_000, 0, 5_700, 6_300), (400, 390, 10.305)),
    (STEADY, {"permits": 10}, (6_000, 12_000, 0, 0), (40, 0, 0.2)),
    (STEADY, {"permits": 10, "threads": 200}, (6_000, 12_000, 0, 0), (40, 0, 0.2)),
    (STEADY, {"permits": 5}, (3_000, 15_000, 0, 0), (35, 0, 0.2)),
    # Twice as many permits as connections: ten of them wait for the pool, 0.1 s each, and nobody too long.
    (STEADY, {"permits": 20}, (6_000, 12_000, 0, 0), (50, 10, 0.3)),
    (STEADY, {"rate_rps": 100.0}, (6_000, 0, 0, 0), (10, 0, 0.1)),
    (STEADY, {"clients": None}, (6_000, 0, 12_000, 0), (610, 600, 2.1)),
    # Without a cap it is all sent, and answered by whoever waits 160 s for it.
    (STEADY, {"threads": 200, "clients": None, "timeout_s": 200.0}, (18_000, 0, 0, 0), (200, 190, 160.0)),
]


@pytest.mark.parametrize(("base", "changes", "counts", "places"), COUNTS)
def test_predicted(
    base: Setting, changes: dict[str, Any], counts: tuple[float, ...], places: tuple[float, ...]
) -> None:
    found = predict(with_(base, **changes))
    assert found is not None
    assert (found.ok, found.refused_429, found.refused_503, found.unsent) == pytest.approx(counts)
    assert (found.in_flight, found.waiting, found.ok_latency_s) == pytest.approx(places, rel=1e-3)


def test_the_articles_thread_pool_is_near_its_own_prediction() -> None:
    """It had 7,593 × 200, 2,056 × 503 and 8,272 unsent, its 200 threads being within 5 % of the tipping point."""
    found = predict(with_(OPEN, threads=200))
    assert found is not None
    assert found.ok == pytest.approx(7_593, rel=0.06)
    assert found.unsent == pytest.approx(8_272 + 2_056, rel=0.05)


@pytest.mark.parametrize(
    "changes",
    [
        {"threads": 200, "clients": None},  # answers come 160 s late, clients leave after 30
        {"threads": 200, "timeout_s": 19.0},
        {"permits": 211},  # more than the tipping point: the pool refuses behind them
    ],
)
def test_what_the_formulas_do_not_cover_is_not_predicted(changes: dict[str, Any]) -> None:
    assert predict(with_(STEADY, **changes)) is None


@given(
    threads=st.none() | st.integers(11, 2_000),
    clients=st.integers(700, 5_000),
    warmup_s=st.floats(0, 40),
    permits=st.sampled_from([0, 5, 10, 20]),
    rate_rps=st.floats(10, 500),
)
def test_every_request_has_one_outcome_and_the_pod_never_answers_more_than_it_carries(
    threads: int | None, clients: int, warmup_s: float, permits: int, rate_rps: float
) -> None:
    made = with_(
        OPEN, threads=threads, clients=clients, warmup_s=warmup_s, permits=permits, rate_rps=rate_rps
    )
    found = predict(with_(made, timeout_s=1e6))
    assert found is not None
    counts = (found.ok, found.refused_429, found.refused_503, found.unsent)
    assert sum(counts) == pytest.approx(rate_rps * made.window_s)
    assert all(count >= -1e-6 for count in counts)
    assert not (found.refused_429 and found.refused_503)
    # What is answered well of those due inside is what ends inside, and the queue that is left.
    assert found.ok <= made.carried_rps * made.window_s + clients + 1e-6
    assert found.in_flight <= made.room
    if threads and threads <= made.tipping_point and not permits:
        assert found.refused_503 == 0


def test_the_scenario_is_steady_before_its_window_begins() -> None:
    """So that its counts are those of the rates alone, and every success counts once."""
    for threads in (200, 400, None):
        found = _setting("admission", threads)
        steady, later = predict(found), predict(with_(found, warmup_s=found.warmup_s + 100))
        assert steady == later
        assert steady is not None
        assert steady.ok == pytest.approx(6_000)


@pytest.mark.parametrize(
    ("name", "below", "above"), [("admission", 200, 400), ("admission-compressed", 25, 90)]
)
def test_both_scenarios_have_a_pool_on_each_side_of_the_tipping_point(
    name: str, below: int, above: int
) -> None:
    assert below < _setting(name, below).tipping_point < above < _setting(name, None).inside
    for threads in (below, above, None):
        found = predict(_setting(name, threads))
        assert found is not None
        assert found.unsent > 0 or threads is None


def _setting(name: str, threads: int | None) -> Setting:
    wanted = scenario.load(name)
    options = targets.resolve(ALL["asyncio"], wanted.pod.options)
    found = setting(wanted, options, 1, threads)
    assert found is not None
    return found


def test_a_setting_is_of_all_workers() -> None:
    wanted = scenario.load("admission")
    options = {**targets.resolve(ALL["threadpool"], wanted.pod.options), "permits": 3}
    found = setting(wanted, options, 2, 400)
    assert found is not None
    assert (found.connections, found.permits, found.threads) == (20, 6, 400)
    assert (found.connection_wait_s, found.permit_wait_s, found.hold_s) == (2.0, 0.1, 0.1)


def test_without_a_database_or_its_options_there_is_none() -> None:
    assert setting(scenario.load("rag"), dict.fromkeys(OPTIONS, 1), 1, None) is None
    assert setting(scenario.load("admission"), {"connections": 10}, 1, None) is None


def test_the_ten_conditions() -> None:
    chosen = [ALL[name] for name in ("threadpool", "asyncio", "trio", "gevent")]
    found = conditions(scenario.load("admission"), chosen)
    plain = ["threadpool 200", "threadpool 400", "asyncio", "trio", "gevent"]
    assert list(found) == [*plain, *(f"{name} + semaphore" for name in plain)]
    guarded = found["threadpool 400 + semaphore"]
    assert guarded.target.name == "threadpool"
    assert (guarded.scenario.pod.options["threads"], guarded.scenario.pod.options["permits"]) == (400, 10)
    assert found["trio"].scenario.pod.options["permits"] == 0
    assert "threads" not in found["trio"].scenario.pod.options


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("trio", None, 0), "trio"),
        (("trio", None, 10), "trio + semaphore"),
        (("threadpool", 200, 0), "threadpool 200"),
        (("threadpool", 400, 10), "threadpool 400 + semaphore"),
    ],
)
def test_how_a_condition_is_called(words: tuple[str, int | None, int], name: str) -> None:
    assert label(*words) == name
