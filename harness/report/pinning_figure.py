"""The figure of the pinning lab: throughput and a bystander's wait, each endpoint under each model."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from harness.expected import ENDPOINTS
from harness.held import PROBE_TIMEOUT_S
from harness.report import article, style
from harness.report.drawing import SHOWN_MAX, Drawing
from harness.report.pinning_rows import METRICS, Row, rows
from harness.report.rows import Chapter
from harness.report.style import INK, OF_ARTICLE, PALE, End, Look, label_lines, plain_ticks
from harness.statistics import Estimate

SPREAD = 0.6  # of the place of one endpoint, which its conditions share
DASH = 0.06
CAPTION = (
    "Above: requests a second, medians over runs with their intervals; the dashes are what is expected. Below: how "
    "long a bystander waited beside it, from its median (marker) up to its 99th percentile; at the dotted line, the "
    "time-out of a probe, both are lower bounds. Hollow diamonds are the article's, platform threads on the left of "
    "each endpoint and virtual threads on the right. sync-shared and lock-shared carry the same: what tells them "
    "apart is who else has to wait."
)


def drawings(chapter: Chapter) -> list[Drawing]:
    """None where no endpoint of the lab was asked."""
    found = [row for row in rows(chapter) if row.endpoint in ENDPOINTS]
    labels = list(dict.fromkeys((row.condition.target, row.label) for row in found))[:SHOWN_MAX]
    if not labels:
        return []
    looks, figure = style.looks(labels), style.sheet(5.6)
    above, below = figure.subplots(2, 1, sharex=True)
    below.set_xticks(range(len(ENDPOINTS)), list(ENDPOINTS))
    below.set_xlim(-0.5, len(ENDPOINTS) - 0.5)
    above.set_ylabel(METRICS["throughput_rps"].header)
    below.set_ylabel("bystander's wait (ms)")
    for axes, key in ((above, "throughput_rps"), (below, "bystander_p50_s")):
        axes.grid(visible=False, axis="x")
        axes.set_yscale("log")
        heights = _article(axes, found) if axes is above else []
        ends: list[End] = []
        for nth, (label, look) in enumerate(looks.items()):
            own = [row for row in found if row.label == label]
            drawn = _condition(axes, own, key, SPREAD * ((nth + 0.5) / len(looks) - 0.5), look)
            heights += drawn
            ends += [End(drawn[-1], label, look)] if drawn else []
        _finish(axes, key, heights, ends)
    return [Drawing("held", "What a lock holds", CAPTION, figure)]


def _article(axes: Axes, found: Sequence[Row]) -> list[float]:
    """Its throughput, where it was asked in the same way; the heights."""
    heights = []
    for endpoint, figures in {row.endpoint: row.beside for row in found}.items():
        for side, threads in ((-1, article.PLATFORM), (1, article.VIRTUAL)):
            if threads in figures:
                heights.append(figures[threads].ok / article.PINNING_WINDOW_S)
                x = list(ENDPOINTS).index(endpoint) + side * SPREAD / 2
                axes.plot([x], heights[-1:], **{**OF_ARTICLE.kwargs, "linestyle": ""})
    return heights


def _condition(axes: Axes, own: Sequence[Row], key: str, shift: float, look: Look) -> list[float]:
    """Draw a condition's endpoints, `shift` beside their places; all heights, that of the last marker last."""
    factor = METRICS[key].unit.factor
    heights: list[float] = []
    for row in own:
        x, found = list(ENDPOINTS).index(row.endpoint) + shift, _interval(row, key)
        if key == "throughput_rps" and row.expected is not None:
            axes.hlines(row.expected.throughput_rps * factor, x - DASH, x + DASH, color=INK, linewidth=1.0)
        if found.value is None:
            continue
        if found.low is not None and found.high is not None:
            axes.vlines(x, found.low * factor, found.high * factor, color=look.color, linewidth=1.2)
            heights.append(found.high * factor)
        axes.plot([x], [found.value * factor], **{**look.kwargs, "linestyle": ""})
        heights.append(found.value * factor)
    return heights


def _interval(row: Row, key: str) -> Estimate:
    found = row.figure(key)
    if key != "bystander_p50_s":
        return found
    return Estimate(found.value, found.value, row.figure("bystander_p99_s").value)


def _finish(axes: Axes, key: str, heights: Sequence[float], ends: Sequence[End]) -> None:
    if not heights:
        return
    limit = PROBE_TIMEOUT_S * METRICS[key].unit.factor
    if key == "bystander_p50_s" and max(heights) >= limit:
        axes.axhline(limit, color=PALE, linewidth=0.8, linestyle=":")
    plain_ticks(axes.yaxis)
    label_lines(axes, ends)
