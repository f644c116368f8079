"""The harness's end of the load generator: the events on its pipe, and the columns that it leaves."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.errors import GeneratorError
from harness.generator import ledger
from harness.program import Program
from harness.scenario import Load

STOP_S = 3.0


class Events:
    """The generator's events, read by a thread so that nobody waits on a pipe for ever."""

    def __init__(self, generator: Program) -> None:
        self._generator = generator
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="generator-events", daemon=True).start()

    def _read(self) -> None:
        assert self._generator.stdout is not None
        try:
            for line in self._generator.stdout:
                self._lines.put(line)
        except ValueError:
            pass  # the pipe was closed under us: the run is over
        self._lines.put(None)

    def go(self) -> None:
        assert self._generator.stdin is not None
        self._generator.stdin.write("go\n")
        self._generator.stdin.flush()

    def next(self, timeout_s: float) -> Mapping[str, Any] | None:
        """The next event, None if there is none in time; raises GeneratorError for "error" and for the end."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if line is None:
            self._generator.wait(STOP_S)
            raise self._generator.failure("ended before the load did")
        event: Mapping[str, Any] = msgspec.json.decode(line)
        if event["event"] == "error":
            raise GeneratorError(f"the generator stopped: {event['reason']}: {event['detail']}")
        return event

    def expect(self, name: str, timeout_s: float) -> Mapping[str, Any]:
        event = self.next(timeout_s)
        if event is None or event["event"] != name:
            raise self._generator.failure(f'did not say "{name}" within {timeout_s:g} s')
        return event


def read_columns(files: list[Path]) -> dict[str, Any]:
    """All workers' columns as one table in the order of the schedule; outcomes and reasons as words."""
    parts = [ledger.unpack(file.read_bytes()) for file in files]
    columns = {
        field.name: np.concatenate([np.array(getattr(part, field.name)) for part in parts])
        for field in fields(ledger.Columns)
    }
    order = np.argsort(columns["sequence"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    for name, words in (("outcome", ledger.OUTCOMES), ("reason", ledger.REASONS)):
        columns[name] = np.array(words)[columns[name]]
    return columns


def with_phase(columns: dict[str, Any], load: Load) -> dict[str, Any]:
    """The columns, and one that says in which phase each request was due: "warmup" or "window"."""
    inside = columns["due_s"] >= load.warmup_s
    return columns | {"phase": np.where(inside, "window", "warmup")}
