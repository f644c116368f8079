"""Percentiles in HdrHistogram's text format (.hgrm), for those who plot with its tools.

The format is that of the Java library's `outputPercentileDistribution`: value, percentile, count up to the value,
1 / (1 − percentile), in steps that halve with each halving of what is left, and a last line without the fourth.
The values are exact ones, not buckets; hence the footer's line about buckets is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count

import numpy as np

from harness.report.curves import Floats

TICKS_PER_HALF_DISTANCE = 5  # the library's own default
_HEADER = "{:>12} {:>14} {:>10} {:>14}\n\n".format("Value", "Percentile", "TotalCount", "1/(1-Percentile)")


def render(values: Floats) -> str:
    """The text for values in any order, in their own unit; raises ValueError for none and for NaN."""
    if not values.size or np.isnan(values).any():
        raise ValueError("a percentile distribution needs values, and no NaN among them")
    ordered = np.sort(values)
    n, lines = ordered.size, [_HEADER]
    for level in levels():
        value = ordered[max(1, math.ceil(n * level)) - 1]
        up_to = int(np.searchsorted(ordered, value, side="right"))
        lines.append(f"{value:12.3f} {level:14.12f} {up_to:10d} {1 / (1 - level):14.2f}\n")
        if up_to == n:
            break
    lines.append(f"{ordered[-1]:12.3f} {1:14.12f} {n:10d}\n")
    lines.append(f"#[Mean    = {ordered.mean():12.3f}, StdDeviation   = {ordered.std():12.3f}]\n")
    lines.append(f"#[Max     = {ordered[-1]:12.3f}, Total count    = {n:12d}]\n")
    return "".join(lines)


def levels() -> Iterator[float]:
    """Percentiles as shares of 1: 0, 0.1 … 0.4, then 0.5, 0.55 … and on, five to each halving of what is left."""
    for halving in count():
        for tick in range(TICKS_PER_HALF_DISTANCE):
            yield 1 - 2.0**-halving * (1 - tick / (2 * TICKS_PER_HALF_DISTANCE))
