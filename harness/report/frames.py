"""The tables as data: a frame with a row per condition, and the CSV made of it.

Names are snake_case and end in their unit; a figure's interval stands in `_low` and `_high` beside it. What was not
measured is empty, with its reason in `reasons`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]

from harness.report import article
from harness.report.rows import Chapter, Row

PODS = f"pods_for_{article.RATE_RPS:g}_rps"
COUNTS = ("planned", "sent", "unsent", "completed", "failed", "unfinished")


def frame(chapters: Sequence[Chapter]) -> pd.DataFrame:
    """One row per condition of a scenario; names are snake_case and end in their unit."""
    return pd.DataFrame([_record(chapter, row) for chapter in chapters for row in chapter.rows])


def write_csv(data: pd.DataFrame, path: Path) -> None:
    """An empty cell is a figure that was not measured."""
    data.to_csv(path, index=False, lineterminator="\n", float_format="%.9g")


def _record(chapter: Chapter, row: Row) -> dict[str, object]:
    condition = row.condition
    record: dict[str, object] = {
        "scenario": chapter.scenario,
        "arm": chapter.arm,
        "condition": row.label,
        "target": condition.target,
        "model": condition.model,
        "options": " ".join(f"{name}={value}" for name, value in condition.options),
        "workers": condition.workers,
        "w_s": condition.w_s,
        "rate_rps": row.source.rate_rps if row.source else None,
    }
    for key, estimate in row.figures.items():
        name = PODS if key == "pods" else key
        record |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        if key == "rate_max_rps":
            record["rate_max_is_lower_bound"] = row.rate_max_at_least
    record |= {name: row.total(name) for name in COUNTS}
    record |= {
        "bound_by": row.bound_by,
        "verdict": row.verdict,
        "runs_steady": len(row.steady.stored) if row.steady else 0,
        "runs_saturated": len(row.saturated.stored) if row.saturated else 0,
        "runs_discarded": row.discarded,
    }
    reasons = [f"{key}: {estimate.reason}" for key, estimate in row.figures.items() if estimate.reason]
    return record | _article_record(row) | {"reasons": "; ".join(reasons)}


def _article_record(row: Row) -> dict[str, object]:
    if row.beside is None:
        return {f"article_{name}": None for name in _ARTICLE}
    return {f"article_{name}": read(*row.beside) for name, read in _ARTICLE.items()}


_ARTICLE: Mapping[str, Callable[[article.Configuration, article.Load], object]] = {
    "configuration": lambda found, _: found.name,
    "rate_max_rps": lambda found, _: found.rate_max_rps,
    "rate_max_is_lower_bound": lambda found, _: found.rate_max_at_least,
    "rate_rps": lambda _, load: load.rate_rps,
    "latency_p99_s": lambda _, load: load.latency_p99_s,
    "rss_bytes": lambda _, load: load.rss_bytes,
    "cpu_percent": lambda _, load: load.cpu_percent,
    "os_threads": lambda _, load: load.os_threads,
    "concurrency": lambda _, load: load.concurrency,
    PODS: lambda found, _: found.pods,
    "rate_predicted_rps": lambda found, _: found.rate_predicted_rps,
    "measured_over_predicted": lambda found, _: found.measured_over_predicted,
}
