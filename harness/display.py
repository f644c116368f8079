"""What a person sees: live progress, a run, a table row. Results go to stdout, progress to stderr."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.bench import Row
from harness.experiment import Moment
from harness.preflight import Layout
from harness.run import Run

PLAIN_EVERY_S = 5

T = TypeVar("T")


class Progress:
    """Live progress of one run: one line that changes on a terminal; elsewhere a line a phase and each 5 s."""

    def __init__(self, title: str, layout: Layout) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._title = title
        self._layout = layout
        self._phase = ""
        self._live = Live(console=self._console, refresh_per_second=2, transient=True)

    def __enter__(self) -> Self:
        self._console.print(f"{self._title}: {predicted(self._layout)}")
        for note in self._layout.notes:
            self._console.print(f"  {note}", style="dim")
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def __call__(self, moment: Moment) -> None:
        line = f"  {moment.phase:<7}{_progress(moment, self._layout)}"
        if self._console.is_terminal:
            self._live.update(Text(line))
        elif moment.phase != self._phase or not moment.t_s % PLAIN_EVERY_S:
            self._console.print(line)
        self._phase = moment.phase


def predicted(layout: Layout) -> str:
    """The prediction in a sentence."""
    binding = layout.binding
    return (
        f"predicted {layout.in_flight:,.0f} in flight; at most {binding.rate_max_rps:,.2f}/s "
        f"a pod, bound by {binding.resource} ({binding.detail})"
    )


def _progress(moment: Moment, layout: Layout) -> str:
    progress, sample = moment.progress, moment.sample
    if "sent" not in progress:
        return str(progress.get("what", ""))
    p50 = progress["latency_p50_s"]
    in_flight = sample.get("in_flight", math.nan)
    return (
        f"{moment.t_s:5.0f} s  sent {progress['sent']:,}  unsent {progress['unsent']:,}  "
        f"failed {progress['failed']:,}  in flight {progress['in_flight']:,} "
        f"(pod {_number(in_flight)}, predicted {layout.in_flight:,.0f})  "
        f"p50 {'–' if p50 is None else f'{p50:.3f} s'}  RSS {_mega(sample.get('rss_bytes'))}"
    )


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("configuration", lambda row: row.target + (f" × {row.workers}" if row.workers > 1 else "")),
    ("λ max / pod", lambda row: _rate_max(row)),
    ("p99 at capacity", lambda row: "–" if row.p99_s is None else f"{row.p99_s * 1000:,.0f} ms"),
    ("RSS", lambda row: _mega(row.rss_bytes)),
    ("CPU", lambda row: "–" if row.cpu_percent is None else f"{row.cpu_percent:.1f} %"),
    ("OS threads", lambda row: _number(row.os_threads)),
    ("sustained concurrency", lambda row: _number(row.concurrency)),
    ("pods for λ", lambda row: f"{_number(row.pods)} (λ={row.rate_target_rps:g})"),
    ("predicted rate", lambda row: "–" if row.predicted_rps is None else f"{row.predicted_rps:.2f} req/s"),
    ("measured / predicted", lambda row: "–" if row.ratio is None else f"{row.ratio:.3f}"),
    ("unsent", lambda row: f"{row.unsent:,}"),
    ("verdict", lambda row: "valid" if row.valid else "INVALID"),
)


def show_table(
    console: Console, columns: Sequence[tuple[str, Callable[[T], str]]], rows: Sequence[T]
) -> None:
    """Each row's cells under the columns' titles: a table on a terminal, Markdown elsewhere."""
    titles = [title for title, _ in columns]
    lines = [[cell(row) for _, cell in columns] for row in rows]
    if console.is_terminal:
        table = Table(*titles)
        for line in lines:
            table.add_row(*line)
        console.print(table)
        return
    for line in (titles, ["---"] * len(titles), *lines):
        console.print("| " + " | ".join(line) + " |")


def show_rows(rows: Sequence[Row]) -> None:
    """Table rows on a terminal, Markdown elsewhere."""
    console = Console(highlight=False, soft_wrap=True)
    show_table(console, COLUMNS, rows)
    for row in rows:
        for reason in row.reasons:
            console.print(f"{row.target}: invalid: {reason}")


def show_run(run: Run) -> None:
    """A run on one screen: figures beside the prediction, then each check."""
    console = Console(highlight=False, soft_wrap=True)
    summary, resources, latency, load = run.summary, run.resources, run.summary.latency_s, run.scenario.load
    console.print(f"{run.id}  {'valid' if run.verdict.valid else 'INVALID: ' + run.verdict.reason}")
    lines: Sequence[tuple[str, str]] = (
        ("target", f"{run.target.name}, {run.target.workers} processes, {_options(run)}"),
        ("load", f"{load.offer} on {load.route}, {load.regime}, W = {run.scenario.w_s:g} s"),
        (
            "requests",
            f"planned {summary.planned:,} = sent {summary.sent:,} + unsent {summary.unsent:,}; completed "
            f"{summary.completed:,}, failed {summary.failed:,}, unfinished {summary.unfinished:,}",
        ),
        ("throughput", f"{_rate(summary.throughput_rps)} of {_rate(summary.rate_offered_rps)} offered"),
        (
            "latency",
            f"p50 {_seconds(latency.p50)}, p99 {_seconds(latency.p99)} "
            f"[{_seconds(latency.p99_low)}, {_seconds(latency.p99_high)}], n = {latency.n:,}",
        ),
        ("send lag", f"p99 {_seconds(summary.send_lag_s.p99)}, max {_seconds(summary.send_lag_s.max)}"),
        (
            "in flight",
            f"handlers {_number(run.concurrency.handlers_mean)}, client {_number(run.concurrency.client_mean)}, "
            f"upstream {_number(run.concurrency.upstream_mean)}, predicted {_number(run.prediction.concurrency)}",
        ),
        *_database(run),
        (
            "resources",
            f"RSS {_mega(resources.rss_bytes.mean)}, PSS {_mega(resources.pss_bytes.mean)}, CPU "
            f"{_number(resources.cpu_percent, 1)} %, {_number(resources.os_threads.peak)} threads, "
            f"{_number(resources.descriptors.peak)} descriptors",
        ),
        (
            "a request",
            f"{_milli(resources.cpu_s_per_request)} CPU; in flight "
            f"{_number(_kilo(resources.bytes_per_request_in_flight), 1)} KB",
        ),
        (
            "collector",
            f"{_number(resources.gc_pause_s.count)} pauses, longest {_milli(resources.gc_pause_s.max)}",
        ),
        (
            "prediction",
            f"at most {_rate(run.prediction.rate_max_rps)}, bound by {run.prediction.bound_by}; "
            f"measured / predicted {_number(run.prediction.ratio, 4)}",
        ),
    )
    for name, text in (*lines, *_beside(run)):
        console.print(f"  {name:<11}{text}")
    marks = {True: "ok  ", False: "FAIL", None: "–   "}
    for check in run.verdict.checks:
        console.print(f"    {marks[check.ok]} {check.name:<27}{check.detail}")


def _beside(run: Run) -> Iterator[tuple[str, str]]:
    """What not every run has: pins, by handler, and what a bystander waited."""
    if (pins := run.pins) is not None:
        handlers = ", ".join(f"{name} {found.count:,}" for name, found in pins.handlers.items())
        held = f"the loop or hub was held for {_seconds(pins.seconds)}"
        each = f"{pins.count:,}, {_number(pins.per_request, 4)} a request; {held}"
        yield "pins", f"{each}: {handlers}" if handlers else each
    if (waited := run.bystander) is not None:
        times = f"p50 {_seconds(waited.p50)}, p99 {_seconds(waited.p99)}, max {_seconds(waited.max)}"
        lost = f"{waited.unanswered:,} without an answer in {waited.timeout_s:g} s"
        yield "bystander", f"{waited.route}: {times}, n = {waited.n:,}, of which {lost}"


def _database(run: Run) -> list[tuple[str, str]]:
    if run.database is None:
        return []
    answers = ", ".join(f"{n:,} × {status}" for status, n in run.summary.statuses.items())
    before = run.database
    return [
        ("answers", f"{answers}; p50 of all {_seconds(run.summary.latency_all_s.p50)}"),
        (
            "database",
            f"{_number(before.used.mean, 1)} connections in use, {_number(before.waiting.mean, 1)} requests waiting "
            f"for one; {_number(before.permits_in_use.mean, 1)} of {_number(before.permits)} permits in use",
        ),
    ]


def _options(run: Run) -> str:
    return ", ".join(f"{name} = {value}" for name, value in run.target.options.items()) or "no options"


def _rate_max(row: Row) -> str:
    if row.rate_max_rps is None:
        return "–"
    if row.rate_max_at_least:
        return f"≥ {row.rate_target_rps:g} req/s"
    return f"{row.rate_max_rps:.2f} req/s"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}/s"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f} s"


def _milli(value: float | None) -> str:
    return "–" if value is None else f"{value * 1000:.2f} ms"


def _kilo(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _mega(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value / 1e6:,.0f} MB"


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:,.{digits}f}"
