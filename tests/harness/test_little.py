"""Capacity bounds and staffing, against closed forms and published tables."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from harness import little

poisson: Any = vars(scipy.stats)["poisson"]
W = 20.02
loads = st.floats(0.1, 300)
waits = st.floats(0.001, 0.9)


def test_concurrency() -> None:
    assert little.concurrency(500, W) == pytest.approx(10_010)


def test_pool_of_200() -> None:
    bound = little.by_pool(threads=200, workers=1, w_s=W)
    assert bound.rate_max_rps == pytest.approx(9.99, abs=0.001)
    assert bound.limit == 200
    assert "200 threads" in bound.detail


@pytest.mark.parametrize(
    ("bound", "resource", "limit", "rate_max_rps"),
    [
        (little.by_pool(200, 3, 2.0), "pool", 600, 300),
        (little.by_permits(10, 2, 0.1), "permits", 20, 200),
        (little.by_descriptors(20_000, 20, 2, 1, W), "descriptors", 9_990, 9_990 / W),
        (little.by_descriptors(20_000, 21, 2, 3, W), "descriptors", 3 * 9_989, 3 * 9_989 / W),
        (little.by_descriptors(10, 20, 2, 1, W), "descriptors", 0, 0),
        (little.by_ports(28_232, 2, W), "ports", 56_464, 56_464 / W),
        (little.by_ports(28_232, 1, W, time_wait_s=60), "ports", 28_232, 28_232 / 80.02),
    ],
)
def test_bounds(bound: little.Bound, resource: str, limit: int, rate_max_rps: float) -> None:
    assert (bound.resource, bound.limit) == (resource, limit)
    assert bound.rate_max_rps == pytest.approx(rate_max_rps)


def test_the_articles_rate_misses_one_process_by_a_hair() -> None:
    assert little.by_descriptors(20_000, 20, 2, 1, W).rate_max_rps < 500


def test_the_smallest_bound_binds() -> None:
    bounds = [
        little.by_descriptors(20_000, 20, 2, 1, W),
        little.by_pool(200, 1, W),
        little.by_permits(200, 1, W),
    ]
    assert little.binding(bounds).resource == "pool"
    assert little.binding(reversed(bounds)).resource == "permits"
    with pytest.raises(ValueError, match="empty"):
        little.binding([])


@pytest.mark.parametrize(
    ("in_flight", "capacity", "headroom", "processes"),
    [
        (450 * W, 9_990, little.HEADROOM, 1),
        (500 * W, 9_990, little.HEADROOM, 2),
        (1_000 * W, 9_990, little.HEADROOM, 3),
        (0.5, 9_990, little.HEADROOM, 1),
        (100, 10, 0.0, 10),
        (101, 10, 0.0, 11),
        (100, 10, 0.5, 20),
    ],
)
def test_processes_needed(in_flight: float, capacity: int, headroom: float, processes: int) -> None:
    assert little.processes_needed(in_flight, capacity, headroom) == processes


@pytest.mark.parametrize(
    ("offered", "servers", "blocked"),
    [
        (10, 10, 0.214582),
        (5, 10, 0.018385),
        (1, 1, 1 / 2),
        (1, 2, 1 / 5),
        (2, 3, 4 / 19),
        (100, 100, 0.075700),
        (0.5, 0, 1.0),
    ],
)
def test_erlang_b_published(offered: float, servers: int, blocked: float) -> None:
    assert little.erlang_b(offered, servers) == pytest.approx(blocked, abs=1e-6)


@given(loads, st.integers(0, 400))
def test_erlang_b_is_a_truncated_poisson(offered: float, servers: int) -> None:
    truncated = poisson.pmf(servers, offered) / poisson.cdf(servers, offered)
    assert little.erlang_b(offered, servers) == pytest.approx(truncated, rel=1e-7, abs=1e-290)


@pytest.mark.parametrize(
    ("offered", "servers", "waits"),
    [
        (0.7, 1, 0.7),
        (1, 2, 1 / 3),
        (2, 3, 4 / 9),
        (1.5, 2, 9 / 14),
        (10, 10, 1.0),
        (12, 10, 1.0),
    ],
)
def test_erlang_c_closed_form(offered: float, servers: int, waits: float) -> None:
    assert little.erlang_c(offered, servers) == pytest.approx(waits)


@given(loads, st.integers(1, 400))
def test_erlang_c_from_its_definition(offered: float, servers: int) -> None:
    """P(wait) = tail / (head + tail) with the weights aⁱ/i!, scaled by e⁻ᵃ so that they do not overflow."""
    if offered < servers:
        tail = poisson.pmf(servers, offered) * servers / (servers - offered)
        expected = tail / (poisson.cdf(servers - 1, offered) + tail)
        assert little.erlang_c(offered, servers) == pytest.approx(expected, rel=1e-6, abs=1e-290)


@given(loads, waits)
def test_servers_for_is_the_smallest(offered: float, wait: float) -> None:
    n = little.servers_for(offered, wait)
    assert little.erlang_c(offered, n) <= wait < little.erlang_c(offered, n - 1)


@given(st.floats(1, 2_000), waits)
def test_square_root_rule_is_close_to_erlang_c(offered: float, wait: float) -> None:
    assert abs(little.square_root_staffing(offered, wait) - little.servers_for(offered, wait)) <= 2


def test_square_root_rule_spares_grow_with_the_root() -> None:
    spares = [little.square_root_staffing(a, 0.1) - a for a in (100.0, 10_000.0, 1_000_000.0)]
    assert all(b / a == pytest.approx(10, rel=0.1) for a, b in pairwise(spares))


@pytest.mark.parametrize(("beta", "wait"), [(0.0, 1.0), (0.5, 0.5045), (1.0, 0.2234), (2.0, 0.0269)])
def test_halfin_whitt_published(beta: float, wait: float) -> None:
    assert little.halfin_whitt(beta) == pytest.approx(wait, abs=5e-4)


@given(st.floats(0.1, 50_000), st.floats(0.01, 0.9999))
def test_in_flight_quantile_is_the_smallest(offered: float, probability: float) -> None:
    k = little.in_flight_quantile(offered, probability)
    assert poisson.cdf(k, offered) >= probability * (1 - 1e-9)
    assert poisson.cdf(k - 1, offered) < probability * (1 + 1e-9)


def test_in_flight_quantile_by_hand() -> None:
    """Mean 1: P(0) = 0.368, P(≤ 1) = 0.736, P(≤ 2) = 0.920, P(≤ 3) = 0.981."""
    assert [little.in_flight_quantile(1.0, p) for p in (0.3, 0.7, 0.9, 0.95)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda: little.concurrency(0, 1),
        lambda: little.concurrency(1, math.nan),
        lambda: little.by_pool(200, 1, 0),
        lambda: little.by_pool(-1, 1, 1),
        lambda: little.by_descriptors(100, 10, 0, 1, 1),
        lambda: little.processes_needed(1, 0),
        lambda: little.processes_needed(-1, 10),
        lambda: little.processes_needed(1, 10, headroom=1),
        lambda: little.erlang_b(0, 1),
        lambda: little.erlang_c(1, -1),
        lambda: little.servers_for(1, 0),
        lambda: little.servers_for(-1, 0.5),
        lambda: little.square_root_staffing(1, 1),
        lambda: little.halfin_whitt(-0.1),
        lambda: little.in_flight_quantile(1, 1),
    ],
)
def test_refuses(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=r"must|cannot"):
        call()
