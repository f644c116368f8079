"""When each request is due: the whole schedule, as a pure function of the load and a seed.

- Open model: nothing here knows of answers, so a slow server cannot slow the schedule down.
- Absolute: due i is computed from i, never by adding gaps up, so that 200/s still is 200/s after an hour.
- Half-open: a schedule lies in [0, duration), hence 5/s over 60 s is 300 requests, and windows join.
- Whole, then shared: every worker computes the same schedule and takes its own share of it, so what is sent
  does not depend on how many workers send it.

Only the standard library, because the generator imports it and must stay small.

Deterministic schedules are the inverse of the rate's integral. With r(t) the rate and Λ(t) = ∫₀ᵗ r the
expected count, request i is due at the moment at which the count passes i:

    due(i) = inf { t : Λ(t) > i }

A constant rate gives i / rate. A linear ramp from r₀ with slope k gives Λ(u) = r₀u + ku²/2 = x, whose root

    u = 2x / (r₀ + √(r₀² + 2kx))

is written so that it neither cancels for small k nor divides by it for k = 0. "Passes" rather than "reaches":
with a pause (rate 0) the next request is due after the pause, so that each stage keeps its own half-open
interval.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import NamedTuple, Protocol

# A rate and a duration are decimals rounded to doubles, so their product misses a whole number by some 1e-16
# of it (100 s at 0.07/s give 7.000000000000001 requests). Far above that error, far below one arrival.
_SLACK = 1e-12


class Stage(Protocol):
    """A linear ramp from the last stage's end rate to `rate_rps`, `duration_s` long; 0 s is a jump."""

    @property
    def duration_s(self) -> float: ...
    @property
    def rate_rps(self) -> float: ...


class Share(NamedTuple):
    """What one worker sends: `due_s[j]` is when request `sequence[j]` of the whole schedule is due."""

    sequence: range
    due_s: array[float]


class _Load(NamedTuple):
    rate_rps: float
    stages: Sequence[Stage]
    duration_s: float
    seed: int
    cv: float


class _Ramp(NamedTuple):
    """From `start_s` on the rate goes linearly between two values; `before` arrivals came before it."""

    start_s: float
    duration_s: float
    from_rps: float
    to_rps: float
    before: float

    @property
    def arrivals(self) -> float:
        return (self.from_rps + self.to_rps) / 2 * self.duration_s

    def due(self, i: int) -> float:
        x = min(max(i - self.before, 0.0), self.arrivals)
        if x == 0:
            return self.start_s
        slope = (self.to_rps - self.from_rps) / self.duration_s
        root = math.sqrt(max(self.from_rps**2 + 2 * slope * x, 0.0))
        return self.start_s + 2 * x / (self.from_rps + root)


def offsets(
    kind: str,
    rate_rps: float,
    stages: Sequence[Stage],
    duration_s: float,
    seed: int,
    *,
    cv: float = 1.0,
) -> array[float]:
    """Due offsets of all requests, in seconds from the start signal, never decreasing, in [0, duration_s).

    `kind` is one of `KINDS`. "constant" uses `rate_rps`; "stages" uses `stages`, begins at rate 0 and holds
    the last rate up to `duration_s`; "poisson" and "gamma" use `rate_rps` and `seed`; "gamma" also `cv`, the
    coefficient of variation of the gaps (1 is Poisson, below is smoother, above is burstier), 0.01 to 10.
    Raises ValueError for an unknown kind, and for rates, durations or a cv that cannot make a schedule.
    """
    if kind not in _SCHEDULES:
        raise ValueError(f"unknown arrivals {kind!r}: one of {', '.join(KINDS)}")
    return _SCHEDULES[kind](_Load(rate_rps, stages, _positive("duration_s", duration_s), seed, cv))


def share(schedule: array[float], k: int, n: int) -> Share:
    """The requests of worker k of 0..n−1: those with i ≡ k (mod n). Raises ValueError for another k."""
    if not 0 <= k < n:
        raise ValueError(f"worker {k} of {n}: expected 0 <= k < n")
    return Share(range(k, len(schedule), n), schedule[k::n])


def _constant(load: _Load) -> array[float]:
    rate = _positive("rate_rps", load.rate_rps)
    # The rate as the decimal that was written: at 0.07/s request 7 is due at 100 s, of which i / rate falls
    # short, into the window before. A quotient of ints is rounded only once.
    requests, seconds = Fraction(str(rate)).as_integer_ratio()
    return array("d", (i * seconds / requests for i in range(_count(rate * load.duration_s))))


def _staged(load: _Load) -> array[float]:
    # Rounding may put a due time on the very end; the count is right, so the time yields.
    last = math.nextafter(load.duration_s, 0.0)
    due = array("d")
    for ramp in _ramps(load.stages, load.duration_s):
        numbers = range(_count(ramp.before), _count(ramp.before + ramp.arrivals))
        due.extend(min(ramp.due(i), last) for i in numbers)
    return due


def _ramps(stages: Sequence[Stage], duration_s: float) -> Iterator[_Ramp]:
    """The stages as ramps that end at `duration_s` exactly: the last is cut, or its rate held."""
    _check_stages(stages)
    now_s, rate, before = 0.0, 0.0, 0.0
    for stage in stages:
        left_s = duration_s - now_s
        if stage.duration_s > left_s:
            to = rate + (stage.rate_rps - rate) * left_s / stage.duration_s
            yield _Ramp(now_s, left_s, rate, to, before)
            return
        ramp = _Ramp(now_s, stage.duration_s, rate, stage.rate_rps, before)
        yield ramp
        now_s, rate, before = now_s + stage.duration_s, stage.rate_rps, before + ramp.arrivals
    yield _Ramp(now_s, duration_s - now_s, rate, rate, before)


def _check_stages(stages: Sequence[Stage]) -> None:
    for i, stage in enumerate(stages):
        if not (0 <= stage.rate_rps < math.inf and 0 <= stage.duration_s < math.inf):
            raise ValueError(f"stage {i}: rate and duration must be finite and not negative, got {stage}")
    if not any(stage.rate_rps > 0 for stage in stages):
        raise ValueError("stages: at least one rate must be above 0")


def _poisson(load: _Load) -> array[float]:
    rate, random = _positive("rate_rps", load.rate_rps), Random(load.seed).random
    # Inverse of the exponential's distribution function. Not expovariate: of Python's generators only
    # random() is promised to give the same numbers in every version, and a seed should keep its schedule.
    return _renewal(lambda: -math.log1p(-random()) / rate, load.duration_s)


def _gamma(load: _Load) -> array[float]:
    # Gaps of shape 1/cv² and scale cv²/rate have mean 1/rate and standard deviation cv/rate. As the first
    # request is a whole gap after 0, the expected count differs from rate × duration by about (cv² − 1)/2
    # (renewal theorem).
    rate, cv = _positive("rate_rps", load.rate_rps), load.cv
    # Far above, nearly every gap underflows to 0 and the schedule never ends.
    if not 0.01 <= cv <= 10:
        raise ValueError(f"cv must be from 0.01 to 10, got {cv}")
    gamma = Random(load.seed).gammavariate
    return _renewal(lambda: gamma(cv**-2, cv**2 / rate), load.duration_s)


def _renewal(gap: Callable[[], float], duration_s: float) -> array[float]:
    due, now_s = array("d"), gap()
    while now_s < duration_s:
        due.append(now_s)
        now_s += gap()
    return due


def _count(arrivals: float) -> int:
    """How many whole numbers i ≥ 0 lie below an expected count, forgiving the rounding of that count."""
    return math.ceil(arrivals * (1 - _SLACK))


def _positive(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be finite and above 0, got {value}")
    return value


_SCHEDULES: Mapping[str, Callable[[_Load], array[float]]] = {
    "constant": _constant,
    "stages": _staged,
    "poisson": _poisson,
    "gamma": _gamma,
}
KINDS: tuple[str, ...] = tuple(_SCHEDULES)
