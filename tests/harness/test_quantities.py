"""Quantities: what is read, what is refused, and with which words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ScenarioError
from harness.quantities import DURATIONS, RATES, parse_duration, parse_rate, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20 ms", 0.02),
        ("1.5 s", 1.5),
        ("2 min", 120.0),
        ("1 h", 3600.0),
        ("60.06s", 60.06),
        ("  .5 s ", 0.5),
        ("1e3 ms", 1.0),
        ("-1 s", -1.0),
        ("0 s", 0.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "rps"), [("500/s", 500.0), ("30/min", 0.5), ("0.05 /s", 0.05), ("90/h", 0.025)]
)
def test_rates(text: str, rps: float) -> None:
    assert parse_rate(text) == rps


@pytest.mark.parametrize(("text", "size"), [("64 KiB", 65_536), ("1.5 MiB", 1_572_864), ("0.6 B", 1)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("20", ["'20' has no unit", "20 ms", "ms, s, min, h"]),
        (20, ["20 has no unit"]),
        ("20 seconds", ['unknown unit "seconds"', "ms, s, min, h"]),
        ("20 S", ['unknown unit "S"']),
        ("500/s", ['unknown unit "/s"']),
        ("1,000 s", ["not a finite number"]),
        ("s", ["not a finite number"]),
        ("", ["not a finite number"]),
        ("nan s", ["not a finite number"]),
        ("inf s", ["not a finite number"]),
        ("1e999 s", ["too large"]),
        ("1e9999999999 s", ["not a finite number"]),
        ("٢ s", ["not a finite number"]),
        (True, ["expected a quantity", "20 ms"]),
        (None, ["expected a quantity"]),
    ],
)
def test_refused(text: object, words: list[str]) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse_duration(text)
    for word in words:
        assert word in str(refused.value)


def test_a_command_line_may_leave_out_the_unit() -> None:
    assert parse_duration("20", "s") == 20.0
    assert parse_duration(20, "s") == 20.0
    assert parse_duration("20 ms", "s") == 0.02
    assert parse_rate("0.05", "/s") == 0.05
    with pytest.raises(ScenarioError, match="not a finite number"):
        parse_rate(float("inf"), "/s")


@given(st.floats(min_value=-1e9, max_value=1e9), st.sampled_from(sorted(DURATIONS)))
def test_a_written_duration_is_read_back(number: float, unit: str) -> None:
    scale = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600}[unit]
    assert parse_duration(f"{number!r} {unit}") == pytest.approx(number * scale, rel=1e-15)


@given(st.text(max_size=12))
def test_whatever_is_typed_is_a_finite_number_or_refused(text: str) -> None:
    for unit in (None, *RATES):
        try:
            rate = parse_rate(text, unit)
        except ScenarioError:
            continue
        assert math.isfinite(rate)
