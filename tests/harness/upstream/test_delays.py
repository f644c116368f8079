"""Delays: their mean, their reproducibility, and waits that are never too short."""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scenario import Delay
from harness.upstream.delays import draws, whole_ticks_s

Kind = Literal["constant", "lognormal", "exponential"]
KINDS: tuple[Kind, ...] = ("constant", "lognormal", "exponential")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mean_s", [0.02, 20.0])
def test_the_mean_is_the_one_asked_for(kind: Kind, mean_s: float) -> None:
    draw = draws(Delay(kind=kind, mean_s=mean_s, sigma=0.5), "1/0/chat")
    assert fmean(draw() for _ in range(20_000)) == pytest.approx(mean_s, rel=0.03)


def test_a_lognormal_has_its_shape() -> None:
    draw = draws(Delay(kind="lognormal", mean_s=20, sigma=0.7), "1/0/chat")
    logs = [math.log(draw()) for _ in range(20_000)]
    assert stdev(logs) == pytest.approx(0.7, rel=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mean_of_zero_is_no_wait(kind: Kind) -> None:
    assert draws(Delay(kind=kind, mean_s=0), "seed")() == 0


@pytest.mark.parametrize("kind", ["lognormal", "exponential"])
def test_the_seed_is_the_sequence(kind: Kind) -> None:
    def first(seed: str) -> list[float]:
        draw = draws(Delay(kind=kind, mean_s=1), seed)
        return [draw() for _ in range(5)]

    assert first("1/0/chat") == first("1/0/chat")
    assert first("1/0/chat") != first("1/1/chat")
    assert first("1/0/chat") != first("1/0/search")


@pytest.mark.parametrize(
    ("delay_s", "now_s", "ticks_s"),
    [
        (0.020, 5.0, 0.020),  # a millisecond begins: nothing to make up for
        (0.020, 5.0004, 0.021),  # 0.4 of this millisecond are over, 0.4 of the last are missing
        (0.0203, 5.0, 0.021),
        (0.0203, 5.0006, 0.021),  # 20.9 after the tick
        (0.0203, 5.0008, 0.022),  # 21.1 after the tick
    ],
)
def test_ticks(delay_s: float, now_s: float, ticks_s: float) -> None:
    assert whole_ticks_s(delay_s, now_s) == ticks_s


@given(st.floats(1e-6, 100), st.floats(0, 1e7))
def test_a_wait_is_late_by_less_than_a_tick_and_never_early(delay_s: float, now_s: float) -> None:
    begun_ms = math.floor(now_s * 1e3)
    woken_ms = begun_ms + round(whole_ticks_s(delay_s, now_s) * 1e3)
    late_ms = woken_ms - (now_s + delay_s) * 1e3
    rounding_ms = 1e-5  # of doubles at 1e7 s
    assert -rounding_ms <= late_ms < 1 + rounding_ms
