"""The .hgrm text: the library's levels, counts that add up, and what a reader of the format gets back."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report import hgrm

# As HdrHistogram prints them with five ticks per half distance.
LEVELS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.775, 0.8, 0.825, 0.85, 0.875, 0.8875]


def rows(text: str) -> list[list[float]]:
    lines = [line for line in text.splitlines()[1:] if line and not line.startswith("#")]
    return [[float(word) for word in line.split()] for line in lines]


def test_levels() -> None:
    assert list(islice(hgrm.levels(), len(LEVELS))) == pytest.approx(LEVELS)


def test_text() -> None:
    text = hgrm.render(np.array([3.0, 1.0, 2.0, 4.0]))
    assert text.splitlines() == [
        "       Value     Percentile TotalCount 1/(1-Percentile)",
        "",
        "       1.000 0.000000000000          1           1.00",
        "       1.000 0.100000000000          1           1.11",
        "       1.000 0.200000000000          1           1.25",
        "       2.000 0.300000000000          2           1.43",
        "       2.000 0.400000000000          2           1.67",
        "       2.000 0.500000000000          2           2.00",
        "       3.000 0.550000000000          3           2.22",
        "       3.000 0.600000000000          3           2.50",
        "       3.000 0.650000000000          3           2.86",
        "       3.000 0.700000000000          3           3.33",
        "       3.000 0.750000000000          3           4.00",
        "       4.000 0.775000000000          4           4.44",
        "       4.000 1.000000000000          4",
        "#[Mean    =        2.500, StdDeviation   =        1.118]",
        "#[Max     =        4.000, Total count    =            4]",
    ]


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=300))
def test_each_line_is_true_of_the_sample(values: list[int]) -> None:
    lines = rows(hgrm.render(np.array(values, dtype=float)))
    for value, level, count, *inverse in lines:
        assert count == sum(v <= value for v in values)
        assert count >= level * len(values) - 1e-6
        assert inverse == ([] if level == 1 else [pytest.approx(1 / (1 - level), abs=0.006)])
    assert lines[-1] == [max(values), 1, len(values)]
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)


@pytest.mark.parametrize("values", [[], [1.0, np.nan]])
def test_what_has_no_distribution_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="needs values"):
        hgrm.render(np.array(values))
