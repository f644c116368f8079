"""Percentiles against brute force, rank tests against enumeration, time averages against sums."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import statistics
from harness.statistics import compare_independent, compare_paired, mean_in_flight, summarize, time_average

binom: Any = vars(scipy.stats)["binom"]
finite = st.floats(-1e6, 1e6)
percents = st.one_of(st.integers(1, 99), st.sampled_from([0.1, 2.5, 12.5, 99.5, 99.9, 99.99]))
positive = st.floats(0.01, 100)


def test_p99_of_1_to_100() -> None:
    """The trap: int(100 * 0.99) as an index is the 100th value."""
    assert statistics.nearest_rank(100, 99) == 99


@pytest.mark.parametrize(
    ("n", "percent", "rank"),
    [
        (1, 50, 1),
        (2, 50, 1),
        (3, 50, 2),
        (100, 90, 90),
        (101, 99, 100),
        (1_000, 99.9, 999),
        (1_000, 28, 280),  # 1000 * 0.28 is 280.00000000000006
        (100, 55, 55),  # 100 * 0.55 is 55.00000000000001
        (10, 0.1, 1),
    ],
)
def test_nearest_rank(n: int, percent: float, rank: int) -> None:
    assert statistics.nearest_rank(n, percent) == rank


@given(st.lists(finite, min_size=400, max_size=600), percents.filter(lambda p: 2 < p <= 99))
def test_percentile_is_numpys_inverted_cdf(values: list[float], percent: float) -> None:
    estimate = statistics.percentile(values, percent)
    assert estimate.value == sorted(values)[statistics.nearest_rank(len(values), percent) - 1]
    if isinstance(percent, int):
        assert estimate.value == np.percentile(np.asarray(values), percent, method="inverted_cdf")
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low <= estimate.value <= estimate.high


@given(st.integers(1, 3_000), percents)
def test_interval_covers_and_is_the_tightest(n: int, percent: float) -> None:
    ranks, q = statistics.interval_ranks(n, percent), percent / 100
    if ranks is None:
        assert max(q, 1 - q) ** n > 0.025
        return
    low, high = ranks
    assert 1 <= low < high <= n
    assert binom.cdf(low - 1, n, q) <= 0.025 < binom.cdf(low, n, q)
    assert binom.sf(high - 1, n, q) <= 0.025 < binom.sf(high - 2, n, q)
    assert binom.cdf(high - 1, n, q) - binom.cdf(low - 1, n, q) >= 0.95


def test_interval_covers_in_simulation() -> None:
    """2,000 samples of 500 whose p99 is known: 95 % of intervals hold it, less three standard errors."""
    ordered = np.sort(np.random.default_rng(3).random((2_000, 500)), axis=1)
    ranks = statistics.interval_ranks(500, 99)
    assert ranks is not None
    held = (ordered[:, ranks[0] - 1] <= 0.99) & (ordered[:, ranks[1] - 1] > 0.99)
    assert held.mean() >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 2_000)


@pytest.mark.parametrize(("percent", "n"), [(50, 6), (90, 36), (99, 368), (99.9, 3_688), (10, 36)])
def test_least_n(percent: float, n: int) -> None:
    assert statistics.least_n(percent) == n
    assert statistics.interval_ranks(n, percent) is not None
    assert statistics.interval_ranks(n - 1, percent) is None


def test_summary_of_1_to_1000() -> None:
    p = summarize(np.random.default_rng(1).permutation(np.arange(1, 1_001)))
    assert (p.n, p.p50, p.p90, p.p99, p.max) == (1_000, 500, 900, 990, 1_000)
    assert (p.p99_low, p.p99_high) == (983, 997)
    assert p.notes == {}


def test_eight_values_have_no_p99_and_say_why() -> None:
    p = summarize(range(1, 9))
    assert (p.n, p.p50, p.p90, p.p99, p.p99_low, p.p99_high, p.max) == (8, 4, None, None, None, None, 8)
    assert p.notes == {"p90": "n = 8, p90 needs 36", "p99": "n = 8, p99 needs 368"}


def test_no_values_have_no_figures() -> None:
    """Never 0: 5,999 failures of 5,999 would pass any limit."""
    p = summarize([])
    assert (p.n, p.p50, p.p90, p.p99, p.max) == (0, None, None, None, None)
    assert set(p.notes) == {"p50", "p90", "p99", "max"}


def test_refuses_nan_and_tables() -> None:
    with pytest.raises(ValueError, match="NaN"):
        summarize([1.0, math.nan])
    with pytest.raises(ValueError, match="dimension"):
        summarize([[1.0]])
    for percent in (0, 100, -1):
        with pytest.raises(ValueError, match="percent"):
            statistics.nearest_rank(10, percent)


@given(st.lists(positive, min_size=2, max_size=12), st.integers(0, 1_000))
@settings(max_examples=20)
def test_bootstrap_is_seeded_and_within_the_runs(runs: list[float], seed: int) -> None:
    estimate = statistics.bootstrap_median(runs, seed=seed)
    assert estimate == statistics.bootstrap_median(runs, seed=seed)
    assert estimate.value == np.median(runs)
    assert estimate.low is not None
    assert estimate.high is not None
    assert min(runs) <= estimate.low <= np.median(runs) <= estimate.high <= max(runs)


def test_bootstrap_of_three_against_all_resamples() -> None:
    """27 resamples of three, of which 7 have the smallest as their median: the interval is the range."""
    medians = sorted(float(np.median(resample)) for resample in product([1.0, 2.0, 4.0], repeat=3))
    assert medians.count(1.0) == 7
    estimate = statistics.bootstrap_median([2.0, 4.0, 1.0])
    assert (estimate.low, estimate.value, estimate.high) == (1.0, 2.0, 4.0)


def test_bootstrap_narrows_with_more_runs() -> None:
    normal = np.random.default_rng(5).normal(100, 5, 200)
    few, many = statistics.bootstrap_median(normal[:10]), statistics.bootstrap_median(normal)
    assert few.high is not None
    assert few.low is not None
    assert many.high is not None
    assert many.low is not None
    assert many.high - many.low < (few.high - few.low) / 2


def test_one_run_has_no_interval() -> None:
    estimate = statistics.bootstrap_median([3.0])
    assert (estimate.value, estimate.low, estimate.high) == (3.0, None, None)
    assert "repeat" in estimate.reason
    with pytest.raises(ValueError, match="run"):
        statistics.bootstrap_median([])


@given(st.lists(positive, min_size=7, max_size=7, unique=True), st.integers(1, 6))
def test_mann_whitney_against_all_labellings(pool: list[float], m: int) -> None:
    base, head = pool[:m], pool[m:]

    def above(chosen: tuple[float, ...]) -> int:
        return sum(h > b for h in chosen for b in set(pool) - set(chosen))

    counts = [above(chosen) for chosen in combinations(pool, len(head))]
    expected = np.mean([count >= above(tuple(head)) for count in counts])
    logs_distinct = len(set(np.log(pool))) == len(pool)
    if logs_distinct:
        assert compare_independent(base, head, "greater").p_value == pytest.approx(expected)


def test_mann_whitney_with_ties_is_scipys_normal_approximation() -> None:
    base, head = [1, 1, 2, 3, 5], [1, 2, 3, 3, 8, 9]
    expected = vars(scipy.stats)["mannwhitneyu"](
        head, base, alternative="two-sided", method="asymptotic"
    ).pvalue
    assert compare_independent(base, head).p_value == pytest.approx(expected)


@given(st.lists(st.integers(1, 1_000), min_size=2, max_size=7, unique=True), st.data())
def test_wilcoxon_against_all_signs(sizes: list[int], data: st.DataObject) -> None:
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sizes), max_size=len(sizes)))
    logs = np.asarray(sizes) * np.asarray(signs) / 1_000
    ranks = np.argsort(np.argsort(np.abs(logs))) + 1
    observed = ranks[logs > 0].sum()
    sums = [ranks[np.asarray(flips) > 0].sum() for flips in product([-1, 1], repeat=len(sizes))]
    expected = np.mean([total >= observed for total in sums])
    assert compare_paired(np.ones(len(sizes)), np.exp(logs), "greater").p_value == pytest.approx(expected)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=6), st.floats(0.5, 2))
def test_ratios_turn_round_and_scale(pairs: list[tuple[float, float]], factor: float) -> None:
    base, head = (np.asarray(side) for side in zip(*pairs, strict=True))
    for compare in (compare_independent, compare_paired):
        there = compare(base, head).ratio
        assert compare(head, base).ratio == pytest.approx(1 / there)
        assert compare(base, factor * head).ratio == pytest.approx(factor * there)


@pytest.mark.parametrize("compare", [compare_independent, compare_paired])
@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_clearest_difference_reaches_the_least_p(compare: object, n: int) -> None:
    assert callable(compare)
    base = 1 + np.arange(n) / 1_000
    head = 2 * base + np.arange(n) / 7_000
    for alternative, sides in (("two-sided", 2), ("greater", 1)):
        result = compare(base, head, alternative)
        assert result.p_value == pytest.approx(result.p_least)
        assert result.p_least == sides / (2**n if compare is compare_paired else math.comb(2 * n, n))
    assert compare(base, head, "less").p_value == pytest.approx(1)


def test_pairs_see_through_drift_that_hides_a_shift() -> None:
    """Each run is slower than the last, head 1 % slower than its base: only pairs can tell."""
    base = np.linspace(1, 2, 10)
    head = base * (1.01 + np.arange(10) / 10_000)
    assert compare_paired(base, head, "greater").p_value < 0.001
    assert compare_independent(base, head, "greater").p_value > 0.3


@pytest.mark.parametrize("compare", [compare_independent, compare_paired])
def test_equal_runs_do_not_differ(compare: object) -> None:
    assert callable(compare)
    result = compare([3.0] * 5, [3.0] * 5)
    assert (result.ratio, result.p_value) == (1.0, 1.0)


def test_comparisons_refuse() -> None:
    with pytest.raises(ValueError, match="pairs"):
        compare_paired([1.0, 2.0], [1.0])
    for bad in ([], [0.0], [-1.0], [math.nan], [math.inf]):
        with pytest.raises(ValueError, match=r"NaN|above 0"):
            compare_independent(bad, [1.0])


def test_time_average_by_hand() -> None:
    times, values = [0, 1, 3], [10, 20, 40]
    assert time_average(times, values, 0, 3) == pytest.approx((10 + 2 * 20) / 3)
    assert time_average(times, values, 0.5, 2) == pytest.approx((0.5 * 10 + 20) / 1.5)
    assert time_average(times, values, 4, 9) == 40
    assert time_average(times, values, 2, 4) == 30


@given(
    st.lists(st.tuples(st.integers(0, 50), finite), min_size=1, max_size=20),
    st.integers(0, 49),
    st.integers(1, 50),
)
def test_time_average_is_the_mean_of_unit_steps(
    samples: list[tuple[int, float]], start: int, width: int
) -> None:
    samples = sorted([(0, 1.0), *samples], key=lambda sample: sample[0])
    times, values = zip(*samples, strict=True)
    held = [[v for t, v in samples if t <= second][-1] for second in range(start, start + width)]
    assert time_average(times, values, start, start + width) == pytest.approx(np.mean(held), abs=1e-6)


def test_time_average_refuses() -> None:
    for times, values, start, end, match in (
        ([1], [1], 0, 2, "before the first"),
        ([0], [1], 2, 2, "empty window"),
        ([1, 0], [1, 1], 1, 2, "order"),
        ([0, 1], [1], 0, 2, "as many"),
        ([], [], 0, 2, "as many"),
        ([0], [math.nan], 0, 2, "NaN"),
    ):
        with pytest.raises(ValueError, match=match):
            time_average(times, values, start, end)


def test_mean_in_flight_by_hand() -> None:
    """Inside, across either edge, over the whole window, outside, never started, never ended."""
    started = [2, -5, 9, -5, 20, math.nan, 5]
    ended = [4, 1, 15, 15, 21, math.nan, math.nan]
    assert mean_in_flight(started, ended, 0, 10) == pytest.approx((2 + 1 + 1 + 10 + 0 + 0 + 5) / 10)


@given(
    st.lists(st.tuples(st.integers(-20, 40), st.integers(0, 30)), max_size=30),
    st.integers(0, 20),
    st.integers(1, 20),
)
def test_mean_in_flight_is_the_mean_of_unit_steps(
    spans: list[tuple[int, int]], start: int, width: int
) -> None:
    started = [s for s, _ in spans]
    ended = [s + length for s, length in spans]
    counts = [
        sum(s <= second < e for s, e in zip(started, ended, strict=True))
        for second in range(start, start + width)
    ]
    assert mean_in_flight(started, ended, start, start + width) == pytest.approx(np.mean(counts))


def test_mean_in_flight_is_littles_law() -> None:
    """Constant rate and time: exactly λW once the first are through."""
    started = np.arange(3_000) / 50
    assert mean_in_flight(started, started + 2, 10, 50) == pytest.approx(50 * 2)


def test_mean_in_flight_refuses() -> None:
    for started, ended, end, match in (
        ([1], [0], 5, "before"),
        ([1], [1, 2], 5, "as many"),
        ([], [], 0, "empty"),
    ):
        with pytest.raises(ValueError, match=match):
            mean_in_flight(started, ended, 0, end)
