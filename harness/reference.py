"""Reference results: of results/runs the little that is kept in git, for reports and the notebook to read.

- Of each condition, at each rate, the newest valid runs: record and samples.
- Requests are what is large. Only the run that figures show (Cell.typical, at the condition's highest rate and
  saturated) keeps them, and its collections; and of the requests only what figures are made of, with times to a
  millionth of a second.
- No record names a path of the machine that made it.
- A set replaces the one before as a whole: what is not chosen again is gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
from pyarrow.lib import ArrowException, Table

from harness import files, records
from harness.errors import MeasurementError, ScenarioError
from harness.report.conditions import Registry, printable
from harness.report.load import GC, Columns, Stored, load
from harness.report.metrics import given
from harness.report.rows import Cell, chapters
from harness.run import Run

HOME = "reference"  # in the results directory, and laid out as it is
TIMES = ("due_s", "sent_s", "done_s")
STEPS_PER_S = 2**20  # a power of two: the digits that go are zeros then, which take no room
NOTE = "requests.parquet: outcome and times to 1 µs, other columns left out (harness reference)"


@dataclass(frozen=True)
class Kept:
    """Repeats that are kept; `shown` is the one that figures show, with its requests."""

    cell: Cell
    shown: Stored | None

    @property
    def line(self) -> str:
        """One line for people."""
        condition, count = self.cell.condition, len(self.cell.stored)
        requests = f", requests of {self.shown.run.id}" if self.shown else ""
        name = f"{printable(condition.scenario)}: {condition.label()}, λ = {given(self.cell.rate_rps)}/s"
        return f"{name}: {count} run{'s' * (count > 1)}{requests}"


@dataclass(frozen=True)
class Made:
    """What a set holds, how large it is, and which runs of the set before are not in it."""

    kept: tuple[Kept, ...]
    size_bytes: int
    gone: tuple[str, ...]

    @property
    def line(self) -> str:
        """One line for people."""
        count = sum(len(each.cell.stored) for each in self.kept)
        gone = f"; no longer kept: {', '.join(self.gone)}" if self.gone else ""
        return f"{count} runs, {self.size_bytes / 1e6:.1f} MB{gone}"


def make(
    results: Path, registry: Registry, scenarios: Collection[str], repeats: int, requests_of: Collection[str]
) -> Made:
    """Put the newest `repeats` runs of each condition in the place of the set before.

    `scenarios`: those to keep, all if empty; `requests_of`: those of which figures made of requests are wanted.
    Raises ScenarioError for a scenario without a valid run, MeasurementError where nothing can be kept or
    written; the set before is then as it was.
    """
    kept = choose(results, registry, scenarios, repeats, requests_of)
    home = results / HOME / "runs"
    staging = home.with_name(".runs.partial")
    before = {path.name for path in home.iterdir()} if home.is_dir() else set()
    try:
        shutil.rmtree(staging, ignore_errors=True)
        for each in kept:
            for stored in each.cell.stored:
                _write(stored, staging / stored.run.id, with_requests=stored is each.shown)
        size_bytes = sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
        _swap(staging, home)
    except (OSError, ArrowException) as error:
        raise MeasurementError(f"{home}: the reference runs could not be written: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    now = {stored.run.id for each in kept for stored in each.cell.stored}
    return Made(tuple(kept), size_bytes, tuple(sorted(before - now)))


def choose(
    results: Path, registry: Registry, scenarios: Collection[str], repeats: int, requests_of: Collection[str]
) -> list[Kept]:
    """What `make` keeps, as the report orders it; raises as that does."""
    shelf = load(results)
    known = shelf.scenarios()
    if not known:
        raise MeasurementError(f"{results / 'runs'}: no valid run to keep; make one first: make bench-all")
    for name in scenarios:
        if name not in known:
            raise ScenarioError(f"{name}: no valid run in {results / 'runs'}, only of {', '.join(known)}")
    return [
        _newest(cell, repeats, chapter.scenario in requests_of and cell in (row.steady, row.saturated))
        for chapter in chapters(shelf, registry)
        if not scenarios or chapter.scenario in scenarios
        for row in chapter.rows
        for cell in (*row.rates, row.saturated)
        if cell
    ]


def portable(run: Run, notes: Sequence[str] = ()) -> Run:
    """The record without paths of its machine: of an absolute one, what it leads to; `notes` are added."""
    argv = tuple(Path(word).name if word.startswith("/") else word for word in run.target.argv)
    target = msgspec.structs.replace(run.target, argv=argv)
    return msgspec.structs.replace(run, target=target, notes=(*run.notes, *notes))


def _newest(cell: Cell, repeats: int, with_requests: bool) -> Kept:
    newest = replace(cell, stored=cell.stored[-repeats:])
    typical = newest.typical()
    return Kept(newest, typical if with_requests and typical.has_requests else None)


def _write(stored: Stored, home: Path, *, with_requests: bool) -> None:
    home.mkdir(parents=True)
    requests = stored.requests() if with_requests else None
    shutil.copyfile(stored.directory / records.SAMPLES, home / records.SAMPLES)
    if requests is not None:
        _write_requests(requests, home / records.REQUESTS)
        if (stored.directory / GC).exists():
            shutil.copyfile(stored.directory / GC, home / GC)
    run = portable(stored.run, () if requests is None else (NOTE,))
    files.write(home / records.RUN, files.encode(run))


def _write_requests(requests: Columns, file: Path) -> None:
    columns = {name: np.round(requests[name] * STEPS_PER_S) / STEPS_PER_S for name in TIMES}
    pq.write_table(
        Table.from_pydict({**columns, "outcome": requests["outcome"]}),
        file,
        compression="zstd",
        compression_level=19,
        use_dictionary=["outcome"],
        column_encoding=dict.fromkeys(TIMES, "BYTE_STREAM_SPLIT"),
    )


def _swap(new: Path, old: Path) -> None:
    aside = old.with_name(".runs.before")
    shutil.rmtree(aside, ignore_errors=True)
    if old.exists():
        old.rename(aside)
    new.rename(old)
    shutil.rmtree(aside, ignore_errors=True)
