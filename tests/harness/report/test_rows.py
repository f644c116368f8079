"""Rows: which runs are repeats of each other, and where each figure of a row comes from."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import GEVENT, THREADS, Pod, published, repeated

from harness import targets
from harness.report.load import load
from harness.report.metrics import METRICS, estimate
from harness.report.rows import OF_LATENCY, Chapter, Row, chapters, needed, pods, without_valid_run
from harness.statistics import Estimate

REGISTRY = targets.load_targets()
# W = 1 s, 10 permits: λ max is 10/s.
POD = Pod(rate_rps=100, w_s=1.0, window_s=8.0)
POOL = replace(THREADS, options={**THREADS.options, "threads": 10}, pool=10, w_s=1.0, window_s=40.0)
STEADY, SATURATED = replace(POOL, rate_rps=9.7), replace(POOL, rate_rps=12, regime="saturated")


def book(results: Path) -> list[Chapter]:
    return chapters(load(results), REGISTRY)


def rows(results: Path) -> dict[str, Row]:
    return {row.label: row for chapter in book(results) for row in chapter.rows}


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({}, "asyncio"),
        ({"repeat": 1}, "asyncio"),
        ({"rate_rps": 50}, "asyncio"),
        ({"options": {"loop": "uvloop", "gc": "off", "backlog": 4096}}, "asyncio gc=off loop=uvloop"),
        ({"workers": 2}, "asyncio workers=2"),
        ({"w_s": 0.5}, "asyncio W=0.5 s"),
        ({"route": "/mine"}, "asyncio route=/mine"),
        ({"machine": "arm64"}, "asyncio machine=arm64, CPython 3.11.7"),
        ({"target": "mine", "options": {"a": 1}}, "mine a=1"),
        ({"target": "a\nb", "options": {}}, "a�b"),
    ],
)
def test_a_condition_is_what_runs_have_in_common(
    tmp_path: Path, change: dict[str, object], label: str
) -> None:
    published(tmp_path, POD)
    published(tmp_path, replace(POD, **{"repeat": 2, **change}))  # type: ignore[arg-type]
    found = rows(tmp_path)
    assert label in found
    assert len(found) == (1 if label == "asyncio" else 2)


def test_a_fact_is_named_only_where_it_varies(tmp_path: Path) -> None:
    published(tmp_path, POD)
    published(tmp_path, replace(POD, w_s=0.5))
    published(tmp_path, replace(POD, scenario="other"))
    assert [[row.label for row in chapter.rows] for chapter in book(tmp_path)] == [
        ["asyncio"],
        ["asyncio W=0.5 s", "asyncio W=1 s"],
    ]


def test_scenarios_and_arms_stay_apart_and_rows_in_order(tmp_path: Path) -> None:
    own = replace(POD, target="mine", model="mine", options={})
    wide = replace(STEADY, options={**POOL.options, "threads": 100}, pool=100)
    narrow = replace(STEADY, options={**POOL.options, "threads": 20}, pool=20)
    plain = replace(STEADY, options=THREADS.options, pool=200)
    for pod in (own, wide, GEVENT, narrow, POD, replace(POD, workers=2), plain):
        published(tmp_path, replace(pod, w_s=1.0, window_s=8.0))
    assert [(c.scenario, c.arm, [row.label for row in c.rows]) for c in book(tmp_path)] == [
        (
            "rag",
            "controlled",
            [
                "threadpool",
                "threadpool threads=20",
                "threadpool threads=100",
                "asyncio",
                "asyncio workers=2",
                "gevent",
            ],
        ),
        ("rag", "own", ["mine"]),
    ]


def test_a_pool_is_saturated_for_its_rate_and_steady_for_its_latency(tmp_path: Path) -> None:
    repeated(tmp_path, STEADY, 3)
    repeated(tmp_path, SATURATED, 2)
    row = rows(tmp_path)["threadpool threads=10"]
    assert row.steady is not None
    assert row.saturated is not None
    assert [len(cell.stored) for cell in (row.steady, row.saturated)] == [3, 2]
    assert not row.rate_max_at_least
    figures = row.figures
    assert figures["rate_max_rps"].value == pytest.approx(10, rel=0.01)
    assert figures["latency_p99_s"].value == pytest.approx(1.016, abs=0.01)
    assert figures["rate_offered_rps"].value == pytest.approx(9.7, rel=0.01)
    assert figures["measured_over_predicted"].value == pytest.approx(1, rel=0.01)
    assert figures["pods"] == pods(500, figures["rate_max_rps"])
    assert row.bound_by == "pool"
    assert row.total("planned") == 3 * 387 + 2 * 480


def test_the_prediction_is_held_against_the_saturated_runs(tmp_path: Path) -> None:
    slow = replace(STEADY, rate_rps=5, overhead_s=0.2)  # in flight 1.2 times λW
    published(tmp_path, slow)
    assert (rows(tmp_path)["threadpool threads=10"].figures["measured_over_predicted"].value or 0) > 1.1
    published(tmp_path, replace(SATURATED, overhead_s=0.2))
    found = rows(tmp_path)["threadpool threads=10"].figures["measured_over_predicted"]
    assert found.value == pytest.approx(1, rel=0.02)


def test_a_pod_that_was_never_saturated_has_a_lower_bound(tmp_path: Path) -> None:
    published(tmp_path, POD)
    published(tmp_path, replace(POD, rate_rps=200))
    row = rows(tmp_path)["asyncio"]
    assert [cell.rate_rps for cell in row.rates] == [100, 200]
    assert row.rate_max_at_least
    assert row.figures["rate_max_rps"] == Estimate(200.0, None, None)
    assert row.figures["pods"].value == 3
    assert row.figures["throughput_rps"].value == pytest.approx(200, rel=0.02)


def test_a_pod_that_did_less_when_overloaded_is_not_called_slower_than_it_was(tmp_path: Path) -> None:
    published(tmp_path, replace(STEADY, rate_rps=9.9))
    published(tmp_path, replace(SATURATED, rate_rps=9.0))  # carried 9/s
    row = rows(tmp_path)["threadpool threads=10"]
    assert row.rate_max_at_least
    assert row.figures["rate_max_rps"].value == pytest.approx(9.9, rel=0.01)


def test_what_was_not_run_is_empty_with_its_reason(tmp_path: Path) -> None:
    published(tmp_path, SATURATED)
    row = rows(tmp_path)["threadpool threads=10"]
    assert row.steady is None
    assert row.figures["latency_p99_s"] == Estimate(None, None, None, "no steady run")
    assert row.figures["rate_max_rps"].value is not None


def test_a_pod_that_was_only_run_full_has_resources_and_no_latency(tmp_path: Path) -> None:
    published(tmp_path, SATURATED)
    row = rows(tmp_path)["threadpool threads=10"]
    assert row.figures["concurrency"].value == pytest.approx(10, rel=0.01)
    assert row.figures["rss_mean_bytes"].value == pytest.approx(23e6 + 10 * 40e3, rel=0.01)
    assert {row.figures[key].value for key in OF_LATENCY} == {None}
    published(tmp_path, STEADY)
    both = rows(tmp_path)["threadpool threads=10"]
    assert both.figures["concurrency"].value == pytest.approx(9.7, rel=0.02), (
        "steady runs speak where there are some"
    )


def test_an_option_that_came_later_makes_no_other_condition(tmp_path: Path) -> None:
    published(tmp_path, POD)
    published(tmp_path, replace(POD, options={**POD.options, "cpu_us": 0}, repeat=1))
    assert list(rows(tmp_path)) == ["asyncio"]


def test_why_a_figure_is_missing(tmp_path: Path) -> None:
    note = "pss_bytes: too many threads to read it each second"
    repeated(tmp_path, replace(POD, rate_rps=20, notes=(note,), gauges=False), 2)
    figures = rows(tmp_path)["asyncio"].figures
    assert figures["pss_mean_bytes"].reason == "too many threads to read it each second"
    assert figures["concurrency"].reason == "not measured"
    assert figures["latency_p99_s"].reason == "n = 160, p99 needs 368"


def test_one_run_has_no_interval_and_several_have(tmp_path: Path) -> None:
    repeated(tmp_path, POD, 3)
    published(tmp_path, replace(GEVENT, w_s=1.0))
    found = rows(tmp_path)
    once = found["gevent"].figures["cpu_percent"]
    assert (once.low, once.high) == (None, None)
    cpu = found["asyncio"].figures["cpu_s_per_request"]
    assert (cpu.value, cpu.low, cpu.high) == pytest.approx((0.612e-3, 0.6e-3, 0.624e-3))


def test_a_figure_of_some_runs_says_so(tmp_path: Path) -> None:
    published(tmp_path, POD)
    published(tmp_path, replace(POD, gauges=False, repeat=1))
    found = rows(tmp_path)["asyncio"].figures["concurrency"]
    assert found.value is not None
    assert found.reason == "measured in 1 of 2 runs"


def test_discarded_runs_are_counted_and_enter_nothing(tmp_path: Path) -> None:
    published(tmp_path, POD)
    alone = rows(tmp_path)["asyncio"].figures
    slow = replace(POD, overhead_s=9.0, bytes_per_request=1e6)
    published(tmp_path, slow, discarded="drift")
    published(tmp_path, replace(slow, valid=False, repeat=1))
    published(tmp_path, replace(slow, workers=2), discarded="drift")
    row = rows(tmp_path)["asyncio"]
    assert (row.discarded, row.verdict) == (2, "valid; 2 discarded")
    assert row.figures == alone
    lost = without_valid_run(load(tmp_path), REGISTRY)
    assert [(condition.label(), len(items)) for condition, items in lost.items()] == [
        ("asyncio workers=2", 1)
    ]


def test_the_typical_run_has_the_median_p99(tmp_path: Path) -> None:
    for repeat, overhead_s in enumerate((0.030, 0.010, 0.020)):
        published(tmp_path, replace(POD, overhead_s=overhead_s, repeat=repeat))
    cell = rows(tmp_path)["asyncio"].steady
    assert cell is not None
    assert cell.typical().run.id == cell.stored[2].run.id


@pytest.mark.parametrize(
    ("pod", "beside"),
    [
        (replace(THREADS, rate_rps=9.7), ("worker pool (200)", 9.96)),
        (replace(POOL, rate_rps=0.4, w_s=20.02), None),  # another size of pool
        (replace(POD, w_s=20.02, rate_rps=450), ("reactive", 500)),
        (replace(POD, w_s=20.02, rate_rps=900), ("reactive", 1000)),
        (replace(GEVENT, rate_rps=500), ("virtual threads", 500)),
        (POD, None),  # another W
        (replace(POD, w_s=20.02, model="mine"), None),
    ],
)
def test_what_stands_beside(tmp_path: Path, pod: Pod, beside: tuple[str, float] | None) -> None:
    published(tmp_path, pod)
    (row,) = rows(tmp_path).values()
    assert (row.beside and (row.beside[0].name, row.beside[1].rate_rps)) == beside


@pytest.mark.parametrize(
    ("rate_max", "expected"),
    [
        (Estimate(9.96, 9.9, 10.0), (51, 50, 51)),
        (Estimate(500.0, None, None), (1, None, None)),
        (Estimate(1e6, None, None), (1, None, None)),
        (Estimate(None, None, None, "no run"), (None, None, None)),
        (Estimate(0.0, None, None), (None, None, None)),
    ],
)
def test_pods(rate_max: Estimate, expected: tuple[float | None, ...]) -> None:
    found = pods(500.0, rate_max)
    assert (found.value, found.low, found.high) == expected
    assert (found.value is None) == bool(found.reason)


@given(st.floats(0.1, 1e5), st.integers(1, 1_000))
def test_a_rate_that_fits_exactly_needs_no_pod_more(rate_max: float, n: int) -> None:
    assert needed(rate_max * n, rate_max) == n
    assert needed(rate_max * n * 1.001, rate_max) == n + math.ceil(n * 0.001)


def test_an_estimate_of_runs_is_their_median(tmp_path: Path) -> None:
    repeated(tmp_path, POD, 5)
    runs = [stored.run for stored in load(tmp_path).valid]
    values = [run.resources.cpu_percent for run in runs]
    assert estimate(METRICS["cpu_percent"], runs).value == np.median(np.array(values, dtype=float))
