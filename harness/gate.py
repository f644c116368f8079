"""Did a change make it worse: runs of two versions in, a verdict per metric and one over all out.

- A run is one value per metric: requests within it are not independent, and none is tested (statistics.py).
- A metric has regressed only if two things hold: a rank test over runs finds head worse, after Holm's
  correction over the metrics, AND it is worse by more than the effect that matters. That effect is the metric's
  own least effect, or MARGIN times the A/A floor where that is larger: how far apart two sets of runs of the
  SAME code came on such a machine.
- A metric passes only if a second rank test shows that head is not worse by that effect. What neither fails nor
  passes is inconclusive, and so is a test that so few runs could never have failed: no news is not good news.
- Metrics are compared as ratios, so that a floor or an effect is a share of whatever the machine's figure is.
  The p99 is taken in units of W: a share of it is then a share of W, and an overhead near zero divides nothing.

MARGIN trades the two errors. To pass, a metric must come out 1.6 standard errors below its effect; with 2 and a
95 % floor the effect is nearly 4 of them, so that unchanged code passes a metric in about 19 of 20 gates, and
is inconclusive in the other. In ten pairs on a machine with 3 % noise a run, 10 % more of anything is found as
often. More pairs improve both.

Pure functions of runs and numbers; floor.py measures the floor, baseline.py keeps runs, gate_report.py words
verdicts. Exit codes stand beside those of errors.py; 1 is not among them: it is how Python itself ends on a bug.

References: Holm 1979; Wellek, Testing Statistical Hypotheses of Equivalence and Noninferiority, 2010, ch. 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness import costs, little
from harness.capacity import PodLimits, predict
from harness.errors import EXIT_INVALID, EXIT_OK
from harness.run import Run
from harness.statistics import Comparison, compare_independent, compare_paired

ALPHA = 0.05
MARGIN = 2.0

Word = Literal["regressed", "invalid", "inconclusive", "pass"]
Values = Mapping[str, Sequence[float | None]]
Floats = NDArray[np.float64]

# What is proven stands first; of the rest, what could not be measured comes before what could not be told.
EXIT_CODES: Mapping[Word, int] = {
    "regressed": 7,
    "invalid": EXIT_INVALID,
    "inconclusive": 8,
    "pass": EXIT_OK,
}


class Metric(NamedTuple):
    """How a figure is compared and shown: `shown` units in one of the record's, the least effect as a share."""

    worse: Literal["higher", "lower"]
    least_effect: float
    unit: str
    shown: float
    of_machine: bool  # whether it depends on how fast the machine is


METRICS: Mapping[str, Metric] = {
    "rate_max_rps": Metric("lower", 0.05, "/s", 1.0, True),
    "pods": Metric("higher", 0.05, "pods", 1.0, True),
    # A fifth of the slack that a goal of 1.01 W leaves.
    "p99_of_w": Metric("higher", 0.002, "W", 1.0, True),
    "bytes_per_request_in_flight": Metric("higher", 0.05, "KiB", 2**-10, False),
    "cpu_s_per_request": Metric("higher", 0.05, "ms", 1e3, True),
}


class MetricVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One metric: medians of both sides, the change (> 0 is worse) and the effect that it is held against.

    p_value is Holm's; None where nothing was tested. `detail` is one line.
    """

    name: str
    verdict: Word
    detail: str
    base: float | None = None
    head: float | None = None
    change: float | None = None
    effect: float | None = None
    p_value: float | None = None
    runs: tuple[int, int] = (0, 0)


class GateVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The worst of its metrics, in the order of EXIT_CODES."""

    verdict: Word
    metrics: tuple[MetricVerdict, ...]

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    @property
    def line(self) -> str:
        """One line for a terminal: the verdict, and what made it."""
        if self.verdict == "pass":
            return f"gate: pass: {len(self.metrics)} metrics, none worse by as much as matters"
        causes = "; ".join(metric.detail for metric in self.metrics if metric.verdict == self.verdict)
        return f"gate: {self.verdict}: {causes}"


def measure(runs: Sequence[Run], limits: PodLimits, rate_rps: float) -> dict[str, tuple[float | None, ...]]:
    """The metrics of each run, in order; None for those of an invalid one, and for what was not measured.

    `limits` are the pod's, for the λ max that a run's costs predict, and pods = `rate_rps` / λ max, not
    rounded: a fleet is made of many such pods, and rounding would hide any change short of a whole one.
    """
    rows = [_figures(run, limits, rate_rps) if costs.is_usable(run) else {} for run in runs]
    # What noise leaves below zero, as of memory in a run too small for it, was not measured.
    return {
        name: tuple(value if (value := row.get(name)) and value > 0 else None for row in rows)
        for name in METRICS
    }


def measured(values: Sequence[float | None]) -> Floats:
    """Without the gaps."""
    return np.array([value for value in values if value is not None], dtype=np.float64)


def judge(
    base: Values,
    head: Values,
    floor: Mapping[str, float],
    *,
    paired: bool,
    refused: Mapping[str, str] = MappingProxyType({}),
) -> GateVerdict:
    """Hold head against base. `paired`: values at the same index were measured next to each other.

    `refused` has the reason not to judge a metric, as baseline.refusals gives it. Raises ValueError for pairs
    of unequal number.
    """
    tested: dict[str, _Tested] = {}
    verdicts: dict[str, MetricVerdict] = {}
    for name, metric in METRICS.items():
        before, after = base.get(name, ()), head.get(name, ())
        sides = _sides(before, after, paired)
        reason = refused.get(name, "") or _unmeasured(before, after)
        if reason or not sides[0].size:
            detail = f"{name}: invalid: {reason or 'no pair in which both runs are valid'}"
            verdicts[name] = MetricVerdict(name=name, verdict="invalid", detail=detail)
        else:
            tested[name] = _test(metric, sides, floor.get(name), paired)
    adjusted = holm({name: test.worse.p_value for name, test in tested.items()})
    for name, test in tested.items():
        verdicts[name] = _verdict(name, test, adjusted[name], len(tested))
    metrics = tuple(verdicts[name] for name in METRICS)
    found = {metric.verdict for metric in metrics}
    return GateVerdict(verdict=next(word for word in EXIT_CODES if word in found), metrics=metrics)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P-values that may each be held against the level of the whole family (Holm 1979)."""
    adjusted, highest = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = highest
    return adjusted


class _Tested(NamedTuple):
    metric: Metric
    base: float
    head: float
    runs: tuple[int, int]
    effect: float | None
    worse: Comparison
    p_within: float


def _figures(run: Run, limits: PodLimits, rate_rps: float) -> dict[str, float | None]:
    found = costs.fit([run])
    p99, w_s = run.summary.latency_s.p99, run.scenario.w_s
    rate_max = None
    # Without the cost of a request's CPU or memory the bound that it sets would be missing, not large.
    if found.cpu_s is not None and (limits.memory_bytes is None or found.memory_bytes is not None):
        rate_max = little.binding(predict(found, limits, w_s, run.target.workers)).rate_max_rps or None
    return {
        "rate_max_rps": rate_max,
        "pods": rate_rps / rate_max if rate_max else None,
        "p99_of_w": None if p99 is None else p99 / w_s,
        "bytes_per_request_in_flight": run.resources.bytes_per_request_in_flight,
        "cpu_s_per_request": run.resources.cpu_s_per_request,
    }


def _sides(base: Sequence[float | None], head: Sequence[float | None], paired: bool) -> tuple[Floats, Floats]:
    if paired:
        # A pair with one side missing is no pair.
        both = [pair for pair in zip(base, head, strict=True) if None not in pair]
        base, head = [before for before, _ in both], [after for _, after in both]
    return measured(base), measured(head)


def _unmeasured(base: Sequence[float | None], head: Sequence[float | None]) -> str:
    empty = [name for name, values in (("base", base), ("head", head)) if not measured(values).size]
    return f"not measured in any valid run of {' and '.join(empty)}" if empty else ""


def _test(metric: Metric, sides: tuple[Floats, Floats], floor: float | None, paired: bool) -> _Tested:
    base, head = sides
    compare = compare_paired if paired else compare_independent
    before, after = (1 / base, 1 / head) if metric.worse == "lower" else (base, head)
    effect = None if floor is None else max(metric.least_effect, MARGIN * floor)
    return _Tested(
        metric=metric,
        base=float(np.median(base)),
        head=float(np.median(head)),
        runs=(base.size, head.size),
        effect=effect,
        worse=compare(before, after, "greater"),
        p_within=1.0 if effect is None else compare(before * (1 + effect), after, "less").p_value,
    )


def _verdict(name: str, test: _Tested, p_value: float, family: int) -> MetricVerdict:
    change, effect = test.worse.ratio - 1, test.effect
    verdict, reason = _word(test, p_value, family)
    metric, (n_base, n_head) = test.metric, test.runs
    detail = (
        f"{name}: {verdict}: {test.base * metric.shown:.4g} → {test.head * metric.shown:.4g} {metric.unit}, "
        f"{abs(change):.2%} {'worse' if change > 0 else 'better'} ({reason}; "
        f"p = {p_value:.2g}, {n_base} and {n_head} runs)"
    )
    return MetricVerdict(
        name=name,
        verdict=verdict,
        detail=detail,
        base=test.base,
        head=test.head,
        change=change,
        effect=effect,
        p_value=p_value,
        runs=test.runs,
    )


def _word(test: _Tested, p_value: float, family: int) -> tuple[Word, str]:
    if test.effect is None:
        return "inconclusive", "no A/A floor: measure one"
    if test.worse.p_least * family > ALPHA:
        return "inconclusive", f"too few runs: p cannot fall below {test.worse.p_least * family:.2g}"
    limit = f"limit {test.effect:.2%}"
    if p_value <= ALPHA and test.worse.ratio - 1 > test.effect:
        return "regressed", limit
    if test.p_within <= ALPHA:
        return "pass", limit
    return "inconclusive", f"{limit} lies within the noise: more runs"
