"""Curves: percentiles against the statistics that tables use, counts against brute force."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import statistics
from harness.report import curves

times = st.floats(0, 100)
NEVER = math.nan


@pytest.mark.parametrize(("share", "nines"), [(0.0, 0.0), (0.9, 1.0), (0.99, 2.0), (0.999, 3.0)])
def test_nines(share: float, nines: float) -> None:
    assert curves.nines(share) == pytest.approx(nines)


@pytest.mark.parametrize("percent", [50, 90, 99, 99.9])
def test_a_sample_carries_the_percentile_that_the_table_prints(percent: float) -> None:
    least, at = statistics.least_n(percent), curves.nines(percent / 100)
    assert curves.nines_carried(least) >= at > curves.nines_carried(least - 1)
    assert curves.nines_carried(0) == 0


@given(st.integers(30, 3_000))
def test_percentiles_are_the_nearest_ranks(n: int) -> None:
    values = np.random.default_rng(n).permutation(n).astype(float) + 1
    x, y = curves.percentiles(values)
    assert x.size == y.size > 0
    # The k-th value is k, and ⌈q⌉ is the k with 0 ≤ k − q < 1; the first rank is 1 even for q = 0.
    beyond = y - n * (1 - 10.0**-x)
    assert np.all((beyond > -1e-6) & (beyond < 1 + 1e-6))
    assert np.all(np.diff(y) >= 0)
    assert y[-1] < n


def test_no_values_have_no_percentiles() -> None:
    assert [part.size for part in curves.percentiles(np.array([]))] == [0, 0]


@given(st.lists(st.tuples(times, times), max_size=30), st.lists(times, min_size=1, max_size=10))
def test_in_flight_is_a_count(pairs: list[tuple[float, float]], at: list[float]) -> None:
    started = [min(pair) for pair in pairs]
    ended = [max(pair) for pair in pairs]
    found = curves.in_flight(np.array(started), np.array(ended), np.array(at))
    assert list(found) == [sum(s <= t < e for s, e in zip(started, ended, strict=True)) for t in at]


def test_what_never_started_or_has_not_ended() -> None:
    started, ended = np.array([1.0, 2.0, NEVER]), np.array([NEVER, 3.0, NEVER])
    assert list(curves.in_flight(started, ended, np.array([0.0, 1.0, 2.5, 9.0]))) == [0, 1, 2, 1]


@given(st.lists(st.floats(-1e3, 1e3), max_size=200), st.integers(2, 50))
def test_thinning_keeps_the_outliers(values: list[float], keep: int) -> None:
    array = np.array(values)
    kept = curves.thinned(array, keep)
    assert kept.size == min(keep, array.size)
    assert list(kept) == sorted(set(kept))
    assert sorted(array[kept])[-(keep // 2) :] == sorted(values)[-(keep // 2) :]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0, 0.5))
def test_labels_are_spread_in_order_and_inside(wanted: list[float], gap: float) -> None:
    placed = curves.spread(wanted, gap, 0.0, 1.0)
    fits = min(gap, 1 / max(1, len(wanted) - 1))
    in_order = [placed[i] for i in sorted(range(len(wanted)), key=lambda i: wanted[i])]
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in placed)
    assert all(b - a >= fits - 1e-9 for a, b in pairwise(in_order))


def test_labels_that_are_apart_stay_where_they_are() -> None:
    assert curves.spread([0.9, 0.1, 0.5], 0.1, 0.0, 1.0) == [0.9, 0.1, 0.5]
