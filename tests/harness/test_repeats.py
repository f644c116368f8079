"""Drift against scipy's exact Kendall test and by hand, outliers by hand; both leave small things alone."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_run

from harness import repeats
from harness.repeats import outliers, trend
from harness.run import Run

stats: Any = scipy.stats
SERIES = st.lists(st.integers(1, 10**6), min_size=2, max_size=8, unique=True)


@given(SERIES)
def test_one_condition_is_kendalls_exact_test(values: list[int]) -> None:
    found = trend([values])
    assert found is not None
    assert found.p_value == pytest.approx(stats.kendalltau(range(len(values)), values, method="exact").pvalue)


@given(SERIES, SERIES)
def test_the_other_way_round_it_falls_as_it_rose(one: list[int], other: list[int]) -> None:
    forth, back = trend([one, other]), trend([one[::-1], other[::-1]])
    assert forth is not None
    assert back is not None
    assert forth.p_value == pytest.approx(back.p_value)
    assert 1 + forth.change == pytest.approx(1 / (1 + back.change))


def test_three_repeats_of_four_conditions_tell_together_what_none_tells_alone() -> None:
    rising = [1.0, 1.05, 1.1]
    alone, together = trend([rising]), trend([rising] * 4)
    assert alone is not None
    assert together is not None
    assert alone.p_value == pytest.approx(2 / 6)
    assert together.p_value == pytest.approx(2 / 6**4)
    assert together.change == pytest.approx(0.1, rel=0.01)


def test_without_two_runs_of_anything_there_is_no_trend() -> None:
    assert trend([]) is None
    assert trend([[1.0], [2.0]]) is None


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 1.01, 0.99, 1.0, 1.5], [4]),
        ([1.0, 1.01, 0.99, 0.5, 1.0], [3]),
        ([1.0, 1.0, 1.0, 1.04], []),  # stands apart, but by less than is worth a word
        ([1.0, 1.3, 0.8, 1.1, 0.9], []),  # all of them do
        ([1.0, 1.0, 9.0], []),  # too few to say
    ],
)
def test_outliers(values: list[float], found: list[int]) -> None:
    assert outliers(values) == found


def made(cpu_s: float, at: int) -> Run:
    run = make_run(cpu_s=cpu_s, run_id=f"run-{at}")
    return msgspec.structs.replace(run, created=f"2026-11-30T09:{at:02}:00Z")


def test_notes_name_the_metric_the_run_and_how_far() -> None:
    rising = [made(0.0006 * (1 + 0.05 * at), at) for at in range(6)]
    (drift,) = repeats.notes({"asyncio": rising})
    assert "CPU a request rose by 25%" in drift
    assert repeats.notes({"asyncio": rising[::-1]}) == [drift], "the order is that of time"
    steady = [made(0.0006 * factor, at) for at, factor in enumerate((1.0, 1.01, 1.5, 0.99, 1.0))]
    (outlier,) = repeats.notes({"trio": steady})
    assert outlier == "outlier: CPU a request of trio in run-2 is +50% off the median"


def test_noise_is_left_alone() -> None:
    rng = np.random.default_rng(3)
    named = 0
    for _ in range(50):
        runs = {
            name: [made(0.0006 * float(np.exp(rng.normal(0, 0.02))), at) for at in range(5)] for name in "abc"
        }
        named += bool(repeats.notes(runs))
    assert named <= 5
