"""A row of the admission table from the runs of one condition: outcomes counted apart, and what was predicted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from harness.admission import Predicted, Setting, label, predict
from harness.run import Run

VALID = "valid"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A condition, medians over its valid runs; None is "not measured". Counts are by status, of those due inside.

    n and p50, p99 are of all answers, whatever their status; ok_* of successes; ok_rps counts those that ended inside.
    """

    condition: str
    target: str
    threads: int | None
    permits: int | None
    runs: int
    n: int | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    ok_p50_ms: float | None = None
    ok_p99_ms: float | None = None
    ok_count: int | None = None
    refused_429: int | None = None
    refused_503: int | None = None
    timed_out: int | None = None
    unsent: int | None = None
    predicted_ok: int | None = None
    predicted_429: int | None = None
    predicted_503: int | None = None
    predicted_unsent: int | None = None
    predicted_ok_ms: float | None = None
    predicted_in_flight: float | None = None
    predicted_waiting: float | None = None
    ok_rps: float | None = None
    in_flight_mean: float | None = None
    waiting_mean: float | None = None
    verdict: str = VALID


READ: Mapping[str, Callable[[Run], float | None]] = {
    "p50_ms": lambda run: _ms(run.summary.latency_all_s.p50),
    "p99_ms": lambda run: _ms(run.summary.latency_all_s.p99),
    "ok_p50_ms": lambda run: _ms(run.summary.latency_s.p50),
    "ok_p99_ms": lambda run: _ms(run.summary.latency_s.p99),
    "ok_rps": lambda run: run.summary.throughput_rps,
    "in_flight_mean": lambda run: run.concurrency.handlers_mean,
    "waiting_mean": lambda run: run.database.waiting.mean if run.database else None,
}
COUNTED: Mapping[str, Callable[[Run], int]] = {
    "n": lambda run: run.summary.latency_all_s.n,
    "ok_count": lambda run: run.summary.completed,
    "refused_429": lambda run: run.summary.statuses.get("429", 0),
    "refused_503": lambda run: run.summary.statuses.get("503", 0),
    "timed_out": lambda run: run.summary.timed_out,
    "unsent": lambda run: run.summary.unsent,
}


def row_of(target: str, given: Setting | None, runs: Sequence[Run], broken: Sequence[str] = ()) -> Row:
    """The row that these repeats give: an invalid or broken one gives nothing but its reason."""
    valid = [run for run in runs if run.verdict.valid]
    threads, permits = (given.threads, given.permits) if given else (None, None)
    reasons = [*(run.verdict.reason for run in runs if not run.verdict.valid), *broken]
    measured: dict[str, Any] = {key: median_of(read(run) for run in valid) for key, read in READ.items()}
    counted: dict[str, Any] = {key: _whole(median_of(map(read, valid))) for key, read in COUNTED.items()}
    return Row(
        condition=label(target, threads, permits or 0),
        target=target,
        threads=threads,
        permits=permits,
        runs=len(valid),
        verdict="; ".join(reasons) or VALID,
        **measured,
        **counted,
        **_forecast(predict(given) if given else None),
    )


def _forecast(found: Predicted | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "predicted_ok": round(found.ok),
        "predicted_429": round(found.refused_429),
        "predicted_503": round(found.refused_503),
        "predicted_unsent": round(found.unsent),
        "predicted_ok_ms": 1000 * found.ok_latency_s,
        "predicted_in_flight": found.in_flight,
        "predicted_waiting": found.waiting,
    }


def median_of(values: Iterable[float | None]) -> float | None:
    """The median of those that were measured."""
    found = [value for value in values if value is not None]
    return median(found) if found else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else 1000 * value_s
