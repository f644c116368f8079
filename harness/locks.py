"""One run at a time on a machine, and no leftovers of a run that was killed.

Both rest on flock: the kernel lets go of it however a process ends, so no stale lock can exist.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import records
from harness.errors import MeasurementError

KILLED = "the harness was killed before the run ended"


@contextmanager
def machine() -> Iterator[None]:
    """Hold the machine: two runs at once would measure each other. Raises MeasurementError."""
    path = Path(tempfile.gettempdir()) / "pods-per-lambda.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _try(descriptor):
            holder = os.pread(descriptor, 32, 0).decode().strip()
            raise MeasurementError(
                f"another run is measuring on this machine (pid {holder}): wait for it, or stop it"
            )
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def staging(results: Path, run_id: str) -> Iterator[Path]:
    """A run's hidden directory, marked as ours while it is written."""
    path = records.stage(results, run_id)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _try(descriptor)
        yield path
    finally:
        os.close(descriptor)


def discard_orphans(results: Path) -> list[Path]:
    """Move what a killed harness left half written to results/discarded/; the new places."""
    moved = []
    for path in sorted((results / "runs").glob(".*.partial")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if _try(descriptor):
                moved.append(records.publish(path, discarded=KILLED))
        finally:
            os.close(descriptor)
    return moved


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
