"""What a pod's pin monitor left in its metrics directory: counts by handler, and the stacks that it caught.

servers/pins.py counts, servers/metrics.py writes, over a process's whole life. So a run's pins are those of all
its requests, warm-up and drain included. A stack names files from the repository or from the library on, so that
the same pin is the same evidence on every machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness import gauges
from harness.run import HandlerPins, Stack
from harness.spelling import ROOT

COUNT, SECONDS = "server_pins_total", "server_pinned_seconds_total"
STACKS = 3  # kept of a handler: the ones that were caught first

_SAMPLE = re.compile(r'(?P<metric>\w+)\{handler="(?P<handler>.*)"\}', re.DOTALL)
_BEFORE_LIBRARY = re.compile(r"^.*/(?=(?:site-packages|python3\.\d+)/)")


def read(directory: Path) -> dict[str, HandlerPins]:
    """By handler, the most frequent first, without `per_request`; empty where no monitor ran or it saw none."""
    counted = _counted(gauges.read(directory))
    caught = _caught(directory)
    found = {
        handler: HandlerPins(
            count=round(figures.get(COUNT, 0.0)),
            seconds=figures.get(SECONDS, 0.0),
            stacks=tuple(caught.get(handler, ())[:STACKS]),
        )
        for handler, figures in counted.items()
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1].count, item[0])))


def place(text: str) -> str:
    """A frame ("file:line function") without what is this machine's own in front of it."""
    return _BEFORE_LIBRARY.sub("", text.removeprefix(f"{ROOT}/"))


def _counted(samples: Mapping[str, float]) -> dict[str, dict[str, float]]:
    counted: dict[str, dict[str, float]] = {}
    for name, value in samples.items():
        match = _SAMPLE.fullmatch(name)
        if match and match["metric"] in (COUNT, SECONDS):
            counted.setdefault(match["handler"], {})[match["metric"]] = value
    return counted


def _caught(directory: Path) -> dict[str, list[Stack]]:
    caught: dict[str, list[Stack]] = {}
    for evidence in _evidence(directory.glob("pins_*.jsonl")):
        stacks = caught.setdefault(str(evidence["handler"]), [])
        stack = tuple(map(place, evidence["stack"]))
        if stack not in stacks:
            stacks.append(stack)
    return caught


def _evidence(files: Iterable[Path]) -> Iterable[dict[str, list[str]]]:
    for file in sorted(files):
        for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):  # the last one may be half written
                yield json.loads(line)
