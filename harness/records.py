"""What a run leaves: run.json, requests.parquet, samples.parquet and logs in one directory, or nothing.

A run is written in a hidden staging directory and gets its name by one rename when all of it is on the disk:
a reader never meets half a run. Valid runs go to results/runs/, invalid and broken ones to results/
discarded/, each with its reason as a line of the README there.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy.typing as npt
import pyarrow.parquet as pq
from pyarrow.lib import ArrowException, Table

from harness import files
from harness.errors import MeasurementError
from harness.run import Run

Column = npt.NDArray[Any]

RUN, REQUESTS, SAMPLES = "run.json", "requests.parquet", "samples.parquet"
WORD = 60  # of a target or scenario in a run's name, which is a file name
SCRATCH = "scratch"  # in a staging directory: what a run needs while it runs, and nobody afterwards
_UNREADABLE = files.Refusal(
    MeasurementError,
    absent="no run here ({why}); give a directory of results/runs/",
    foreign="not a run's record: {why}; discard it and run again",
    other_version="read it with the commit that wrote it (source.commit), or run again",
)
_README = "# Discarded runs\n\nInvalid or broken, and why. None of them enters a table.\n\n"


def new_id(target: str, scenario: str, created: datetime) -> str:
    """A run's name: sorts by time (UTC), says what was run, is safe in a path; `created` knows its zone."""
    words = (
        re.sub(r"[^A-Za-z0-9_]+", "-", word)[:WORD].strip("-") or "unnamed" for word in (target, scenario)
    )
    return "-".join((created.astimezone(UTC).strftime("%Y%m%dT%H%M%S"), *words, secrets.token_hex(2)))


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of run.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Run)}


def stage(results: Path, run_id: str) -> Path:
    """Create the hidden directory in which run `run_id` is written; raises MeasurementError."""
    staging = results / "runs" / f".{run_id}.partial"
    try:
        staging.mkdir(parents=True)
    except OSError as error:
        raise MeasurementError(f"{staging}: cannot create the run's directory: {error}") from error
    return staging


def write_run(staging: Path, run: Run, requests: Mapping[str, Column], samples: Mapping[str, Column]) -> None:
    """Write the three files of a run into `staging`; raises MeasurementError, as on a full disk.

    `requests` and `samples` map a column's name to a one-dimensional array; all of one table have one length.
    """
    try:
        for name, columns in ((REQUESTS, requests), (SAMPLES, samples)):
            pq.write_table(Table.from_pydict(dict(columns)), staging / name, compression="zstd")
        (staging / RUN).write_bytes(files.encode(run))
    except (OSError, ArrowException) as error:
        raise MeasurementError(
            f"{staging}: the run could not be written: {error}; free some space?"
        ) from error


def publish(staging: Path, *, discarded: str | None = None) -> Path:
    """Give the staged run its name in results/runs/, or in results/discarded/ with the reason `discarded`.

    All is on the disk before the rename. Returns the new directory; raises MeasurementError.
    """
    run_id = staging.name.removeprefix(".").removesuffix(".partial")
    results = staging.parent.parent
    home = results / ("runs" if discarded is None else "discarded")
    try:
        home.mkdir(exist_ok=True)
        shutil.rmtree(staging / SCRATCH, ignore_errors=True)
        for path in (*staging.rglob("*"), staging):
            _sync(path)
        staging.rename(home / run_id)
        _sync(home)
        if discarded is not None:
            _note(home / "README.md", run_id, discarded)
    except OSError as error:
        raise MeasurementError(f"{staging}: publishing it as {home / run_id} failed: {error}") from error
    return home / run_id


def read_run(path: Path) -> Run:
    """The record in a run's directory (or in its run.json); raises MeasurementError saying what to do."""
    return files.read(path / RUN if path.is_dir() else path, Run, _UNREADABLE, Run.VERSION)


def read_requests(path: Path) -> dict[str, Column]:
    """The columns of a run's requests.parquet, one entry per request; raises MeasurementError."""
    return _read_table(path / REQUESTS)


def read_samples(path: Path) -> dict[str, Column]:
    """The columns of a run's samples.parquet, one entry per second; raises MeasurementError."""
    return _read_table(path / SAMPLES)


def _read_table(file: Path) -> dict[str, Column]:
    try:
        table = pq.read_table(file)
    except (OSError, ArrowException) as error:
        raise MeasurementError(f"{file}: not readable: {error}; discard the run and run again") from None
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _note(readme: Path, run_id: str, reason: str) -> None:
    with readme.open("a", encoding="utf-8") as lines:
        if lines.tell() == 0:
            lines.write(_README)
        lines.write(f"- {run_id}: {' '.join(reason.split())}\n")
