"""The highest rate that a pod carries, found with few runs: a search that starts from the prediction.

- A run at a rate passes, fails, shows the instrument's own limit, or is spoilt and says nothing (`assess`).
- What to try next is a pure function of what was tried (`next_rate`): just below the prediction, then in
  doubling steps until one rate passed and a higher one failed, then between them until they are one `width`
  apart. A good prediction needs no more than the two, and what an overloaded run still completed is the next
  prediction.
- One run may pass or fail by chance. Both ends count when AGREE runs say the same and fewer the opposite.
- Where the instrument's own limit comes first, the search stops COARSE below it: the pod carries at least what
  passed, and whose limit it is is said.

Rates in requests/second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Literal

import msgspec

from harness.capacity import GOAL_SHARE
from harness.errors import MeasurementError
from harness.little import Bound
from harness.run import Run

Outcome = Literal["passed", "failed", "instrument", "spoilt"]

WIDTH = 0.02
COARSE = 0.1
AGREE = 2
SPOILT_MAX = 4
RUNS_MAX = 20

# A plateau: what is offered above it, how far throughputs may differ, how busy CPUs may be that do not bind.
OVERLOADS = (1.25, 1.5)
_BEYOND, _FLAT, _BUSY = 1.1, 0.03, 0.9

# Checks of the verdict by what they show, the first that failed decides. A late generator or a disturbed machine
# comes before anything the pod does; what follows from requests that pile up, only where the pod is well.
_INSTRUMENT = frozenset(
    {"send_lag_p99", "generator_cpu", "generator_gc_pause", "upstream_cpu", "cpu_separation"}
)
_POD = frozenset(
    {
        "completions",
        "failures",
        "unfinished",
        "drift",
        "throughput_matches_offered",
        "p99_is_timeout",
        "listen_overflows",
        "pod_descriptors",
    }
)
_PILED_UP = frozenset({"unsent", "generator_descriptors", "ports"})
_UNSTEADY = frozenset({"little_handlers", "little_client", "little_upstream", "syn_retransmits"})


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run at `rate_rps`; cpu_share is of the cores that the pod can use."""

    rate_rps: float
    outcome: Outcome
    reason: str = ""
    throughput_rps: float | None = None
    cpu_share: float | None = None
    run_id: str = ""


class Bracket(msgspec.Struct, frozen=True):
    """What trials enclose: `low` passed, `high` did not; `instrument`: not for the pod's sake."""

    low_rps: float | None
    high_rps: float | None
    instrument: bool


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """λ max = `rate_max_rps`; `failed_at_rps` is the next rate up that failed, None if the instrument stopped.

    `confirmed` where AGREE runs passed. `ended`: "narrowed" to the width, at the "instrument"'s limit, or out
    of "runs".
    """

    rate_max_rps: float
    failed_at_rps: float | None
    predicted_rps: float
    confirmed: bool
    ended: Literal["narrowed", "instrument", "runs"]
    trials: tuple[Trial, ...]

    @property
    def prediction_error(self) -> float:
        """predicted / found − 1."""
        return self.predicted_rps / self.rate_max_rps - 1


def assess(run: Run, goal_s: float | None = None) -> Trial:
    """What a steady run says of its rate: whether p99 ≤ goal_s (None: 1.01 W), nothing failed, all was sent."""
    goal = (1 + GOAL_SHARE) * run.scenario.w_s if goal_s is None else goal_s
    outcome, reason = _outcome(run, goal)
    workers, cpu_percent = run.target.workers, run.resources.cpu_percent
    cores = min(run.scenario.pod.cpus or workers, workers)
    return Trial(
        rate_rps=run.scenario.load.rate_rps,
        outcome=outcome,
        reason=reason,
        throughput_rps=run.summary.throughput_rps,
        cpu_share=None if cpu_percent is None else cpu_percent / 100 / cores,
        run_id=run.id,
    )


def next_rate(trials: Sequence[Trial], predicted_rps: float, width: float = WIDTH) -> float | None:
    """The rate to try after `trials`, None when there is nothing more to learn."""
    if not trials:
        return predicted_rps * (1 - width / 2)
    last = trials[-1]
    once = last.outcome == "instrument" and _count(trials, "instrument")[last.rate_rps] < AGREE
    if once or last.outcome == "spoilt":
        return last.rate_rps
    passed, failed = _count(trials, "passed"), _count(trials, "failed")
    if tied := [rate for rate in passed if passed[rate] == failed[rate]]:
        return tied[0]
    bracket = enclose(trials)
    if not bracket.instrument and bracket.high_rps is not None:
        above = any(rate > bracket.high_rps for rate in passed if passed[rate] > failed[rate])
        if above and failed[bracket.high_rps] < AGREE:
            return bracket.high_rps
    return _narrower(bracket, trials, width) or _unconfirmed(bracket, passed, failed)


def enclose(trials: Iterable[Trial]) -> Bracket:
    """The lowest rate that failed or met the instrument's limit, and the highest below it that passed."""
    trials = tuple(trials)
    passed, failed, limited = (_count(trials, outcome) for outcome in ("passed", "failed", "instrument"))
    fails = min((rate for rate in failed if failed[rate] > passed[rate]), default=math.inf)
    limit = min((rate for rate in limited if limited[rate] >= AGREE), default=math.inf)
    high = min(fails, limit)
    low = max((rate for rate in passed if passed[rate] > failed[rate] and rate < high), default=None)
    return Bracket(low, None if high == math.inf else high, limit < fails)


def search(
    run_at: Callable[[float], Trial], predicted_rps: float, width: float = WIDTH, runs_max: int = RUNS_MAX
) -> Found:
    """Find λ max to a relative `width`; run_at makes one run at the rate it is given, and returns its trial.

    Raises MeasurementError when no rate passes, and when SPOILT_MAX runs of one rate are spoilt.
    """
    trials: list[Trial] = []
    while len(trials) < runs_max and (rate := next_rate(trials, predicted_rps, width)) is not None:
        trials.append(run_at(rate))
        if _count(trials, "spoilt")[rate] >= SPOILT_MAX:
            raise MeasurementError(f"{SPOILT_MAX} runs at {rate:.4g}/s were spoilt: {trials[-1].reason}")
    bracket = enclose(trials)
    if bracket.low_rps is None:
        raise MeasurementError(
            f"none of {len(trials)} runs passed, down to {trials[-1].rate_rps:.4g}/s: {trials[-1].reason}"
        )
    out_of_runs = next_rate(trials, predicted_rps, width) is not None
    return Found(
        rate_max_rps=bracket.low_rps,
        failed_at_rps=None if bracket.instrument else bracket.high_rps,
        predicted_rps=predicted_rps,
        confirmed=_count(trials, "passed")[bracket.low_rps] >= AGREE,
        ended="runs" if out_of_runs else "instrument" if bracket.instrument else "narrowed",
        trials=tuple(trials),
    )


def hidden_pool(trials: Iterable[Trial], w_s: float) -> Bound | None:
    """The pool of N = λ max × W that a plateau shows in a target of unknown inside; None where none shows.

    A plateau: at two offered rates or more, each well above what is completed, throughput is the same, and
    the CPUs are not what keeps it there. Runs at OVERLOADS × λ max are enough.
    """
    beyond = [
        (trial.rate_rps, trial.throughput_rps, trial.cpu_share)
        for trial in trials
        if trial.throughput_rps and trial.rate_rps >= _BEYOND * trial.throughput_rps
    ]
    throughputs = [throughput for _, throughput, _ in beyond]
    if len({rate for rate, _, _ in beyond}) < 2 or max(throughputs) > (1 + _FLAT) * min(throughputs):
        return None
    if any(share is None or share >= _BUSY for _, _, share in beyond):
        return None
    rate = sum(throughputs) / len(throughputs)
    offered = ", ".join(f"{offered:.4g}" for offered, _, _ in beyond)
    detail = (
        f"throughput stays at {rate:.4g}/s when {offered}/s are offered: {rate * w_s:.0f} places × {w_s:g} s"
    )
    return Bound("hidden pool", rate, round(rate * w_s), detail)


def _outcome(run: Run, goal_s: float) -> tuple[Outcome, str]:
    failed = {check.name: check.detail for check in run.verdict.checks if check.ok is False}
    p99 = run.summary.latency_s.p99
    if p99 is None:
        failed["p99"] = f"{run.summary.latency_s.n} completed requests carry no p99"
    elif p99 > goal_s:
        failed["goal"] = f"p99 is {p99:.4g} s, the goal {goal_s:.4g} s"
    pod, follow = _POD | {"goal"}, _PILED_UP | _UNSTEADY | {"p99"}
    spoilt = failed.keys() - _INSTRUMENT - pod - follow
    order: tuple[tuple[Outcome, Set[str]], ...] = (
        ("instrument", _INSTRUMENT),
        ("spoilt", spoilt),
        ("failed", pod),
        ("instrument", _PILED_UP),
        ("spoilt", follow),
    )
    for outcome, names in order:
        for name, detail in failed.items():
            if name in names:
                return outcome, f"{name}: {detail}"
    return "passed", ""


def _count(trials: Iterable[Trial], outcome: Outcome) -> Counter[float]:
    return Counter(trial.rate_rps for trial in trials if trial.outcome == outcome)


def _narrower(bracket: Bracket, trials: Sequence[Trial], width: float) -> float | None:
    low, high = bracket.low_rps, bracket.high_rps
    stride = 1 + math.ldexp(width, len({trial.rate_rps for trial in trials}) - 1)
    if high is None:
        return None if low is None else low * stride
    if low is None:
        completed = [
            trial.throughput_rps for trial in trials if trial.rate_rps == high and trial.throughput_rps
        ]
        guess = completed[-1] * (1 - width / 2) if completed else high
        return guess if guess < high / (1 + width) else high / stride
    if high <= low * (1 + (COARSE if bracket.instrument else width)) * (1 + 1e-9):
        return None
    return min(low * stride, math.sqrt(low * high))


def _unconfirmed(bracket: Bracket, passed: Counter[float], failed: Counter[float]) -> float | None:
    low, high = bracket.low_rps, bracket.high_rps
    if low is not None and passed[low] < AGREE:
        return low
    if high is not None and not bracket.instrument and failed[high] < AGREE:
        return high
    return None
