"""Reads what runs left on the disk: the valid ones whole, of the discarded ones the name and the reason.

A run enters a report only if it lies in results/runs/, can be read and judged itself valid; everything else is
discarded, and is counted with its reason instead of left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pyarrow.lib import ArrowException

from harness import records
from harness.errors import MeasurementError
from harness.run import Run

Floats = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[Any]]

GC = "gc.parquet"
_ID = re.compile(r"\d{8}T\d{6}-(?P<words>.+)-[0-9a-f]{4}")
_NOT_A_WORD = re.compile(r"[^A-Za-z0-9_]+")
_REASON = re.compile(r"- (?P<id>[^:]+): (?P<reason>.*)")


@dataclass(frozen=True)
class Stored:
    """A valid run and the directory that holds its columns."""

    run: Run
    directory: Path

    def requests(self) -> Columns | None:
        """One entry per request, offsets in seconds from t0; None if they were not kept (reference.py).

        Raises MeasurementError where they cannot be read.
        """
        return records.read_requests(self.directory) if self.has_requests else None

    @property
    def has_requests(self) -> bool:
        """Whether the requests were kept."""
        return (self.directory / records.REQUESTS).exists()

    def samples(self) -> Columns:
        """One entry per second, `t_s` in seconds from t0; raises MeasurementError."""
        return records.read_samples(self.directory)

    def collections(self) -> Columns | None:
        """Garbage collections: end_s (from t0), pause_s, generation; None if the run stored none."""
        file = self.directory / GC
        if not file.exists():
            return None
        try:
            table = pq.read_table(file)
        except (OSError, ArrowException) as error:
            raise MeasurementError(f"{file}: not readable: {error}; discard the run and run again") from None
        return {name: table.column(name).to_numpy() for name in table.column_names}


@dataclass(frozen=True)
class Discarded:
    """A run that does not count, and why; `run` is None where it left no record."""

    id: str
    reason: str
    run: Run | None = None

    def is_of(self, scenario: str) -> bool:
        """Whether it was a run of this scenario; without a record its id tells (records.new_id)."""
        if self.run is not None:
            return self.run.scenario.name == scenario
        words = _ID.fullmatch(self.id)
        return words is not None and words["words"].endswith("-" + _NOT_A_WORD.sub("-", scenario))


@dataclass(frozen=True)
class Shelf:
    """All runs under one results directory, the oldest first."""

    valid: tuple[Stored, ...]
    discarded: tuple[Discarded, ...]

    def scenarios(self) -> list[str]:
        """Names of the scenarios with a valid run, sorted."""
        return sorted({stored.run.scenario.name for stored in self.valid})


def load(results: Path) -> Shelf:
    """Read results/runs/ and results/discarded/; what cannot be read is discarded, not an error."""
    valid, discarded = [], _discarded(results)
    for directory in _directories(results / "runs"):
        try:
            run = records.read_run(directory)
        except MeasurementError as error:
            discarded.append(Discarded(directory.name, str(error).replace(f"{directory}/", "")))
            continue
        if run.verdict.valid:
            valid.append(Stored(run, directory))
        else:
            discarded.append(Discarded(run.id, run.verdict.reason or "invalid", run))
    return Shelf(
        tuple(sorted(valid, key=lambda stored: (stored.run.created, stored.run.id))),
        tuple(sorted(discarded, key=lambda item: item.id)),
    )


def latencies_s(run: Run, requests: Columns) -> Floats:
    """Latency from the due time of the completed requests that were due inside the window, unsorted."""
    due = requests["due_s"]
    inside = (due >= run.phases.window_start_s) & (due < run.phases.window_end_s)
    counted = inside & (requests["outcome"] == "ok")
    return np.asarray((requests["done_s"] - due)[counted], dtype=np.float64)


def _discarded(results: Path) -> list[Discarded]:
    home = results / "discarded"
    reasons = _reasons(home / "README.md")
    names = {directory.name for directory in _directories(home)}
    return [
        Discarded(name, reasons.get(name, "no reason was written down"), _record(home / name))
        for name in sorted(names | reasons.keys())
    ]


def _record(directory: Path) -> Run | None:
    try:
        return records.read_run(directory)
    except MeasurementError:
        return None


def _reasons(readme: Path) -> dict[str, str]:
    lines = readme.read_text(encoding="utf-8").splitlines() if readme.exists() else []
    return {match["id"]: match["reason"] for line in lines if (match := _REASON.fullmatch(line))}


def _directories(home: Path) -> list[Path]:
    if not home.is_dir():
        return []
    return sorted(path for path in home.iterdir() if path.is_dir() and not path.name.startswith("."))
