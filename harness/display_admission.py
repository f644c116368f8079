"""The admission table for a terminal: each count beside what was predicted of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from harness.admission_rows import Row
from harness.display import show_table


def _counted(key: str, predicted: str) -> Callable[[Row], str]:
    return lambda row: _beside(getattr(row, key), getattr(row, predicted))


def _beside(value: float | None, predicted: float | None) -> str:
    shown = "–" if value is None else f"{value:,.0f}"
    return shown if predicted is None else f"{shown} ({predicted:,.0f})"


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("condition", lambda row: row.condition),
    ("p50 ms", lambda row: _beside(row.p50_ms, None)),
    ("p99 ms", lambda row: _beside(row.p99_ms, None)),
    ("p50 of 200, ms", _counted("ok_p50_ms", "predicted_ok_ms")),
    ("p99 of 200, ms", lambda row: _beside(row.ok_p99_ms, None)),
    ("200", _counted("ok_count", "predicted_ok")),
    ("429", _counted("refused_429", "predicted_429")),
    ("503", _counted("refused_503", "predicted_503")),
    ("unsent", _counted("unsent", "predicted_unsent")),
    ("timed out", lambda row: _beside(row.timed_out, None)),
    ("200/s", lambda row: "–" if row.ok_rps is None else f"{row.ok_rps:.1f}"),
    ("in flight", _counted("in_flight_mean", "predicted_in_flight")),
    ("waiting for pool", _counted("waiting_mean", "predicted_waiting")),
    ("verdict", lambda row: row.verdict),
)


def show_admission(rows: Sequence[Row]) -> None:
    """A line a condition; what was predicted stands in brackets."""
    show_table(Console(highlight=False, soft_wrap=True), COLUMNS, rows)
