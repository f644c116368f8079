"""How figures look: one palette, one print size, labels at the lines instead of a legend.

- Okabe and Ito's colours, which stay apart for colour-blind readers (without its yellow, too pale for a line on
  white). Colour says the target; marker and line style say the condition too, so that a copy in grey still
  reads, and so does a line on top of another.
- Labels are in ink and only their marker has the line's colour: pale text cannot be read.
- Names are data, never mark-up: mathematics in text is off. Files are the same bytes for the same runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter

from harness.report.curves import spread
from harness.report.metrics import given

INK, PALE = "#222222", "#8a8a8a"
WIDTH_IN = 7.0
SAVED_DPI = 160

_COLOURS: Mapping[str, str] = {
    "threadpool": "#D55E00",
    "asyncio": "#0072B2",
    "trio": "#009E73",
    "gevent": "#CC79A7",
}
_OTHER_COLOURS = ("#E69F00", "#56B4E9", "#000000", "#7F7F7F")
_MARKERS = "osD^vPX*"
_LINES = ("-", "--", "-.", ":")

_RC: Any = {  # matplotlib types each name of its settings
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure on every machine
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "pods-per-lambda",
}

_METADATA: Mapping[str, Mapping[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
}


@dataclass(frozen=True)
class Look:
    """How one condition is drawn."""

    color: str
    marker: str
    line: str
    hollow: bool = False

    @property
    def kwargs(self) -> dict[str, Any]:
        """For Axes.plot."""
        face = "none" if self.hollow else self.color
        return {"color": self.color, "marker": self.marker, "linestyle": self.line, "markerfacecolor": face}


class End(NamedTuple):
    """Where a line ends, in data, and what to call it there."""

    height: float
    text: str
    look: Look


OF_ARTICLE = Look(INK, "D", ":", hollow=True)


def applied() -> AbstractContextManager[None]:
    """The style, for the figures made and saved inside."""
    return mpl.rc_context(_RC)


def looks(conditions: Sequence[tuple[str, str]]) -> dict[str, Look]:
    """A look for each (target, label): colour by target, marker and line style by place."""
    targets = {target for target, _ in conditions}
    free = [*_OTHER_COLOURS, *(color for target, color in _COLOURS.items() if target not in targets)]
    others = zip(sorted(targets - _COLOURS.keys()), cycle(free), strict=False)
    colors = {**_COLOURS, **dict(others)}
    return {
        label: Look(colors[target], _MARKERS[i % len(_MARKERS)], _LINES[i % len(_LINES)])
        for i, (target, label) in enumerate(conditions)
    }


def short(text: str, characters: int = 34) -> str:
    """A label that fits beside a figure, or above a panel."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def label_lines(axes: Axes, ends: Iterable[End]) -> None:
    """Labels at the right edge, each at the height (in data) where its line ends, none over another.

    To be called when the limits and scale of the axes are final.
    """
    ends = list(ends)
    gap = _points(axes, "height", 1.4 * mpl.rcParams["font.size"])
    bend, mark, word = (1 + _points(axes, "width", points) for points in (4, 9, 15))
    to_axes = axes.transData + axes.transAxes.inverted()
    left = axes.get_xlim()[0]
    heights = [min(max(float(to_axes.transform((left, y))[1]), 0.0), 1.0) for y, _, _ in ends]
    free: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
    for (_, text, look), place, height in zip(ends, spread(heights, gap, 0.0, 1.0), heights, strict=True):
        axes.plot(
            [1.0, bend, mark], [height, place, place], color=look.color, linewidth=0.7, marker="", **free
        )
        axes.plot([mark], [place], **{**look.kwargs, "linestyle": ""}, **free)
        axes.annotate(
            short(text), (word, place), xycoords="axes fraction", va="center", annotation_clip=False
        )


def _points(axes: Axes, along: str, points: float) -> float:
    """Typographic points as a share of the axes, as far as that is known before the layout."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width_in, height_in = figure.get_size_inches() * axes.get_position().size
    return float(points / 72 / max(width_in if along == "width" else height_in, 0.1))


def plain_ticks(axis: Axis) -> None:
    """Numbers as people write them; on a short logarithmic axis also at 2 and 5, or it would have one number."""

    def between(value: float, _: int) -> str:
        low, high = axis.get_view_interval()
        return given(value) if high / low < 100 and f"{value:.0e}"[0] in "25" else ""

    axis.set_major_formatter(FuncFormatter(lambda value, _: given(value)))
    if axis.get_scale() == "log":
        axis.set_minor_formatter(FuncFormatter(between))


def wide(low: float, high: float) -> bool:
    """Whether a positive range is better seen on a logarithmic axis."""
    return low > 0 and math.isfinite(high) and high / low > 20


def fit_height(axes: Axes, heights: Sequence[float]) -> None:
    """An axis that begins at 0, so that a height is a share, but for a wide range: that is logarithmic.

    Where a wide range goes below 0, it is linear up to 1 and logarithmic beyond.
    """
    low, high = min(heights), max(heights)
    if wide(low, high):
        axes.set_yscale("log")
    elif low >= 0:
        axes.set_ylim(0, 1.12 * high or 1.0)
    elif wide(1.0, high):
        axes.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    plain_ticks(axes.yaxis)


def sheet(height_in: float) -> Figure:
    """An empty figure as wide as all."""
    return Figure(figsize=(WIDTH_IN, height_in))


def rendered(figure: Figure) -> dict[str, bytes]:
    """The figure as "png" and "svg"; without date or version, so that the same runs give the same bytes."""
    # Laid out once, by hand: a figure with an engine of its own is laid out and drawn twice for each file.
    ConstrainedLayoutEngine().execute(figure)
    return {kind: _saved(figure, kind, metadata) for kind, metadata in _METADATA.items()}


def _saved(figure: Figure, kind: str, metadata: Mapping[str, None]) -> bytes:
    out = BytesIO()
    figure.savefig(out, format=kind, dpi=SAVED_DPI, metadata=metadata)
    return out.getvalue()
