"""The arithmetic behind the figures: arrays in, arrays out. Pure."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from harness.statistics import CONFIDENCE

Floats = npt.NDArray[np.float64]

NINES_STEP = 0.02


def nines(share: float) -> float:
    """−log₁₀(1 − share): 1 at 90 %, 2 at 99 %, 3 at 99.9 %."""
    return -math.log10(1 - share)


def nines_carried(n: int) -> float:
    """The farthest percentile, in nines, that n values carry: shareⁿ ≤ (1 − confidence) / 2 (statistics)."""
    return nines(((1 - CONFIDENCE) / 2) ** (1 / n)) if n else 0.0


def percentiles(values: Floats) -> tuple[Floats, Floats]:
    """The quantile function, by nearest rank: x in nines, from 0 as far as the sample carries, and values."""
    ordered = np.sort(values)
    x = np.arange(0.0, nines_carried(ordered.size), NINES_STEP)
    ranks = np.ceil(ordered.size * (1 - 10.0**-x)).astype(np.int64)
    return x, ordered[np.maximum(ranks, 1) - 1] if x.size else ordered[:0]


def in_flight(started: Floats, ended: Floats, at: Floats) -> npt.NDArray[np.int64]:
    """How many of [started, ended) are under way at each time; NaN never started, or has not ended."""
    begun = ~np.isnan(started)
    finished = begun & ~np.isnan(ended)
    in_ = np.searchsorted(np.sort(started[begun]), at, side="right")
    out = np.searchsorted(np.sort(ended[finished]), at, side="right")
    return np.asarray(in_ - out, dtype=np.int64)


def thinned(values: Floats, keep: int) -> npt.NDArray[np.int64]:
    """Indices to draw of many points, in order: the highest half of `keep`, and an even pick of the rest.

    A scatter of 30,000 points is a grey band; what it is for are its outliers, so those stay.
    """
    if values.size <= keep:
        return np.arange(values.size)
    by_value = np.argsort(values, kind="stable")
    highest, rest = by_value[-(keep // 2) :], np.sort(by_value[: -(keep // 2)])
    even = rest[np.linspace(0, rest.size - 1, keep - highest.size).astype(np.int64)]
    return np.sort(np.concatenate([highest, even]))


def spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Places in [low, high] close to those wanted, in the same order, no two nearer than `gap` if they fit."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    placed: list[float] = []
    for rank, i in enumerate(order):
        room_above = (len(order) - 1 - rank) * gap
        least = placed[-1] + gap if placed else low
        placed.append(min(max(wanted[i], least), high - room_above))
    found = [0.0] * len(wanted)
    for place, i in zip(placed, order, strict=True):
        found[i] = place
    return found
