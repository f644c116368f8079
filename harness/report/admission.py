"""Admission before a database: its table, its figure and what they teach (harness/admission.py has the arithmetic)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.axes import Axes

from harness import admission
from harness.admission import Setting
from harness.admission_rows import Row, median_of, row_of
from harness.report import article, rows, style
from harness.report.drawing import Drawing
from harness.report.metrics import given, number
from harness.report.rows import Chapter
from harness.report.style import INK, PALE
from harness.report.tables import EMPTY, Line, Shown, Table, empty_cells
from harness.run import Run

# A count of a row: its colour in the figure, what it is called there, the row's prediction of it.
OUTCOMES: Mapping[str, tuple[str, str, str | None]] = {
    "ok_count": ("#56B4E9", "200", "predicted_ok"),
    "refused_429": ("#E69F00", "429", "predicted_429"),
    "refused_503": ("#D55E00", "503", "predicted_503"),
    "timed_out": ("#CC79A7", "timed out", None),
    "unsent": (PALE, "unsent", "predicted_unsent"),
}
WORDS_SHARE = 0.12  # of the axis, below which a part of a bar cannot hold its words

HOW_TO_READ = (
    "p50 and p99 are of all answers, refusals included. In brackets: predicted for a fluid, in which nothing but the "
    "hold takes time. Unsent: due when all clients that there are were waiting already."
)
# What a kind of condition shows; SPANS are figures of a row, over all conditions of the kind.
LESSONS: Mapping[str, str] = {
    "below": "{names}: not above the tipping point of {limit:g}, so the pool should refuse nobody; at the rate that "
    "was really served that point lies at {served_limit:.0f}, and {refused_503} were refused (503). The excess waits "
    "for a thread, where nothing refuses it: a success took {ok_p50_ms} ms, and {unsent} requests found all clients "
    "waiting. Only the unsent column tells.",
    "between": "{names}: above the tipping point of {limit:g}, so 503s appear ({refused_503}), but with too few "
    "threads to take all that is offered: {unsent} stay unsent, and a success took {ok_p50_ms} ms.",
    "open": "{names}: everybody is let in, {in_flight_mean} at once. {refused_503} are refused (503) after "
    "{wait_ms:,g} ms in line, and a success took {ok_p50_ms} ms.",
    "guarded": "{names}: {refused_429} are told at the door, after {wait_ms:,g} ms, to come back later (429 with "
    "Retry-After). {waiting_mean} wait for the pool, and p99 of the successes is {ok_p99_ms} ms.",
}
SPANS = ("ok_p50_ms", "ok_p99_ms", "refused_429", "refused_503", "unsent", "in_flight_mean", "waiting_mean")


class Entry(NamedTuple):
    """One condition: its figures, what it was run with, its runs, and the article's condition beside it."""

    figures: Row
    setting: Setting
    runs: Sequence[Run]
    beside: article.Admission | None

    @property
    def kind(self) -> str:
        """Which of LESSONS it teaches."""
        if self.setting.permits:
            return "guarded"
        if self.setting.room <= self.setting.tipping_point:
            return "below"
        return "between" if self.setting.taken_rps < self.setting.rate_rps else "open"


def is_of(chapter: Chapter) -> bool:
    """Whether this is how a chapter is to be reported: all its conditions stand before a database."""
    return all(_entry(row) is not None for row in chapter.rows)


def tables(chapter: Chapter, _: Path) -> dict[str, Table]:
    """What became of the requests, and what it cost."""
    found = entries(chapter)
    return {"outcomes": results(found), "costs": costs(found)}


def drawings(chapter: Chapter) -> list[Drawing]:
    """The figure of a chapter."""
    return [outcomes(entries(chapter))]


def frame(chapters: Iterable[Chapter], _: Path) -> pd.DataFrame:
    """One row per condition: counts as they are, times in milliseconds, the setting, and the article's figures."""
    return pd.DataFrame([_record(chapter, entry) for chapter in chapters for entry in entries(chapter)])


def entries(chapter: Chapter) -> list[Entry]:
    """Without a semaphore first, then with one; two conditions that would be called the same, by their options."""
    found = [(row.label, entry) for row in chapter.rows if (entry := _entry(row)) is not None]
    times = Counter(entry.figures.condition for _, entry in found)
    named = [
        entry
        if times[entry.figures.condition] == 1
        else entry._replace(figures=msgspec.structs.replace(entry.figures, condition=label))
        for label, entry in found
    ]
    return sorted(named, key=lambda entry: entry.setting.permits > 0)


def results(found: Sequence[Entry]) -> Table:
    """The article's columns and rows; in brackets what was predicted."""
    lines: list[Line] = []
    for at, entry in enumerate(found):
        lines.append(Line(entry.figures.condition, _results(entry.figures)))
        if entry.beside and entry.beside not in [later.beside for later in found[at + 1 :]]:
            lines.append(_of_article(entry.beside))
    counts = [word for _, word, _ in OUTCOMES.values()]
    headers = ("p50 (ms)", "p99 (ms)", *counts, "in flight", "waiting for the pool", "verdict", "runs")
    notes = (HOW_TO_READ, *lessons(found), *empty_cells(headers, lines))
    return Table(("condition", *headers), tuple(lines), notes)


def costs(found: Sequence[Entry]) -> Table:
    """What a success took, and what the pod did."""
    lines = []
    for entry in found:
        row, pods = entry.figures, [run.resources for run in entry.runs]
        cells = (
            _shown(row.ok_rps, entry.setting.carried_rps),
            _shown(row.ok_p50_ms, row.predicted_ok_ms),
            _shown(row.ok_p99_ms),
            _shown(median_of(pod.rss_bytes.mean and pod.rss_bytes.mean / 1e6 for pod in pods)),
            _shown(median_of(pod.cpu_percent for pod in pods)),
            _shown(median_of(pod.os_threads.peak for pod in pods)),
        )
        lines.append(Line(row.condition, cells))
    headers = ("200/s", "p50 of 200 (ms)", "p99 of 200 (ms)", "RSS (MB)", "CPU (% of a core)", "OS threads")
    return Table(("condition", *headers), tuple(lines), tuple(empty_cells(headers, lines)))


def lessons(found: Sequence[Entry]) -> list[str]:
    """What the table teaches, with its own figures: one sentence for each kind of condition there is."""
    groups: dict[str, list[Entry]] = {}
    for entry in found:
        groups.setdefault(entry.kind, []).append(entry)
    said = [_lesson(kind, group) for kind, group in groups.items()]
    rates = [entry.figures.ok_rps for entry in found if entry.figures.ok_rps]
    if len(rates) > 1:
        apart = max(rates) / min(rates) - 1
        said.insert(
            0,
            f"{_span(rates)} successes a second in all {len(rates)} conditions, {apart:.1%} apart; the "
            f"connections carry {given(found[0].setting.carried_rps)}/s. No model makes a database faster: what "
            "differs is where the excess waits, and what failing costs.",
        )
    return said


def outcomes(found: Sequence[Entry]) -> Drawing:
    """What became of the requests due inside the window, and how long successes took."""
    figure = style.sheet(0.9 + 0.36 * len(found))
    counts, latency = figure.subplots(1, 2, sharey=True, width_ratios=[5, 3])
    most = max(sum(count for _, count in _counts(entry.figures)) for entry in found)
    for y, entry in enumerate(found):
        _bar(counts, y, entry.figures, most)
        known = [time for time in (entry.figures.ok_p50_ms, entry.figures.ok_p99_ms) if time is not None]
        latency.plot(known, [y] * len(known), color=INK, marker="o", markersize=3, linewidth=1.2)
    counts.set_yticks(range(len(found)), [style.short(entry.figures.condition) for entry in found])
    counts.invert_yaxis()
    counts.locator_params(axis="x", nbins=5)
    counts.set_xlabel("requests due inside the window")
    latency.set_xscale("log")
    latency.set_xlabel("latency of 200 (ms)")
    for axes in (counts, latency):
        axes.grid(visible=False, axis="y")
        style.plain_ticks(axes.xaxis)
    caption = (
        "Left: what became of the requests, by the status of their answers; grey ones were never sent. Black marks: "
        "predicted. Right: latency of the successes, from p50 to p99."
    )
    return Drawing("outcomes", "Where the excess goes", caption, figure)


def _entry(row: rows.Row) -> Entry | None:
    """Of a row's runs those that had the setting of the last one; None where that is not known."""
    settings = [
        admission.setting(run.scenario, run.target.options, run.target.workers, row.condition.pool)
        for run in row.runs
    ]
    last = settings[-1]
    if last is None:
        return None
    runs = [run for run, own in zip(row.runs, settings, strict=True) if own == last]
    figures = msgspec.structs.replace(row_of(row.condition.target, last, runs), verdict=row.verdict)
    return Entry(figures, last, runs, article.admission_counterpart(last))


def _record(chapter: Chapter, entry: Entry) -> dict[str, object]:
    own = entry.setting
    return {
        "scenario": chapter.scenario,
        "arm": chapter.arm,
        **msgspec.structs.asdict(entry.figures),
        "rate_rps": own.rate_rps,
        "hold_ms": 1000 * own.hold_s,
        "connections": own.connections,
        "connection_wait_ms": 1000 * own.connection_wait_s,
        "permit_wait_ms": 1000 * own.permit_wait_s,
        "clients": own.clients,
        "tipping_point": own.tipping_point,
        **{
            f"article_{name}": getattr(entry.beside, name, None) for name in article.Admission.__annotations__
        },
    }


def _results(row: Row) -> tuple[Shown, ...]:
    counts = [
        _shown(getattr(row, key), getattr(row, of) if of else None) for key, (*_, of) in OUTCOMES.items()
    ]
    return (
        _shown(row.p50_ms),
        _shown(row.p99_ms),
        *counts,
        _shown(row.in_flight_mean, row.predicted_in_flight),
        _shown(row.waiting_mean, row.predicted_waiting),
        Shown(row.verdict),
        Shown(str(row.runs)),
    )


def _of_article(beside: article.Admission) -> Line:
    names = (
        "p50_ms",
        "p99_ms",
        "ok_count",
        "refused_429",
        "refused_503",
        "",
        "unsent",
        "in_flight",
        "waiting",
    )
    told = [_shown(getattr(beside, name)) if name else Shown("") for name in names]
    return Line(f"article: {beside.name} (JVM, cold start)", (*told, Shown(""), Shown("")), of_article=True)


def _shown(value: float | None, predicted: float | None = None) -> Shown:
    """A prediction that reads like the value itself is left out."""
    if value is None:
        return Shown(EMPTY, reason="not measured")
    expected = "" if predicted is None else _text(predicted)
    return Shown(_text(value), "" if expected == _text(value) else expected)


def _text(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else number(value)


def _span(values: Iterable[float | None]) -> str:
    known = sorted(value for value in values if value is not None)
    ends = list(dict.fromkeys(_text(value) for value in (known[:1] + known[-1:])))
    return "–".join(ends) or EMPTY


def _lesson(kind: str, group: Sequence[Entry]) -> str:
    own = group[0].setting
    spans = {name: _span(getattr(entry.figures, name) for entry in group) for name in SPANS}
    names = ", ".join(entry.figures.condition for entry in group)
    served_rps = min(
        (entry.figures.ok_rps for entry in group if entry.figures.ok_rps), default=own.carried_rps
    )
    return LESSONS[kind].format(
        names=names,
        limit=own.tipping_point,
        served_limit=own.connections + served_rps * own.connection_wait_s,
        wait_ms=1000 * own.wait_s,
        **spans,
    )


def _counts(row: Row) -> list[tuple[str, int]]:
    return [(key, getattr(row, key) or 0) for key in OUTCOMES]


def _bar(axes: Axes, y: int, row: Row, most: int) -> None:
    parts = _counts(row)
    left, predicted, total = 0, 0.0, sum(count for _, count in parts)
    for key, count in parts:
        color, word, of = OUTCOMES[key]
        axes.barh(y, count, left=left, height=0.62, color=color, linewidth=0)
        if count > WORDS_SHARE * most:
            axes.text(
                left + count / 2,
                y,
                f"{count:,} {'× ' if word.isdecimal() else ''}{word}",
                ha="center",
                va="center",
                fontsize=7,
            )
        left += count
        predicted += (getattr(row, of) or 0) if of else 0
        if 0 < predicted < 0.999 * total:  # where all end needs no mark
            axes.plot([predicted, predicted], [y - 0.42, y + 0.42], color=INK, linewidth=1.2, marker="")
