"""What a run's raw values and a set of runs say, and how surely.

- Within a run, percentiles are exact: a value that was measured, at its nearest rank, beside the interval
  that order statistics give without any assumption on the distribution. Where that interval has no end inside
  the sample, the sample cannot carry the percentile, and the reason stands in its place.
- Those intervals take values as independent. Requests of one run are not (a pause delays a thousand of them
  at once), so they tell what n can carry, and no test is made over requests: comparisons are over runs.
- Gauges and intervals are averaged over time, exactly, not over their samples.

Pure functions of arrays. Times are in one unit, seconds by custom; values keep theirs. Every function raises
ValueError for NaN among values, and for input that cannot have the figure asked for.

References: David and Nagaraja, Order Statistics, 2003, §7.1; Hyndman and Fan, Sample quantiles, 1996 (nearest
rank is their type 1); Mann and Whitney 1947; Wilcoxon 1945; Hodges and Lehmann 1963.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import msgspec
import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

Alternative = Literal["two-sided", "greater", "less"]
Floats = NDArray[np.float64]

# scipy fills its namespaces at run time, out of mypy's sight.
stats: Any = scipy.stats

CONFIDENCE = 0.95
RESAMPLES = 9_999


class Estimate(msgspec.Struct, frozen=True):
    """A figure with its interval; None where the sample cannot carry it, and then `reason` says why."""

    value: float | None
    low: float | None
    high: float | None
    reason: str = ""


class Percentiles(msgspec.Struct, frozen=True):
    """A sample of `n` values, in their unit; `notes` has, by name, the reason of each figure that is None."""

    n: int
    p50: float | None
    p90: float | None
    p99: float | None
    p99_low: float | None
    p99_high: float | None
    max: float | None
    notes: dict[str, str]


class Comparison(msgspec.Struct, frozen=True):
    """Two sets of runs: the `ratio` head / base, the `p_value` of its rank test, and the least it can be.

    A `p_least` above the threshold means that so few runs cannot show anything: inconclusive, not equal.
    """

    ratio: float
    p_value: float
    p_least: float


def summarize(values: ArrayLike) -> Percentiles:
    """Percentiles of a sample in any order."""
    ordered = np.sort(_sample(values))
    p50, p90, p99 = (_at_percent(ordered, percent, CONFIDENCE) for percent in (50, 90, 99))
    notes = {name: p.reason for name, p in (("p50", p50), ("p90", p90), ("p99", p99)) if p.reason}
    if not ordered.size:
        notes["max"] = "no values"
    return Percentiles(
        n=ordered.size,
        p50=p50.value,
        p90=p90.value,
        p99=p99.value,
        p99_low=p99.low,
        p99_high=p99.high,
        max=float(ordered[-1]) if ordered.size else None,
        notes=notes,
    )


def percentile(values: ArrayLike, percent: float, confidence: float = CONFIDENCE) -> Estimate:
    """The value at the nearest rank, with its order-statistic interval."""
    return _at_percent(np.sort(_sample(values)), percent, confidence)


def nearest_rank(n: int, percent: float) -> int:
    """⌈n · percent / 100⌉, counted from 1: the smallest value that `percent` of the sample do not exceed.

    In integers, `percent` being the decimal that was written: p99 of 1..100 is 99, while int(n * p) as an
    index says 100.
    """
    return max(1, math.ceil(n * _share(percent)))


def interval_ranks(n: int, percent: float, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Ranks l < u, counted from 1, whose values enclose the percentile with at least `confidence`, or None.

    The number of values below the true quantile is binomial(n, q); with F its distribution function,

        P(X_(l) ≤ quantile < X_(u)) = F(u − 1) − F(l − 1)

    of which each tail is cut at (1 − confidence) / 2. None where n has no such rank on either side.
    """
    q, tail = float(_share(percent)), (1 - confidence) / 2
    low = int(stats.binom.ppf(tail, n, q))
    high = int(stats.binom.isf(tail, n, q)) + 1
    return (low, high) if low >= 1 and high <= n else None


def least_n(percent: float, confidence: float = CONFIDENCE) -> int:
    """The smallest sample that carries a percentile: qⁿ, (1 − q)ⁿ ≤ (1 − confidence) / 2; for p99, 368."""
    q = float(_share(percent))
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q)))


def bootstrap_median(runs: ArrayLike, confidence: float = CONFIDENCE, seed: int = 1) -> Estimate:
    """The median over runs, with its percentile-bootstrap interval (Efron 1979). One run has no interval.

    Not BCa: its acceleration comes from leaving one run out, which moves a median between two values only.
    The interval cannot reach beyond the runs, so with few of them it is short of its confidence: the range of
    n runs holds the median with 1 − 2^(1−n), 75 % for three. Raises ValueError without runs.
    """
    sample = _sample(runs)
    if not sample.size:
        raise ValueError("no runs: a median needs at least one")
    median = float(np.median(sample))
    if sample.size < 2:
        return Estimate(median, None, None, "one run has no interval: repeat it")
    interval = stats.bootstrap(
        (sample,),
        np.median,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(median, float(interval.low), float(interval.high))


def compare_independent(
    base: ArrayLike, head: ArrayLike, alternative: Alternative = "two-sided"
) -> Comparison:
    """Mann–Whitney over runs that do not belong together in pairs, for example of two machines or two days.

    `alternative` "greater" asks whether head is above base. Exact without ties, else normal with its tie
    correction. The ratio is the Hodges–Lehmann shift of the logarithms: the median of all head / base. Values
    must be above 0.
    """
    a, b = _logs(base), _logs(head)
    tied = np.unique(np.concatenate([a, b])).size < a.size + b.size
    test = stats.mannwhitneyu(b, a, alternative=alternative, method="asymptotic" if tied else "exact")
    return Comparison(
        ratio=math.exp(np.median(np.subtract.outer(b, a))),
        p_value=float(test.pvalue),
        p_least=_sides(alternative) / math.comb(a.size + b.size, a.size),
    )


def compare_paired(base: ArrayLike, head: ArrayLike, alternative: Alternative = "two-sided") -> Comparison:
    """Wilcoxon's signed ranks over runs made in pairs, next to each other, so that drift cancels.

    `base[i]` and `head[i]` are a pair. The test is on the logarithms of head / base; equal pairs are left
    out. The ratio is their Hodges–Lehmann centre: the median of the means of all two of them. Values must be
    above 0; raises ValueError for unequal lengths.
    """
    a, b = _logs(base), _logs(head)
    if a.size != b.size:
        raise ValueError(f"pairs need as many runs of each, got {a.size} and {b.size}")
    logs = b - a
    i, j = np.triu_indices(logs.size)
    unequal = logs[logs != 0]
    # scipy divides by zero where nothing is left.
    p_value = float(stats.wilcoxon(unequal, alternative=alternative).pvalue) if unequal.size else 1.0
    return Comparison(
        ratio=math.exp(np.median((logs[i] + logs[j]) / 2)),
        p_value=p_value,
        p_least=_sides(alternative) / 2**logs.size,
    )


def time_average(times: ArrayLike, values: ArrayLike, start: float, end: float) -> float:
    """Mean over [start, end) of the step function that holds `values[i]` from `times[i]` to the next.

    `times` never decrease; the last value holds on. Raises ValueError where the window is empty or begins
    before the first time, when the function has no value yet.
    """
    t, v, width = _column(times), _sample(values), _width(start, end)
    if t.size != v.size or not t.size or not np.all(np.diff(t) >= 0):
        raise ValueError(f"expected as many values as times, in order of time; got {v.size} and {t.size}")
    if start < t[0]:
        raise ValueError(f"the window begins at {start}, before the first sample at {t[0]}")
    return float(_overlaps(t, np.append(t[1:], math.inf), start, end) @ v / width)


def mean_in_flight(started: ArrayLike, ended: ArrayLike, start: float, end: float) -> float:
    """Mean number in flight over [start, end): the overlaps of all [started, ended) with it, over its length.

    Exact, so that it can be held against λW. NaN in `started` never started; NaN in `ended` has not ended
    yet. Raises ValueError for an empty window, unequal lengths, and an end before its start.
    """
    s, e, width = _column(started), _column(ended), _width(start, end)
    if s.size != e.size or np.any(e < s):
        raise ValueError("expected as many ends as starts, and no end before its start")
    begun = ~np.isnan(s)
    ends = np.where(np.isnan(e), math.inf, e)
    return float(_overlaps(s[begun], ends[begun], start, end).sum() / width)


def _at_percent(ordered: Floats, percent: float, confidence: float) -> Estimate:
    n = ordered.size
    ranks = interval_ranks(n, percent, confidence)
    if ranks is None:
        return Estimate(None, None, None, f"n = {n}, p{percent:g} needs {least_n(percent, confidence)}")
    low, high = (float(ordered[rank - 1]) for rank in ranks)
    return Estimate(float(ordered[nearest_rank(n, percent) - 1]), low, high)


def _overlaps(starts: Floats, ends: Floats, start: float, end: float) -> Floats:
    return np.asarray(np.maximum(np.minimum(ends, end) - np.maximum(starts, start), 0.0))


def _sides(alternative: Alternative) -> int:
    return 2 if alternative == "two-sided" else 1


def _share(percent: float) -> Fraction:
    if not 0 < percent < 100:
        raise ValueError(f"percent must be between 0 and 100, got {percent}")
    return Fraction(str(percent)) / 100


def _width(start: float, end: float) -> float:
    if not start < end:
        raise ValueError(f"empty window: from {start} to {end}")
    return end - start


def _column(values: ArrayLike) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"expected one dimension, got {column.ndim}")
    return column


def _sample(values: ArrayLike) -> Floats:
    sample = _column(values)
    if np.isnan(sample).any():
        raise ValueError("NaN among the values: leave out what was not measured, and count it")
    return sample


def _logs(runs: ArrayLike) -> Floats:
    sample = _sample(runs)
    if not sample.size or not np.all((sample > 0) & np.isfinite(sample)):
        raise ValueError("expected at least one run, and finite values above 0")
    return np.log(sample)
