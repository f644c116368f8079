"""The schedule: counts, spacing, and that it does not depend on how it is shared."""

from __future__ import annotations

import math
import statistics
from itertools import accumulate, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.arrivals import KINDS, offsets, share


class Stage(NamedTuple):
    duration_s: float
    rate_rps: float


RAMP = (Stage(10, 4),)
rates = st.floats(0.05, 2_000)
seeds = st.integers(0, 2**32)
stage_lists = st.lists(
    st.builds(
        Stage, st.one_of(st.just(0.0), st.floats(0.01, 20)), st.one_of(st.just(0.0), st.floats(0.05, 50))
    ),
    min_size=1,
    max_size=6,
).filter(lambda stages: any(stage.rate_rps > 0 for stage in stages))


def constant(rate_rps: float, duration_s: float) -> list[float]:
    return list(offsets("constant", rate_rps, (), duration_s, 1))


def staged(stages: tuple[Stage, ...] | list[Stage], duration_s: float) -> list[float]:
    return list(offsets("stages", 0, stages, duration_s, 1))


@pytest.mark.parametrize(
    ("rate_rps", "duration_s", "count"),
    [
        (5, 60, 300),
        (200, 50, 10_000),
        (0.05, 60, 3),
        (0.05, 61, 4),
        (0.07, 100, 7),  # 0.07 * 100 is 7.000000000000001, and 7 / 0.07 is 99.99999999999999
        (0.1, 0.3, 1),
        (0.1, 60, 6),
        (1.1, 10, 11),
        (100 / 60, 60, 100),  # "100/min"
        (2.5, 10, 25),
        (500, 90, 45_000),
        (1e-9, 1, 1),
        (3_333.3, 30, 99_999),
    ],
)
def test_constant_counts(rate_rps: float, duration_s: float, count: int) -> None:
    due = constant(rate_rps, duration_s)
    assert len(due) == count
    assert due[0] == 0
    assert due[-1] < duration_s


@given(st.integers(1, 100_000), st.integers(1, 5_000))
def test_constant_counts_whatever_decimals_were_written(
    rate_hundredths: int, duration_hundredths: int
) -> None:
    count = -(-rate_hundredths * duration_hundredths // 10_000)
    assert len(constant(rate_hundredths / 100, duration_hundredths / 100)) == count


def test_constant_does_not_drift() -> None:
    due = constant(200, 50)
    assert all(due[i] == i / 200 for i in range(10_000))


def test_constant_windows_join() -> None:
    """Request 7 of 0.07/s belongs to the window from 100 s on, not to the one before."""
    due = constant(0.07, 200)
    assert due[7] == 100
    assert sum(t < 100 for t in due) == 7


def test_ramp_from_nothing_sends_during_the_ramp() -> None:
    """λT/2 requests, request i at √(2iT/λ): the trap of tools that send nothing until the ramp is over."""
    due = staged(RAMP, 10)
    assert len(due) == 4 * 10 / 2
    assert due == pytest.approx([math.sqrt(2 * i * 10 / 4) for i in range(20)])


def test_ramp_down_mirrors_ramp_up() -> None:
    """Going down, i requests are left at T − √(2iT/λ)."""
    due = staged((Stage(0, 4), Stage(10, 0)), 10)
    assert due == pytest.approx([10 - math.sqrt(2 * (20 - i) * 10 / 4) for i in range(20)])


def test_last_rate_holds() -> None:
    due = staged(RAMP, 15)
    assert due[20:] == pytest.approx([10 + i / 4 for i in range(20)])


def test_cut_stage_is_a_prefix() -> None:
    assert staged(RAMP, 5) == pytest.approx([t for t in staged(RAMP, 10) if t < 5])


def test_pause_delays_the_next_request_to_its_end() -> None:
    due = staged((Stage(0, 1), Stage(5, 1), Stage(0, 0), Stage(10, 0), Stage(0, 1), Stage(2, 1)), 17)
    assert due == [0, 1, 2, 3, 4, 15, 16]


def test_rounding_at_a_stages_end() -> None:
    """100 s at 0.07/s are 7.000000000000001 requests: number 7 opens the next stage, from rate 0."""
    due = staged((Stage(0, 0.07), Stage(100, 0.07), Stage(0, 0), Stage(10, 1)), 110)
    assert due[7] == 100


def test_rounding_at_the_very_end() -> None:
    """Request 2 is due within half a rounding step of the end, and yet before it."""
    duration_s = 100_000.0004
    due = staged((Stage(100_000, 0), Stage(0, 5_000), Stage(1, 5_000)), duration_s)
    assert len(due) == 3
    assert due[2] < duration_s


def test_leading_pause() -> None:
    assert staged((Stage(3, 0), Stage(0, 2), Stage(1, 2)), 4) == [3, 3.5]


@given(rates, st.floats(0.1, 20))
def test_plateau_is_constant(rate_rps: float, duration_s: float) -> None:
    due = staged((Stage(0, rate_rps), Stage(duration_s, rate_rps)), duration_s)
    assert due == pytest.approx(constant(rate_rps, duration_s))


@given(stage_lists, st.floats(0.01, 100))
def test_stages_invert_the_integral_of_the_rate(stages: list[Stage], duration_s: float) -> None:
    due = staged(stages, duration_s)
    assert len(due) == pytest.approx(expected_count(stages, duration_s), abs=1 + 1e-6)
    for i, t in enumerate(due):
        assert expected_count(stages, t) == pytest.approx(i, abs=1e-6)


def expected_count(stages: list[Stage], until_s: float) -> float:
    """The rate's integral, by trapezia."""
    now, rate, count = 0.0, 0.0, 0.0
    for stage in [*stages, Stage(math.inf, stages[-1].rate_rps)]:
        width = min(stage.duration_s, until_s - now)
        if stage.duration_s == 0:
            rate = stage.rate_rps
        elif width > 0:
            reached = rate + (stage.rate_rps - rate) * (width / stage.duration_s)
            count += (rate + reached) / 2 * width
            now, rate = now + width, reached
    return count


@given(rates, st.floats(0.1, 20), seeds, st.sampled_from(KINDS), stage_lists, st.floats(0.3, 2))
def test_every_schedule_is_ordered_and_half_open(
    rate_rps: float, duration_s: float, seed: int, kind: str, stages: list[Stage], cv: float
) -> None:
    due = offsets(kind, rate_rps, stages, duration_s, seed, cv=cv)
    assert all(a <= b for a, b in pairwise(due))
    assert all(0 <= t < duration_s for t in due)
    assert due == offsets(kind, rate_rps, stages, duration_s, seed, cv=cv)


@given(rates, seeds, st.sampled_from(KINDS), st.integers(1, 8))
def test_shares_make_up_the_schedule(rate_rps: float, seed: int, kind: str, n: int) -> None:
    due = offsets(kind, rate_rps, RAMP, 5, seed)
    sent = sorted((i, t) for k in range(n) for i, t in zip(*share(due, k, n), strict=True))
    assert sent == list(enumerate(due))
    assert all(i % n == k for k in range(n) for i in share(due, k, n).sequence)


@pytest.mark.parametrize(("kind", "cv"), [("poisson", 1.0), ("gamma", 1.0), ("gamma", 0.4), ("gamma", 2.0)])
def test_random_gaps_have_their_mean_and_variation(kind: str, cv: float) -> None:
    """20,000 seeded gaps: standard errors of about 1 % for cv 1, so 8 % is not chance."""
    due = offsets(kind, 100, (), 200, 7, cv=cv)
    gaps = [b - a for a, b in pairwise(due)]
    assert statistics.fmean(gaps) == pytest.approx(1 / 100, rel=0.08)
    assert statistics.stdev(gaps) / statistics.fmean(gaps) == pytest.approx(cv, rel=0.08)


def test_poisson_counts_are_poisson() -> None:
    """Variance of counts = mean, which gaps in step (constant) or in bursts (cv 2) do not have."""

    def dispersion(kind: str, cv: float) -> float:
        counts = [len(offsets(kind, 20, (), 5, seed, cv=cv)) for seed in range(400)]
        return statistics.variance(counts) / statistics.fmean(counts)

    assert 0.75 < dispersion("poisson", 1) < 1.25
    assert dispersion("gamma", 0.4) < 0.4
    assert dispersion("gamma", 2) > 2


def test_a_seed_keeps_its_schedule() -> None:
    """Records name only the seed. Python promises the numbers of random() in every version."""
    random = (0.6394267984578837, 0.025010755222666936, 0.27502931836911926)
    assert list(offsets("poisson", 2, (), 9, 42)[:3]) == pytest.approx(
        list(accumulate(-math.log(1 - u) / 2 for u in random))
    )


def test_seeds_differ() -> None:
    assert offsets("poisson", 10, (), 10, 1) != offsets("poisson", 10, (), 10, 2)


@pytest.mark.parametrize("kind", ["constant", "poisson", "gamma"])
@pytest.mark.parametrize("rate_rps", [0.0, -1.0, math.nan, math.inf])
def test_refuses_a_rate(kind: str, rate_rps: float) -> None:
    with pytest.raises(ValueError, match="rate_rps"):
        offsets(kind, rate_rps, (), 1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("duration_s", [0.0, -1.0, math.nan, math.inf])
def test_refuses_a_duration(kind: str, duration_s: float) -> None:
    with pytest.raises(ValueError, match="duration_s"):
        offsets(kind, 1, RAMP, duration_s, 1)


@pytest.mark.parametrize(
    "stages",
    [
        (),
        (Stage(1, 0),),
        (Stage(1, -1), Stage(1, 1)),
        (Stage(-1, 1),),
        (Stage(1, math.inf),),
        (Stage(math.nan, 1),),
    ],
)
def test_refuses_stages(stages: tuple[Stage, ...]) -> None:
    with pytest.raises(ValueError, match="stage"):
        staged(stages, 1)


def test_refuses_a_kind_a_cv_and_a_worker() -> None:
    with pytest.raises(ValueError, match="constant, stages, poisson, gamma"):
        offsets("burst", 1, (), 1, 1)
    for cv in (0, 0.001, 11, math.nan):
        with pytest.raises(ValueError, match="cv"):
            offsets("gamma", 1, (), 1, 1, cv=cv)
    for k, n in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(ValueError, match="worker"):
            share(offsets("constant", 1, (), 1, 1), k, n)
