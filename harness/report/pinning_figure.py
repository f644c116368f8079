"""The figure of the pinning lab: throughput and a bystander's wait, each endpoint under each model."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from harness.expected import ENDPOINTS
from harness.held import PROBE_TIMEOUT_S
from harness.report import style
from harness.report.drawing import SHOWN_MAX, Drawing
from harness.report.pinning_rows import METRICS, Row, rows
from harness.report.rows import Chapter
from harness.report.style import INK, PALE, End, Look, label_lines

SPREAD = 0.6  # of the place of one endpoint, which its conditions share
CAPTION = (
    "Above: requests a second, medians over runs with their intervals; the dashes are what is expected. Below: how "
    "long a bystander waited beside it, from its median (marker) up to its 99th percentile; the dotted line is the "
    "time-out of a probe, where both are lower bounds. sync-shared and lock-shared carry the same: what tells them "
    "apart is who else has to wait."
)


def drawings(chapter: Chapter) -> list[Drawing]:
    """None where no endpoint of the lab was asked."""
    found = [row for row in rows(chapter) if row.endpoint in ENDPOINTS]
    labels = list(dict.fromkeys(row.label for row in found))[:SHOWN_MAX]
    if not labels:
        return []
    shown = [row for row in found if row.label in labels]
    looks = style.looks([(row.condition.target, row.label) for row in shown if row is _first(shown, row.label)])
    figure = style.sheet(5.6)
    above, below = figure.subplots(2, 1, sharex=True)
    for axes, key in ((above, "throughput_rps"), (below, "bystander_p50_s")):
        heights: list[float] = []
        ends: list[End] = []
        for label, look in looks.items():
            own = [row for row in shown if row.label == label]
            places = {row.endpoint: _place(row.endpoint, labels.index(label), len(labels)) for row in own}
            points = _points(axes, own, key, places, look)
            heights += points
            ends += [End(points[-1], label, look)] if points else []
        _finish(axes, key, heights, ends)
    above.set_xlim(-0.5, len(ENDPOINTS) - 0.5)
    below.set_xticks(range(len(ENDPOINTS)), list(ENDPOINTS))
    below.axhline(PROBE_TIMEOUT_S * METRICS["bystander_p50_s"].unit.factor, color=PALE, linewidth=0.8, linestyle=":")
    return [Drawing("pinning", "What a lock holds", CAPTION, figure)]


def _first(shown: Sequence[Row], label: str) -> Row:
    return next(row for row in shown if row.label == label)


def _place(endpoint: str, nth: int, of: int) -> float:
    return list(ENDPOINTS).index(endpoint) + SPREAD * ((nth + 0.5) / of - 0.5)


def _points(axes: Axes, own: Sequence[Row], key: str, places: dict[str, float], look: Look) -> list[float]:
    """Draw a condition's markers and intervals (and what was expected); their heights, the last one last."""
    factor = METRICS[key].unit.factor
    heights = []
    for row in own:
        estimate, x = row.figure(key), places[row.endpoint]
        low, high = estimate.low, estimate.high
        if key == "bystander_p50_s":
            low, high = estimate.value, row.figure("bystander_p99_s").value
        elif row.expected is not None:
            width = SPREAD / 10
            axes.hlines(row.expected.throughput_rps * factor, x - width, x + width, color=INK, linewidth=1.0)
        if estimate.value is None:
            continue
        axes.plot([x], [estimate.value * factor], **{**look.kwargs, "linestyle": ""})
        if low is not None and high is not None:
            axes.vlines(x, low * factor, high * factor, color=look.color, linewidth=1.2)
        heights.append(estimate.value * factor)
    return heights


def _finish(axes: Axes, key: str, heights: Sequence[float], ends: Sequence[End]) -> None:
    axes.set_ylabel(METRICS[key].header)
    axes.grid(visible=False, axis="x")
    if heights:
        style.fit_height(axes, heights)
        label_lines(axes, ends)
