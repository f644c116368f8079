"""What the repeats of a session say about themselves: whether it drifted, and which runs stand apart. Pure.

- Drift: a machine that grows slower does it to every condition, so their trends are tested together. In each
  condition Kendall's S counts the pairs of runs that rose less those that fell; the sum over conditions is held
  against its exact distribution if no order were likelier than another (the regional Kendall test: van Belle and
  Hughes, Water Resources Research 20(1), 1984; exact by convolution, since S = n(n − 1)/2 − 2 × inversions).
- Outliers: |0.6745 (x − median)| > 3.5 MAD (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).

Both work on logarithms, and neither names what is smaller than WORTH. A run that was named stays in the table: the
median does not mind it, and whoever reads it should know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.run import Run

ALPHA = 0.05
WORTH = 0.05
LEAST_RUNS = 4  # of one condition; of three, any two that are close would make the third an outlier

# What a slower or fuller machine changes.
WATCHED: Mapping[str, Callable[[Run], float | None]] = {
    "CPU a request": lambda run: run.resources.cpu_s_per_request,
    "p99": lambda run: run.summary.latency_s.p99,
    "RSS": lambda run: run.resources.rss_bytes.mean,
}

Floats = NDArray[np.float64]


class Trend(NamedTuple):
    """`change`: from the first run to the last, as a share, the median over conditions; two-sided p-value."""

    change: float
    p_value: float


def trend(groups: Iterable[ArrayLike]) -> Trend | None:
    """That of conditions together, each a sequence of positive values in the order of time; None without a pair."""
    logs = [found for group in groups if (found := _logs(group)).size > 1]
    if not logs:
        return None
    total = sum(int(np.sign(_differences(found)).sum()) for found in logs)
    chances = np.ones(1)
    for found in logs:
        chances = np.convolve(chances, _inversions(found.size))
    most = sum(found.size * (found.size - 1) // 2 for found in logs)
    values = most - 2 * np.arange(chances.size)
    p_value = float(chances[np.abs(values) >= abs(total)].sum())
    change = math.expm1(float(np.median([_slope(found) * (found.size - 1) for found in logs])))
    return Trend(change, min(1.0, p_value))


def outliers(values: ArrayLike) -> list[int]:
    """Places of the values that stand apart from the others; none where there are fewer than LEAST_RUNS."""
    logs = _logs(values)
    if logs.size < LEAST_RUNS:
        return []
    away = np.abs(logs - np.median(logs))
    limit = max(math.log1p(WORTH), 3.5 / 0.6745 * float(np.median(away)))
    return [int(place) for place in np.flatnonzero(away > limit)]


def notes(conditions: Mapping[str, Sequence[Run]]) -> list[str]:
    """A sentence for each drift and each outlier among these repeats, by the names of their conditions."""
    return [*_drifts(conditions.values()), *_apart(conditions)]


def _drifts(conditions: Iterable[Sequence[Run]]) -> Iterable[str]:
    groups = [sorted(runs, key=lambda run: run.created) for runs in conditions]
    for name, read in WATCHED.items():
        found = trend([value for run in runs if (value := read(run))] for runs in groups)
        if found is not None and found.p_value <= ALPHA and abs(found.change) >= WORTH:
            yield (
                f"drift: {name} {'rose' if found.change > 0 else 'fell'} by {abs(found.change):.0%} from the first "
                f"repeat to the last over all conditions (p = {found.p_value:.2g}): the machine changed meanwhile, "
                "so compare within a repeat"
            )


def _apart(conditions: Mapping[str, Sequence[Run]]) -> Iterable[str]:
    for label, runs in conditions.items():
        for name, read in WATCHED.items():
            known = [(run, value) for run in runs if (value := read(run))]
            values = [value for _, value in known]
            for place in outliers(values):
                off = values[place] / float(np.median(values)) - 1
                yield f"outlier: {name} of {label} in {known[place][0].id} is {off:+.0%} off the median"


def _logs(values: ArrayLike) -> Floats:
    return np.log(np.asarray(values, dtype=np.float64))


def _differences(logs: Floats) -> Floats:
    """Later less earlier, of each pair."""
    i, j = np.triu_indices(logs.size, 1)
    return np.asarray(logs[j] - logs[i])


def _slope(logs: Floats) -> float:
    """A step's change, by the median over all pairs (Theil and Sen)."""
    i, j = np.triu_indices(logs.size, 1)
    return float(np.median((logs[j] - logs[i]) / (j - i)))


def _inversions(n: int) -> Floats:
    """How likely 0, 1, … inversions are in a random order of n: inserting the k-th adds 0 to k − 1, alike."""
    chances = np.ones(1)
    for k in range(2, n + 1):
        chances = np.convolve(chances, np.full(k, 1 / k))
    return chances
