"""Pods against the article, Erlang's formulas and scipy; failures and updates against brute force."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import little
from harness.capacity import Cost, Costs, PodLimits
from harness.errors import MeasurementError, ScenarioError
from harness.fleet import (
    LAWS,
    Demand,
    Measured,
    carried,
    plan,
    pods_for_node_loss,
    pods_for_update,
    pods_mean,
    pods_staffed,
)
from harness.statistics import Estimate

poisson: Any = vars(scipy.stats)["poisson"]
W = 20.02
POOL = 200 / W

COSTS = Costs(
    target="threadpool",
    runs=3,
    cpu_s=Cost(0.001, 0.0012, 0.0011, 0.0013),
    memory_bytes=Cost(20e6, 40_000.0, 39_000.0, 41_000.0),
    descriptors=Cost(20.0, 2.0),
)
THREADPOOL = Measured(
    name="threadpool",
    rate_max_rps=Estimate(9.96, 9.96, 10.1),
    bound_by="pool",
    w_s=W,
    workers=1,
    limits=PodLimits(cpus=4, memory_bytes=2**31, descriptors=20_000, pool=200),
    costs=COSTS,
)
ASYNCIO = Measured(
    name="asyncio",
    rate_max_rps=Estimate(488.0, 488.0, 497.0),
    bound_by="descriptors",
    w_s=W,
    workers=1,
    limits=PodLimits(cpus=1, descriptors=19_600),
    costs=Costs(target="asyncio", runs=3, cpu_s=Cost(0.0, 0.0006), descriptors=Cost(20.0, 2.0)),
)


# By the mean


@pytest.mark.parametrize(
    ("rate", "rate_max", "pods"),
    [
        (500, 9.96, 51),
        (500, 9.99, 51),
        (500, 200 / 20, 50),
        (500, 1_000, 1),
        (0.1, 9.96, 1),
        (30.0, 0.1, 300),
    ],
)
def test_pods_by_the_mean(rate: float, rate_max: float, pods: int) -> None:
    assert pods_mean(rate, rate_max) == pods


@given(st.integers(1, 10_000), st.floats(0.01, 1_000))
def test_a_whole_number_of_pods_is_not_rounded_up(pods: int, rate_max: float) -> None:
    assert pods_mean(pods * rate_max, rate_max) == pods


# Staffed


@pytest.mark.parametrize(
    ("bound_by", "shared", "pods"),
    [
        ("pool", False, 60),  # each pod of 200 places alone: C(10,010 / 60, 200) ≤ 1 %
        ("pool", True, 52),  # 10,249 places for 10,010 erlangs, in pods of 200
        ("descriptors", False, 60),
        ("descriptors", True, 52),
        ("cpu", False, 51),
        ("cpu", True, 51),
        ("something new", False, 60),
    ],
)
def test_pods_for_the_article_at_one_percent(bound_by: str, shared: bool, pods: int) -> None:
    assert pods_staffed(500, POOL, W, bound_by, 0.01, shared=shared) == pods


small = {
    "rate": st.floats(0.5, 50),
    "places": st.integers(1, 40),
    "w_s": st.floats(0.1, 5),
    "wait": st.floats(0.001, 0.5),
}


@given(**small)
@settings(max_examples=50)
def test_a_pool_alone_by_erlang_c(rate: float, places: int, w_s: float, wait: float) -> None:
    pods = pods_staffed(rate, places / w_s, w_s, "pool", wait)
    assert little.erlang_c(rate * w_s / pods, places) <= wait
    if pods > pods_mean(rate, places / w_s):
        assert little.erlang_c(rate * w_s / (pods - 1), places) > wait


@given(**small)
@settings(max_examples=50)
def test_places_alone_by_the_poisson_tail(rate: float, places: int, w_s: float, wait: float) -> None:
    """An arrival finds no place where as many are in flight as there are places (PASTA)."""
    pods = pods_staffed(rate, places / w_s, w_s, "memory", wait)
    assert poisson.sf(places - 1, rate * w_s / pods) <= wait * (1 + 1e-9)
    if pods > pods_mean(rate, places / w_s):
        assert poisson.sf(places - 1, rate * w_s / (pods - 1)) > wait * (1 - 1e-9)


@given(**small)
@settings(max_examples=50)
def test_a_knowing_balancer_never_needs_more(rate: float, places: int, w_s: float, wait: float) -> None:
    for law in ("pool", "memory", "cpu"):
        alone, shared = (pods_staffed(rate, places / w_s, w_s, law, wait, shared=s) for s in (False, True))
        assert pods_mean(rate, places / w_s) <= shared <= alone


def test_shared_pods_follow_the_square_root_rule() -> None:
    for rate in (500, 5_000, 50_000):
        places = little.square_root_staffing(rate * W, 0.01)
        assert abs(pods_staffed(rate, POOL, W, "pool", 0.01, shared=True) - math.ceil(places / 200)) <= 1


def test_every_resource_that_can_bind_has_a_law() -> None:
    assert {"pool", "permits", "cpu", "memory", "descriptors", "ports", "latency", "hidden pool"} <= set(LAWS)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: pods_mean(0, 1),
        lambda: pods_mean(1, 0),
        lambda: pods_mean(math.inf, 1),
        lambda: pods_staffed(1, 1, 0, "pool", 0.01),
        lambda: pods_staffed(1, 1, 1, "pool", 1),
        lambda: pods_staffed(1, 0.4, 2, "pool", 0.01),  # less than one place
        lambda: pods_for_node_loss(3, 1),
    ],
)
def test_refuses_what_has_no_meaning(refused: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        refused()


# Failures


@given(st.integers(1, 2_000), st.integers(2, 50))
def test_a_lost_node_leaves_enough(pods: int, nodes: int) -> None:
    total = pods_for_node_loss(pods, nodes)

    def left(n: int) -> int:
        return n - math.ceil(n / nodes)

    assert left(total) >= pods
    assert left(total - 1) < pods


@pytest.mark.parametrize(
    ("pods", "unavailable", "surge", "expected"),
    [
        (4, "25%", "25%", (5, 7)),  # of 5, one may be missing; two are added
        (3, "25%", "25%", (3, 4)),  # a quarter of 3 is none
        (51, "25%", "25%", (67, 84)),  # 67 − 16 = 51
        (51, "0", "25%", (51, 64)),
        (51, "1", "0", (52, 52)),
        (51, "0", "0%", (52, 52)),  # nothing could move: Kubernetes lets one be missing
        (1, "0", "1", (1, 2)),
        (10, "50%", "100%", (19, 38)),
    ],
)
def test_a_rolling_update_leaves_enough(
    pods: int, unavailable: str, surge: str, expected: tuple[int, int]
) -> None:
    assert pods_for_update(pods, unavailable, surge) == expected


# Demand


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rate_rps": 0.0}, "rate: expected a number above 0"),
        ({"rate_rps": math.inf}, "rate"),
        ({"rate_rps": math.nan}, "rate"),
        ({"w_s": -1.0}, "w: expected"),
        ({"wait_probability": 1.0}, "wait probability: expected a number above 0 and below 1, found 1"),
        ({"nodes": 1}, "nodes: with 1, losing one leaves none"),
        ({"max_unavailable": "a quarter"}, "max-unavailable: expected a number of pods"),
        ({"max_unavailable": "100%"}, "leaves no pod"),
        ({"max_surge": "-1"}, "max-surge"),
        ({"max_surge": "%"}, "max-surge"),
    ],
)
def test_a_demand_that_cannot_be_met_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        Demand(**{"rate_rps": 500.0, "w_s": W, **wrong})


# The plan


def test_a_row_by_hand() -> None:
    (row,) = plan(Demand(rate_rps=500, w_s=W), [THREADPOOL])
    assert row.pods_mean == Estimate(51, 50, 51)
    assert row.pods.value == pods_staffed(500, 9.96, W, "pool", 0.01)
    assert row.pods_shared.value == pods_staffed(500, 9.96, W, "pool", 0.01, shared=True)
    assert row.in_flight == pytest.approx(10_010)
    assert row.in_flight_peak == little.in_flight_quantile(10_010, 0.99)
    pods = int(row.pods.value or 0)
    assert row.memory_bytes == Estimate(
        pods * 20e6 + 10_010 * 40_000, pods * 20e6 + 10_010 * 39_000, pods * 20e6 + 10_010 * 41_000
    )
    assert row.vcpus_busy is not None
    assert row.vcpus_busy.value == pytest.approx(pods * 0.001 + 500 * 0.0012)
    assert row.vcpus == 4 * pods
    assert row.pods_node_lost == pods_for_node_loss(pods, 3)
    assert (row.pods_rolling, row.pods_rolling_peak) == pods_for_update(pods, "25%", "25%")


def test_the_articles_pod_hours() -> None:
    """51 pods for a million requests at 500/s: 28.3 pod-hours; one pod: 0.556."""
    bound_elsewhere = msgspec.structs.replace(THREADPOOL, bound_by="cpu")
    roomy = msgspec.structs.replace(bound_elsewhere, rate_max_rps=Estimate(1_000, 1_000, 1_100))
    many, one = plan(Demand(rate_rps=500, w_s=W), [bound_elsewhere, roomy])
    assert many.pod_hours_per_million.value == pytest.approx(28.33, abs=0.01)
    assert one.pod_hours_per_million.value == pytest.approx(0.556, abs=0.001)


@given(st.floats(1, 5_000), st.floats(1, 60), st.floats(0.001, 0.3))
@settings(max_examples=30)
def test_rows_are_in_order(rate: float, w_s: float, wait: float) -> None:
    for row in plan(Demand(rate_rps=rate, w_s=w_s, wait_probability=wait), [THREADPOOL, ASYNCIO]):
        mean, shared, alone = (e.value or 0 for e in (row.pods_mean, row.pods_shared, row.pods))
        assert 1 <= mean <= shared <= alone <= row.pods_node_lost
        assert alone <= row.pods_rolling <= row.pods_rolling_peak
        assert row.in_flight <= row.in_flight_peak + 1
        for estimate in (row.pods_mean, row.pods, row.pods_shared, row.pod_hours_per_million):
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.low <= (estimate.value or 0) <= estimate.high


def test_an_open_end_stays_open() -> None:
    """A search that met the instrument's limit knows no upper end of λ max: no lower end of the pods."""
    open_ended = msgspec.structs.replace(
        ASYNCIO, rate_max_rps=Estimate(488.0, 488.0, None, "the generator's limit"), bound_by="instrument"
    )
    (row,) = plan(Demand(rate_rps=5_000, w_s=W), [open_ended])
    assert (row.pods.value, row.pods.low, row.pods.high) == (11, None, 11)
    assert row.pods.reason == "the generator's limit"


def test_what_was_not_measured_stays_empty() -> None:
    bare = msgspec.structs.replace(
        ASYNCIO, costs=Costs(target="x", runs=1), limits=PodLimits(descriptors=19_600)
    )
    (row,) = plan(Demand(rate_rps=500, w_s=W), [bare])
    assert (row.memory_bytes, row.vcpus_busy, row.vcpus) == (None, None, None)
    with pytest.raises(MeasurementError, match="no measured capacity"):
        plan(Demand(rate_rps=500, w_s=W), [])


# At another W


def test_at_its_own_w_the_measurement_stands() -> None:
    assert carried(THREADPOOL, W) == ("pool", THREADPOOL.rate_max_rps)


def test_a_pool_carries_in_proportion_to_1_over_w() -> None:
    bound_by, rate = carried(THREADPOOL, W / 2)
    assert bound_by == "pool"
    assert (rate.value, rate.low, rate.high) == pytest.approx((19.92, 19.92, 20.2))


def test_at_a_short_w_the_cpu_binds_instead() -> None:
    """1.5 CPUs' worth of descriptors at W = 5 s; the prediction there is corrected by the error at 20 s."""
    bound_by, rate = carried(ASYNCIO, 5.0)
    cpu = (1 - 0.0006 * math.log(100) / 0.05) / 0.0006
    assert bound_by == "cpu"
    assert rate.value == pytest.approx(cpu * 488.0 / (9_790 / W))


def test_a_hidden_pool_is_remembered() -> None:
    hidden = msgspec.structs.replace(ASYNCIO, bound_by="hidden pool", rate_max_rps=Estimate(5.0, 5.0, 5.1))
    bound_by, rate = carried(hidden, W / 4)
    assert bound_by == "hidden pool"
    assert rate.value == pytest.approx(20.0)


def test_a_goal_that_a_short_w_makes_impossible() -> None:
    """1.01 W at W = 40 ms leaves 0.4 ms, a request takes 2.8 ms of CPU at the p99: state a goal."""
    with pytest.raises(
        MeasurementError, match=r"asyncio carries nothing at W = 0.04 s: latency.*leaves 0.4 ms"
    ):
        plan(Demand(rate_rps=500, w_s=0.04), [ASYNCIO])
    (row,) = plan(Demand(rate_rps=500, w_s=0.04, slack_s=0.05), [ASYNCIO])
    assert row.bound_by == "cpu"
