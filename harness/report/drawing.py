"""What all figures share: which rows they show, how these look, and lines of estimates with their intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report import style
from harness.report.conditions import printable, varying
from harness.report.rows import Chapter, Row
from harness.report.style import Look
from harness.statistics import Estimate

SHOWN_MAX = 8

Points = list[tuple[float, Estimate]]  # (x, estimate of y)


@dataclass(frozen=True)
class Drawing:
    """A figure to be saved as `slug`; the caption says what to see in it."""

    slug: str
    title: str
    caption: str
    figure: Figure


def shown_rows(chapter: Chapter) -> list[Row]:
    """What a figure of all conditions shows: all of them, or where they are too many one of each target.

    That is its plainest, in the setting (W, arrivals, machine …) in which most runs were made.
    """
    if len(chapter.rows) <= SHOWN_MAX:
        return list(chapter.rows)
    settings = Counter(row.condition.facts for row in chapter.rows for _ in row.runs)
    usual, _ = settings.most_common(1)[0]
    first: dict[str, Row] = {}
    for row in sorted(chapter.rows, key=lambda row: row.condition.facts != usual):
        first.setdefault(row.condition.target, row)
    shown = [row for row in chapter.rows if first[row.condition.target] is row][:SHOWN_MAX]
    names = varying(row.condition for row in shown)
    return [replace(row, label=row.condition.label(names)) for row in shown]


def left_out(chapter: Chapter) -> str:
    """The end of a caption: what `shown_rows` leaves to the table, "" if nothing."""
    shown = [row.condition for row in shown_rows(chapter)]
    missing = len(chapter.rows) - len(shown)
    if not missing:
        return ""
    unsaid = set(varying(row.condition for row in chapter.rows)) - set(varying(shown))
    setting = ", ".join(f"{name} = {text}" for name, text in shown[0].facts if name in unsaid)
    at = f", at {printable(setting)}" if setting else ""
    more = "one more condition is" if missing == 1 else f"{missing} more conditions are"
    return f" Shown: one condition of each target{at}; {more} in the table."


def not_kept(chapter: Chapter) -> str:
    """The end of a caption, where a figure is made of requests that some runs came without; "" if none did."""
    cells = [cell for row in shown_rows(chapter) for cell in (row.steady, row.saturated) if cell]
    runs = [stored for cell in cells for stored in cell.stored]
    missing = sum(not stored.has_requests for stored in runs)
    return f" Of {missing} of these {len(runs)} runs the requests were not kept." if missing else ""


def row_looks(rows: Sequence[Row]) -> dict[str, Look]:
    """A look for each row, by label."""
    return style.looks([(row.condition.target, row.label) for row in rows])


def draw_lines(axes: Axes, lines: Iterable[tuple[Points, str, Look]], factor: float) -> list[style.End]:
    """Draw named lines of estimates, scaled by `factor`, and fit the axis to them; where each one ends."""
    ends, heights = [], []
    for points, name, look in lines:
        known = [(x, estimate) for x, estimate in points if estimate.value is not None]
        if not known:
            continue
        y = [(estimate.value or 0.0) * factor for _, estimate in known]
        axes.plot([x for x, _ in known], y, **look.kwargs)
        for x, estimate in known:
            if estimate.low is not None and estimate.high is not None:
                axes.vlines(x, estimate.low * factor, estimate.high * factor, color=look.color, linewidth=1.2)
        ends.append(style.End(y[-1], name, look))
        heights += y
    if heights:
        style.fit_height(axes, heights)
    return ends
