"""A sweep: one key of a scenario over several values, everything else being equal. Pure.

A scenario with a table [sweep] is itself one point of it: `harness run` makes one run of the file as it stands,
`harness sweep` one of each value against each target. A value is the axis' own, or where other keys have to
change along with it (a longer wait needs a longer window) a table of all of them, spelled as in the file:

    [sweep]
    axis = "upstream.llm"
    targets = ["asyncio"]
    values = [
      { upstream.llm = "1 s", load.warmup = "1.1 s", load.window = "5 s" },
    ]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from harness.spelling import Source


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is varied, a dotted key as of --set; over which values; against which targets."""

    axis: Annotated[str, Meta(pattern=r"^\w+(\.\w+)+$")]
    values: Annotated[tuple[str | int | float | dict[str, Any], ...], Meta(min_length=1)]
    targets: Annotated[tuple[str, ...], Meta(min_length=1)]


class Point(NamedTuple):
    """One value: its name ("pod.threads=50"), where it stands, and the tables that it changes."""

    name: str
    path: str
    changes: Mapping[str, Any]


def points(sweep: Sweep) -> list[Point]:
    """The sweep's values in their order."""
    found = []
    for place, value in enumerate(sweep.values):
        changes = value if isinstance(value, dict) else _nested(sweep.axis, value)
        name = f"{sweep.axis}={_value(sweep.axis, changes)}"
        found.append(Point(name, f"sweep.values[{place}]", changes))
    return found


def check(sweep: Sweep, source: Source) -> None:
    """Raise ScenarioError for a value that does not set the axis, or sets it as another one does."""
    names = set()
    for point in points(sweep):
        if _value(sweep.axis, point.changes) is None:
            raise source.refuse(point.path, f"sets no {sweep.axis}, which is the sweep's axis; add it")
        if point.name in names:
            raise source.refuse(point.path, f"{point.name} is there twice; leave one out")
        names.add(point.name)


def _nested(key: str, value: object) -> dict[str, Any]:
    table, _, rest = key.partition(".")
    return {table: _nested(rest, value) if rest else value}


def _value(key: str, tables: Mapping[str, Any]) -> object:
    """What stands at a dotted key; None if nothing does."""
    found: object = tables
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
