"""How long `harness report` takes, start of Python included, on copies of the valid runs that there are."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness import files, records
from harness.errors import MeasurementError
from harness.report.load import Stored, load

RUNS = 40


class Timed(NamedTuple):
    """Seconds, or None where nothing could be timed; `note` says of what, or why not."""

    seconds: float | None
    note: str


def time_report(results: Path) -> Timed:
    """Time the report of RUNS runs: the valid ones in `results`, repeated under ids of their own.

    Raises MeasurementError where the report fails.
    """
    valid = load(results).valid
    if not valid:
        return Timed(None, "no valid run to copy")
    with tempfile.TemporaryDirectory() as scratch:
        for number, stored in enumerate(islice(cycle(valid), RUNS)):
            _copy(stored, number, Path(scratch) / "runs")
        seconds = _seconds(Path(scratch))
    return Timed(seconds, f"copies of {len(valid)} runs")


def _copy(stored: Stored, number: int, home: Path) -> None:
    run = msgspec.structs.replace(stored.run, id=f"{stored.run.id[:-4]}{number:04x}")
    shutil.copytree(stored.directory, home / run.id)
    files.write(home / run.id / records.RUN, files.encode(run))


def _seconds(results: Path) -> float:
    command = (sys.executable, "-m", "harness.cli", "report", "--results", str(results))
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasurementError(f"the report to be timed failed: {done.stderr.strip()}")
    return time.perf_counter() - started
