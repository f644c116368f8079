"""How long the upstream waits: delays drawn from a distribution, and never waited for less than drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from harness.scenario import Delay


def draws(delay: Delay, seed: str) -> Callable[[], float]:
    """A function that returns the next delay in seconds; the same seed gives the same sequence.

    The mean is `delay.mean_s` for each kind. A lognormal's is exp(μ + σ²/2), hence μ = ln(mean) − σ²/2.
    """
    mean_s, sigma, random = delay.mean_s, delay.sigma, Random(seed)
    if delay.kind == "constant" or mean_s == 0:
        return lambda: mean_s
    if delay.kind == "exponential":
        return lambda: random.expovariate(1 / mean_s)
    mu = math.log(mean_s) - sigma**2 / 2
    return lambda: random.lognormvariate(mu, sigma)


def whole_ticks_s(delay_s: float, now_s: float) -> float:
    """What to ask of a loop whose clock is cut to whole milliseconds, so that it never wakes up early.

    libuv's timers count from the millisecond that has begun, so that 20.3 ms may be over after 19.4. Counted
    from there to the first millisecond at which the delay is over, the wait is late by less than one.
    """
    return (math.ceil((now_s + delay_s) * 1e3) - math.floor(now_s * 1e3)) / 1e3
