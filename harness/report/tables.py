"""The tables as text, for Markdown and the page: cells, and what to say below them.

What could not be measured is an empty cell, and its reason stands below the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness import repeats
from harness.report import article
from harness.report.axes import Axis, Value
from harness.report.conditions import printable
from harness.report.metrics import METRICS, Metric, given, number
from harness.report.rows import Chapter, Row
from harness.run import Run
from harness.statistics import Estimate

EMPTY = "–"


@dataclass(frozen=True)
class Shown:
    """A cell: its text and interval; `reason` says why it is empty."""

    text: str
    interval: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Line:
    """A row as text; `of_article` marks a figure that is not ours."""

    label: str
    cells: tuple[Shown, ...]
    of_article: bool = False


@dataclass(frozen=True)
class Table:
    """Headers (the first is the label's), lines, and what to say below."""

    headers: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


Beside = Callable[[article.Configuration, article.Load], str]


@dataclass(frozen=True)
class Column:
    """How one column is made of a row, and of the article's configuration beside it."""

    header: str
    show: Callable[[Row], Shown]
    beside: Beside = lambda *_: ""


def results(chapter: Chapter) -> Table:
    """The article's columns and what tells how far to trust them; the article's rows beside ours."""
    last = {row.beside: row for row in chapter.rows if row.beside}
    lines: list[Line] = []
    for row in chapter.rows:
        lines.append(Line(row.label, tuple(column.show(row) for column in RESULTS)))
        if row.beside and last[row.beside] is row:
            lines.append(_of_article(*row.beside))
    table = _table(RESULTS, lines)
    return replace(table, notes=(*table.notes, *map(printable, repeats.notes(_repeated(chapter)))))


def _repeated(chapter: Chapter) -> dict[str, list[Run]]:
    """The repeats there are, by condition and rate."""
    return {
        f"{row.label} at {given(cell.rate_rps)}/s": cell.runs
        for row in chapter.rows
        for cell in (*row.rates, row.saturated)
        if cell is not None
    }


def costs(chapter: Chapter) -> Table:
    """What a request and a request in flight cost, and where they were counted, pins."""
    counted = any(run.pins is not None for run in chapter.runs)
    columns = (*COSTS, *PINS) if counted else COSTS
    return _table(
        columns, [Line(row.label, tuple(column.show(row) for column in columns)) for row in chapter.rows]
    )


def of_sweep(chapter: Chapter, axis: Axis) -> Table:
    """What a sweep is about, by target and value, and how far to trust it."""
    metrics = (RATE_MAX if key == "rate_max_rps" else of_metric(key) for key in (*axis.metrics, *axis.beside))
    value = Column(axis.label, lambda row: _value(axis.value(row.condition)))
    columns = (value, AT_RATE, *metrics, *TRUST)

    def place(row: Row) -> tuple[int, str, float]:
        found = axis.value(row.condition)
        return row.condition.rank, row.condition.target, 0.0 if isinstance(found, str) else found or 0.0

    rows = sorted(chapter.rows, key=place)
    return _table(columns, [Line(row.label, tuple(column.show(row) for column in columns)) for row in rows])


def of_metric(key: str, beside: Beside = lambda *_: "") -> Column:
    """The column of one of METRICS."""
    metric = METRICS[key]
    return Column(metric.header, lambda row: shown(metric, row.figures[key]), beside)


def shown(metric: Metric, estimate: Estimate) -> Shown:
    """An estimate as a cell; an interval that reads like the value itself is left out."""
    if estimate.value is None:
        return Shown(EMPTY, reason=estimate.reason)
    return Shown(metric.write(estimate.value), _interval(metric.write, estimate))


def _interval(write: Callable[[float], str], estimate: Estimate) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return ""
    ends = [write(estimate.low), write(estimate.high)]
    return "" if ends == [write(estimate.value)] * 2 else "–".join(ends)


def _value(value: Value | None) -> Shown:
    if value is None:
        return Shown(EMPTY, reason="the target has no such option")
    return Shown(value if isinstance(value, str) else given(value))


def chosen(table: Table, *starts: str) -> Table:
    """The columns whose headers begin so, in this order, and their notes."""
    places = [
        next(place for place, header in enumerate(table.headers[1:]) if header.startswith(start))
        for start in starts
    ]
    headers = tuple(table.headers[1 + place] for place in places)
    lines = tuple(replace(line, cells=tuple(line.cells[place] for place in places)) for line in table.lines)
    return Table((table.headers[0], *headers), lines, tuple(empty_cells(headers, lines)))


def _rate_max(row: Row) -> Shown:
    cell = shown(METRICS["rate_max_rps"], row.figures["rate_max_rps"])
    return Shown(f"≥ {cell.text}") if row.rate_max_at_least else cell


def _pods(row: Row) -> Shown:
    estimate = row.figures["pods"]
    if estimate.value is None:
        return Shown(EMPTY, reason=estimate.reason)
    bound = "≤ " if row.rate_max_at_least and estimate.value > 1 else ""
    return Shown(f"{bound}{estimate.value:,.0f}", _interval("{:,.0f}".format, estimate))


def _at_rate(row: Row) -> Shown:
    return Shown(given(row.source.rate_rps)) if row.source else Shown(EMPTY, reason="no run")


def _concurrency(row: Row) -> Shown:
    # A target that is not ours has no gauge in its handlers; the client counted the same requests.
    if row.figures["concurrency"].value is None and row.figures["concurrency_client"].value is not None:
        cell = shown(METRICS["concurrency_client"], row.figures["concurrency_client"])
        return Shown(f"{cell.text} (client)", cell.interval)
    return shown(METRICS["concurrency"], row.figures["concurrency"])


def _unsent(row: Row) -> Shown:
    unsent, planned = row.total("unsent"), row.total("planned")
    return Shown(f"{unsent:,} of {planned:,}")


def _n(row: Row) -> Shown:
    return Shown(" + ".join(str(len(cell.stored) if cell else 0) for cell in (row.steady, row.saturated)))


def _bound_by(row: Row) -> Shown:
    return Shown(row.bound_by) if row.bound_by else Shown(EMPTY, reason="no run named a resource")


def _at_least(configuration: article.Configuration, _: article.Load) -> str:
    return f"{'> ' if configuration.rate_max_at_least else ''}{given(configuration.rate_max_rps)}"


def _maybe(value: float | None, factor: float = 1.0) -> str:
    return EMPTY if value is None else given(value * factor)


RATE_MAX = Column(METRICS["rate_max_rps"].header, _rate_max, _at_least)
AT_RATE = Column("at λ (req/s)", _at_rate, lambda _, load: given(load.rate_rps))
TRUST = (
    Column("verdict", lambda row: Shown(row.verdict)),
    Column("n (steady + saturated)", _n),
)
RESULTS: tuple[Column, ...] = (
    RATE_MAX,
    AT_RATE,
    of_metric("latency_p99_s", lambda _, load: _maybe(load.latency_p99_s, 1e3)),
    of_metric("rss_mean_bytes", lambda _, load: _maybe(load.rss_bytes, 1e-6)),
    of_metric("cpu_percent", lambda _, load: f"{load.cpu_percent:.1f} (?)"),
    of_metric("os_threads", lambda _, load: _maybe(load.os_threads)),
    Column(METRICS["concurrency"].header, _concurrency, lambda _, load: _maybe(load.concurrency)),
    Column(f"pods for λ = {article.RATE_RPS:g}/s", _pods, lambda found, _: str(found.pods)),
    of_metric("rate_predicted_rps", lambda found, _: _maybe(found.rate_predicted_rps)),
    of_metric("measured_over_predicted", lambda found, _: number(found.measured_over_predicted)),
    Column("unsent", _unsent),
    Column("bound by", _bound_by),
    *TRUST,
)

COSTS: tuple[Column, ...] = tuple(
    of_metric(key)
    for key in (
        "throughput_rps",
        "latency_p50_s",
        "latency_p99_over_w_s",
        "cpu_s_per_request",
        "bytes_per_request_in_flight",
        "memory_at_rest_bytes",
        "rss_peak_bytes",
        "gc_pause_total_s",
        "gc_pause_max_s",
        "send_lag_p99_s",
    )
)


PINS: tuple[Column, ...] = tuple(of_metric(key) for key in ("pins_per_request", "pinned_s"))


def _of_article(configuration: article.Configuration, load: article.Load) -> Line:
    cells = tuple(Shown(column.beside(configuration, load)) for column in RESULTS)
    return Line(f"article: {configuration.name} (JVM, 4 CPUs)", cells, of_article=True)


def _table(columns: Sequence[Column], lines: Sequence[Line]) -> Table:
    headers = tuple(column.header for column in columns)
    return Table(("condition", *headers), tuple(lines), tuple(empty_cells(headers, lines)))


def empty_cells(headers: Sequence[str], lines: Sequence[Line]) -> list[str]:
    """Why cells are empty, each reason once."""
    where: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        for header, cell in zip(headers, line.cells, strict=True):
            if cell.reason:
                where.setdefault((line.label, cell.reason), []).append(header.partition(" (")[0])
    merged: dict[tuple[str, str], list[str]] = {}
    for (label, reason), titles in where.items():
        merged.setdefault((", ".join(titles), reason), []).append(label)
    return [f"{titles}: {reason} [{', '.join(labels)}]" for (titles, reason), labels in merged.items()]
