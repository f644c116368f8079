"""The chapter of a closed model: what each way to hold a lock does to each execution model.

Expected (expected.py) stands beside measured, and the article beside both where its clients, W and window are
those of the chapter. Below the table, a sentence for each endpoint says what its rows teach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.deadlock import Deadlock
from harness.held import PROBE_TIMEOUT_S
from harness.report import article
from harness.report.pinning_figure import drawings
from harness.report.pinning_rows import METRICS, Row, deadlocks, frame, rows
from harness.report.rows import Chapter
from harness.report.tables import EMPTY, Line, Shown, Table, empty_cells, shown

__all__ = ["drawings", "frame", "is_of", "tables"]

EACH = "each way to hold a lock"
SIXTH = "a native lock held over a suspension"

TEACHES: Mapping[str, str] = {
    "plain": "plain: nothing is held, and every model carries all clients at once: the rows to hold others against.",
    "sync-striped": "sync-striped: nobody else wants this lock, and still a loop or hub serves one request at a time, "
    "because the call beneath the lock blocks the thread, which is everybody’s. Each request is a pin, and its own "
    "handler’s; the bystander waits. Threads lose nothing: the one that waits is the request’s own.",
    "lock-striped": "lock-striped: the model’s own lock, and a wait that suspends: as fast as plain. What costs "
    "concurrency is not the lock.",
    "sync-shared": "sync-shared: one at a time everywhere, for two reasons: threads queue for the lock, a loop or hub "
    "is held as in sync-striped. The bystander tells them apart: threads serve it at once, a loop or hub does not.",
    "lock-shared": "lock-shared: one at a time by design. Throughput and calls in flight read like sync-shared’s; no "
    "pins, and a bystander that does not wait, say that this is contention, from which nobody else suffers.",
}
OF_SIXTH = (
    "The holder is suspended, and the next request stops the thread on which it would go on: no time-out of that "
    "thread can fire either. Between threads a wait for a lock, however long, is only a wait."
)


@dataclass(frozen=True)
class Column:
    """How a column is made of a row, and of the article's figures beside it."""

    header: str
    show: Callable[[Row], Shown]
    beside: Callable[[article.Held], str] = lambda _: ""


def is_of(chapter: Chapter) -> bool:
    """Whether all its runs were asked in a closed model."""
    return all(run.scenario.load.clients is not None for run in chapter.runs)


def tables(chapter: Chapter, results: Path) -> dict[str, Table]:
    """The lab's table and, where it was tried, what became of the sixth endpoint."""
    found = {EACH: _each(rows(chapter))}
    tried = deadlocks(chapter, results)
    return found | ({SIXTH: _sixth(tried)} if tried else {})


def _measured(key: str, beside: Callable[[article.Held], str] = lambda _: "") -> Column:
    return Column(METRICS[key].header, lambda row: shown(METRICS[key], row.figure(key)), beside)


def _expected(key: str, field: str | None = None) -> Column:
    """What `key` should be: a field of Expected, of the same name if none is given."""

    def show(row: Row) -> Shown:
        wanted = row.expected
        return Shown("") if wanted is None else Shown(METRICS[key].write(getattr(wanted, field or key)))

    return Column("expected", show)


def _waited(key: str) -> Column:
    """A bystander's wait; one that reaches the probes' time-out is a lower bound."""

    def show(row: Row) -> Shown:
        found = row.figure(key)
        if found.value is not None and found.value >= PROBE_TIMEOUT_S:
            return Shown(f"≥ {METRICS[key].write(PROBE_TIMEOUT_S)}")
        return shown(METRICS[key], found)

    return Column(METRICS[key].header, show)


def _bystander_expected(row: Row) -> Shown:
    wanted = row.expected
    if wanted is None:
        return Shown("")
    sign = "≥" if wanted.bystander_waits else "<"
    return Shown(f"{sign} {METRICS['bystander_p50_s'].write(wanted.bystander_s)}")


def _verdict(row: Row) -> Shown:
    return Shown(f"valid; {row.discarded} discarded" if row.discarded else "valid")


COLUMNS: tuple[Column, ...] = (
    _measured("ok", lambda held: f"{held.ok:,}"),
    _measured(
        "throughput_rps", lambda held: METRICS["throughput_rps"].write(held.ok / article.PINNING_WINDOW_S)
    ),
    _expected("throughput_rps"),
    _measured("upstream_in_flight", lambda held: f"{held.in_flight:,}"),
    _expected("upstream_in_flight"),
    _measured("pins", lambda held: EMPTY if held.pins is None else f"{held.pins:,}"),
    _measured("pins_per_request"),
    _expected("pins_per_request"),
    _measured("attributed_share"),
    _measured("latency_p50_s", lambda held: METRICS["latency_p50_s"].write(held.latency_p50_s)),
    _expected("latency_p50_s"),
    _waited("bystander_p50_s"),
    Column("expected", _bystander_expected),
    _waited("bystander_p99_s"),
    Column("verdict", _verdict),
    Column("n", lambda row: Shown(f"{len(row.runs)}")),
)


def _each(found: Sequence[Row]) -> Table:
    headers = ("endpoint", *(column.header for column in COLUMNS))
    endpoints = tuple(dict.fromkeys(row.endpoint for row in found))
    lines: list[Line] = []
    for endpoint in endpoints:
        own = [row for row in found if row.endpoint == endpoint]
        lines += [
            Line(f"{endpoint}: {row.label}", tuple(column.show(row) for column in COLUMNS)) for row in own
        ]
        lines += _beside(endpoint, next((row.beside for row in own if row.beside), {}))
    taught = [TEACHES[endpoint] for endpoint in endpoints if endpoint in TEACHES]
    return Table(headers, tuple(lines), (*taught, *empty_cells(headers[1:], lines)))


def _beside(endpoint: str, figures: Mapping[str, article.Held]) -> Iterator[Line]:
    for threads, held in figures.items():
        cells = tuple(Shown(column.beside(held)) for column in COLUMNS)
        yield Line(f"{endpoint}: article, {threads} (JVM)", cells, of_article=True)


def _sixth(found: Sequence[Deadlock]) -> Table:
    headers = (SIXTH, "what became of it", "as expected", "holder", "first waiter")
    lines = tuple(
        Line(
            each.target,
            (
                Shown(each.outcome),
                Shown("yes" if each.as_expected else "NO"),
                Shown(each.holder.at if each.holder else EMPTY),
                Shown(each.waiters[0].at if each.waiters else EMPTY),
            ),
        )
        for each in found
    )
    return Table(headers, lines, (OF_SIXTH,))
