"""The rows of a closed model's chapter: an endpoint of a condition, measured and expected; and these as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]

from harness import deadlock, lab
from harness.expected import ENDPOINTS, THREADS, Expected, endpoint_of, of_run
from harness.report import article
from harness.report.conditions import Condition, varying
from harness.report.metrics import COUNT, MILLISECONDS, RATE, RATIO, Metric, Unit, estimate
from harness.report.rows import Chapter
from harness.run import Run
from harness.statistics import Estimate

LAB_OPTIONS = ("hold", "pins")  # the scenario sets them for all

METRICS: Mapping[str, Metric] = {
    key: Metric(key, title, lab.FIGURES[key], unit)
    for key, title, unit in (
        ("ok", "ok in the window", COUNT),
        ("throughput_rps", "throughput", RATE),
        ("upstream_in_flight", "in flight upstream", RATIO),
        ("pins", "pins", COUNT),
        ("pins_per_request", "pins a request", RATIO),
        ("attributed_share", "pins of its own handler", Unit("%", 100)),
        ("latency_p50_s", "p50", MILLISECONDS),
        ("bystander_p50_s", "bystander p50", MILLISECONDS),
        ("bystander_p99_s", "bystander p99", MILLISECONDS),
    )
}

# Field of Expected: its column, and what makes of it the column's unit.
EXPECTED: Mapping[str, tuple[str, float]] = {
    "throughput_rps": ("expected_rps", 1),
    "upstream_in_flight": ("expected_in_flight", 1),
    "pins_per_request": ("expected_pins_per_request", 1),
    "latency_p50_s": ("expected_p50_ms", 1e3),
    "bystander_s": ("bystander_limit_ms", 1e3),
    "bystander_waits": ("expected_bystander_beyond_limit", 1),
}


@dataclass(frozen=True)
class Row:
    """One endpoint of one condition, over its valid runs."""

    condition: Condition
    label: str
    endpoint: str
    runs: tuple[Run, ...]
    discarded: int

    def figure(self, key: str) -> Estimate:
        """One of METRICS over the runs."""
        return estimate(METRICS[key], self.runs)

    @property
    def expected(self) -> Expected | None:
        return of_run(self.runs[0])

    @property
    def beside(self) -> Mapping[str, article.Held]:
        """The article's figures for this endpoint, where it was asked in the same way."""
        load, w_s = self.runs[0].scenario.load, self.runs[0].scenario.w_s
        same = (load.clients, w_s, load.window_s)
        wanted = (article.PINNING_CLIENTS, article.PINNING_W_S, article.PINNING_WINDOW_S)
        return article.PINNING.get(self.endpoint, {}) if same == wanted else {}


def rows(chapter: Chapter) -> list[Row]:
    """By endpoint in the lab's order, then by condition; routes that are none of the lab's come last."""
    conditions = [_plainly(row.condition) for row in chapter.rows]
    apart = [name for name in varying(conditions) if name != "route"]
    found = [
        Row(condition, condition.label(apart), endpoint_of(row.runs[0]), tuple(row.runs), row.discarded)
        for row, condition in zip(chapter.rows, conditions, strict=True)
    ]
    places = {endpoint: place for place, endpoint in enumerate(ENDPOINTS)}
    return sorted(found, key=lambda row: (places.get(row.endpoint, len(places)), row.endpoint))


def deadlocks(chapter: Chapter, results: Path) -> list[deadlock.Deadlock]:
    """What became of the sixth endpoint of the chapter's targets, where it was tried."""
    targets = dict.fromkeys(row.condition.target for row in chapter.rows)
    known = deadlock.load(results, chapter.scenario)
    return [known[name] for name in targets if name in known]


def frame(chapters: Sequence[Chapter], results: Path) -> pd.DataFrame:
    """A row for each endpoint of each condition, and one for what the sixth did to a target."""
    tried = {found.target: found for chapter in chapters for found in deadlocks(chapter, results)}
    sixth = [
        {
            "target": found.target,
            "model": found.model,
            "condition": found.target,
            "endpoint": "deadlock",
            "deadlock": found.outcome,
            "deadlock_as_expected": found.as_expected,
        }
        for found in tried.values()
    ]
    return pd.DataFrame([*(_record(row) for chapter in chapters for row in rows(chapter)), *sixth])


def _plainly(condition: Condition) -> Condition:
    """Without the options that only say that this is the lab."""
    return replace(condition, changed=tuple(pair for pair in condition.changed if pair[0] not in LAB_OPTIONS))


def _record(row: Row) -> dict[str, object]:
    scenario, wanted = row.runs[0].scenario, row.expected
    record: dict[str, object] = {
        "target": row.condition.target,
        "model": row.condition.model,
        "condition": row.label,
        "endpoint": row.endpoint,
        "clients": scenario.load.clients,
        "w_s": scenario.w_s,
        "window_s": scenario.load.window_s,
        "runs": len(row.runs),
        "runs_discarded": row.discarded,
    }
    for key, metric in METRICS.items():
        name, found = _column(key), row.figure(key)
        factor = 1e3 if metric.unit is MILLISECONDS else 1.0
        for value, end in ((found.value, ""), (found.low, "_low"), (found.high, "_high")):
            record[name + end] = None if value is None else value * factor
    for field, (name, factor) in EXPECTED.items():
        record[name] = None if wanted is None else getattr(wanted, field) * factor
    return record | _article(row)


def _column(key: str) -> str:
    milliseconds = METRICS[key].unit is MILLISECONDS
    return f"{key.removeprefix('latency_').removesuffix('_s')}_ms" if milliseconds else key


def _article(row: Row) -> dict[str, object]:
    threads = article.PLATFORM if row.condition.model == THREADS else article.VIRTUAL
    held = row.beside.get(threads)
    return {
        "article": threads if held else None,
        "article_ok": held.ok if held else None,
        "article_in_flight": held.in_flight if held else None,
        "article_pins": held.pins if held else None,
        "article_p50_ms": held.latency_p50_s * 1e3 if held else None,
    }
