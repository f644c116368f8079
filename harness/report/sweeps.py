"""A metric against an option: what one knob does, everything else being equal.

A line joins conditions that differ in the axis alone; where the rate is part of "else", they also share it. A figure
exists for an axis with at least two values on one line. A scenario that is a sweep is about its own axis only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.axes import Axes

from harness.report import style
from harness.report.axes import AXES, Axis, Line, Reference, Value, swept
from harness.report.conditions import Condition, varying
from harness.report.drawing import SHOWN_MAX, Drawing, Points, draw_lines
from harness.report.metrics import METRICS, given
from harness.report.rows import Cell, Chapter, Row
from harness.report.style import PALE, Look, label_lines
from harness.report.tables import Table, of_sweep
from harness.statistics import Estimate

PANEL_IN = 1.8
REFERENCE = Look(PALE, "", ":")


def is_of(chapter: Chapter) -> bool:
    """Whether the chapter's scenario is a sweep, over an axis that is drawn."""
    return swept(chapter) is not None


def tables(chapter: Chapter, _: Path) -> dict[str, Table]:
    """The metrics that the figure of a sweep shows."""
    axis = swept(chapter)
    return {} if axis is None else {"sweep": of_sweep(chapter, axis)}


def drawing(chapter: Chapter) -> list[Drawing]:
    """The figure that a sweep was made for, and no other."""
    axis = swept(chapter)
    found = None if axis is None else against(chapter, axis)
    return [] if found is None else [found]


def drawings(chapter: Chapter) -> list[Drawing]:
    """A drawing for each axis that some conditions of the chapter differ in."""
    return [drawing for axis in AXES if (drawing := against(chapter, axis)) is not None]


def against(chapter: Chapter, axis: Axis) -> Drawing | None:
    """The metrics of `axis` against it, a panel each; None where no line has two points."""
    places = _places(chapter.rows, axis)
    panels = {key: found for key in axis.metrics if (found := lines(chapter.rows, axis, key, places))}
    if not panels:
        return None
    figure = style.sheet(0.5 + PANEL_IN * len(panels))
    grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (key, found) in zip(grid, panels.items(), strict=True):
        _panel(axes, axis, key, found)
    _ticks(grid[-1], axis, places)
    grid[-1].set_xlabel(axis.label)
    return Drawing(f"sweep-{axis.slug}", axis.title, axis.caption, figure)


def lines(rows: Sequence[Row], axis: Axis, key: str, places: Mapping[Value, float]) -> list[Line]:
    """The lines of one metric that have at least two points."""
    grouped: dict[tuple[Condition, float | None], dict[float, Estimate]] = {}
    for row in rows:
        value = axis.value(row.condition)
        if value is None:
            continue
        for cell in _cells(row, axis, key):
            estimate = cell.figure(key)
            if estimate.value is not None:
                held = None if axis.own_rate or key == "rate_max_rps" else cell.rate_rps
                # Rows come with fewer workers first: of two at one value, the leaner pod speaks for it.
                grouped.setdefault((_else(axis, cell), held), {}).setdefault(places[value], estimate)
    return [
        Line(condition, rate, sorted(points.items(), key=lambda point: point[0]))
        for (condition, rate), points in grouped.items()
        if len(points) > 1
    ][:SHOWN_MAX]


def _cells(row: Row, axis: Axis, key: str) -> Sequence[Cell]:
    if key == "rate_max_rps":
        return [row.saturated] if row.saturated else []
    if axis.own_rate:
        return [row.source] if row.source else []
    return row.rates


def _else(axis: Axis, cell: Cell) -> Condition:
    """Everything but the axis; a number of workers that was chosen to fit is no choice, and no difference."""
    chosen = any(run.scenario.pod.workers != "auto" for run in cell.runs)
    return axis.without(cell.condition if chosen else replace(cell.condition, workers=0, pool=None))


def _places(rows: Sequence[Row], axis: Axis) -> dict[Value, float]:
    """Where a value stands: a number at itself, a word at its rank among the words, as they come."""
    values = dict.fromkeys(value for row in rows if (value := axis.value(row.condition)) is not None)
    if all(isinstance(value, (int, float)) for value in values):
        return {value: float(value) for value in values}
    return {value: float(rank) for rank, value in enumerate(values)}


def _panel(axes: Axes, axis: Axis, key: str, found: Sequence[Line]) -> None:
    metric = METRICS[key]
    names, settings = _names(found), {(line.condition.w_s, line.rate_rps) for line in found}
    references = [r for r in axis.references if r.key == key and len(settings) == 1]
    looks = style.looks([(line.condition.target, name) for line, name in zip(found, names, strict=True)])
    drawn = [(line.points, name, looks[name]) for line, name in zip(found, names, strict=True)]
    drawn += [(_points_of(reference, found), reference.text, REFERENCE) for reference in references]
    ends = draw_lines(axes, drawn, metric.unit.factor)
    axes.set_ylabel(f"{metric.title}\n({metric.unit.name})" if metric.unit.name else metric.title)
    label_lines(axes, ends)


def _names(found: Sequence[Line]) -> list[str]:
    apart = varying(line.condition for line in found)
    several_rates = len({line.rate_rps for line in found}) > 1
    return [
        line.condition.label(apart) + (f" λ={line.rate_rps:g}/s" if several_rates and line.rate_rps else "")
        for line in found
    ]


def _points_of(reference: Reference, found: Sequence[Line]) -> Points:
    places = sorted({x for line in found for x, _ in line.points})
    return [(x, Estimate(reference.at(x, found[0]), None, None)) for x in places]


def _ticks(axes: Axes, axis: Axis, places: Mapping[Value, float]) -> None:
    at = sorted(set(places.values()))
    if style.wide(min(at), max(at)):
        axes.set_xscale("log")
    else:
        axes.margins(x=0.5 / len(at))
    words = {place: value if isinstance(value, str) else given(value) for value, place in places.items()}
    axes.set_xticks(at, [style.short(str(words[place])) for place in at])
    axes.set_xticks([], minor=True)
