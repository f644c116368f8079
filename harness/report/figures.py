"""The figures that compare the conditions of one chapter, one small function each; None without data for it."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes

from harness.report import article, curves, style
from harness.report.drawing import Drawing, Points, draw_lines, left_out, not_kept, row_looks, shown_rows
from harness.report.load import latencies_s
from harness.report.metrics import METRICS
from harness.report.rows import Cell, Chapter, Row, needed
from harness.report.style import OF_ARTICLE, PALE, End, Look, label_lines, plain_ticks
from harness.statistics import Estimate

PERCENTS = (50, 90, 99, 99.9, 99.99, 99.999)
MARKED_NINES = [curves.nines(percent / 100) for percent in PERCENTS]


def latency(chapter: Chapter) -> Drawing | None:
    """Latency percentiles over W on an axis of nines."""
    rows = [(row.label, row.steady) for row in shown_rows(chapter) if row.steady]
    looks, figure = row_looks(shown_rows(chapter)), style.sheet(3.9)
    axes, farthest = figure.add_subplot(), 0.0
    ends: list[End] = []
    heights: list[float] = []
    for label, cell in rows:
        x, runs_ms = _percentiles_ms(cell)
        if x.size:
            ends.append(_percentile_line(axes, x, runs_ms, label, looks[label]))
            farthest = max(farthest, float(x[-1]))
            heights += [float(runs_ms.min()), float(runs_ms.max())]
    if not ends:
        return None
    style.fit_height(axes, heights)
    axes.set_xticks([0.0, *MARKED_NINES], ["0", *(f"{percent:g}" for percent in PERCENTS)])
    axes.set_xlim(0, farthest)
    axes.set_xlabel("percentile")
    axes.set_ylabel("latency − W (ms)")
    label_lines(axes, ends)
    caption = (
        "Latency from the moment a request was due, less the wait W that no server can avoid: what is left is the "
        "server's own. Lines are medians over runs, bands their range; a line ends where the number of requests "
        f"cannot carry a higher percentile.{left_out(chapter)}{not_kept(chapter)}"
    )
    return Drawing("latency", "Latency percentiles", caption, figure)


def load(chapter: Chapter) -> Drawing | None:
    """RSS and CPU against λ, with intervals; the article's RSS beside."""
    rows = [row for row in shown_rows(chapter) if row.rates]
    if not rows:
        return None
    looks, figure = row_looks(rows), style.sheet(5.2)
    panels = figure.subplots(2, 1, sharex=True)
    beside = {"rss_mean_bytes": _article_rss(rows)}
    for axes, key in zip(panels, ("rss_mean_bytes", "cpu_percent"), strict=True):
        lines = [(_against_rate(row, key), row.label, looks[row.label]) for row in rows] + beside.get(key, [])
        ends = draw_lines(axes, lines, METRICS[key].unit.factor)
        rates = [x for points, _, _ in lines for x, _ in points]
        if style.wide(min(rates), max(rates)):
            axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.set_ylabel(METRICS[key].header)
        label_lines(axes, ends)
    panels[-1].set_xlabel("offered rate λ (req/s)")
    caption = (
        "Memory and CPU of the whole pod against the offered rate: medians over runs with their intervals. Hollow "
        "diamonds are the article's (a JVM with 4 CPUs); its CPU share is left out, because it does not say "
        f"of what it is a share.{left_out(chapter)}"
    )
    return Drawing("load", "Memory and CPU against λ", caption, figure)


def pods(chapter: Chapter) -> Drawing | None:
    """Pods against λ, as steps, from the measured λ max per pod."""
    rows = [row for row in shown_rows(chapter) if row.figures["rate_max_rps"].value]
    if not rows:
        return None
    looks, figure = row_looks(rows), style.sheet(3.6)
    axes = figure.add_subplot()
    ends = [_steps_line(axes, row, looks[row.label]) for row in rows]
    axes.axvline(article.RATE_RPS, color=PALE, linewidth=0.8, linestyle=":")
    for count in {row.beside[0].pods for row in rows if row.beside}:
        axes.plot([article.RATE_RPS], [count], zorder=3, **OF_ARTICLE.kwargs)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0)
    axes.set_ylim(bottom=0.8)
    axes.set_xlabel("arrival rate λ (req/s)")
    axes.set_ylabel("pods")
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)
    label_lines(axes, ends)
    caption = (
        "Pods that an arrival rate needs on average, ⌈λ / λ max⌉, from the measured λ max of one pod. “≤”: "
        f"the pod was never saturated, so it may need fewer. The dotted line is λ = {article.RATE_RPS:g}/s, hollow "
        f"diamonds there are the article's.{left_out(chapter)}"
    )
    return Drawing("pods", "Pods against λ", caption, figure)


def _percentiles_ms(cell: Cell) -> tuple[curves.Floats, curves.Floats]:
    """x in nines, and a row of (latency − W) for each run, as far as the smallest of them carries."""
    found = [
        curves.percentiles((latencies_s(stored.run, requests) - cell.condition.w_s) * 1e3)
        for stored in cell.stored
        if (requests := stored.requests()) is not None
    ]
    if not found:
        return np.empty(0), np.empty((0, 0))
    shortest = min(x.size for x, _ in found)
    return found[0][0][:shortest], np.array([y[:shortest] for _, y in found])


def _percentile_line(axes: Axes, x: curves.Floats, runs_ms: curves.Floats, label: str, look: Look) -> End:
    middle = np.median(runs_ms, axis=0)
    marks = [round(at / curves.NINES_STEP) for at in MARKED_NINES if at < x[-1]]
    axes.plot(x, middle, markevery=marks, **look.kwargs)
    axes.fill_between(x, runs_ms.min(axis=0), runs_ms.max(axis=0), color=look.color, alpha=0.15, linewidth=0)
    return End(float(middle[-1]), label, look)


def _against_rate(row: Row, key: str) -> Points:
    return [(cell.rate_rps, cell.figure(key)) for cell in row.rates]


def _article_rss(rows: list[Row]) -> list[tuple[Points, str, Look]]:
    found = {row.beside[0].name: row.beside[0].loads for row in rows if row.beside}
    return [
        (
            [(load.rate_rps, Estimate(load.rss_bytes, None, None)) for load in loads],
            f"article: {name}",
            OF_ARTICLE,
        )
        for name, loads in found.items()
    ]


def _steps_line(axes: Axes, row: Row, look: Look) -> End:
    rate = np.geomspace(1.0, 4 * article.RATE_RPS, 600)
    found = row.figures["rate_max_rps"]
    steps = _steps(rate, found.value or math.inf)
    axes.plot(rate, steps, drawstyle="steps-mid", markevery=80, **look.kwargs)
    if found.low and found.high:
        band = _steps(rate, found.high), _steps(rate, found.low)
        axes.fill_between(rate, *band, color=look.color, alpha=0.15, linewidth=0)
    return End(float(steps[-1]), f"{row.label}{' (≤)' if row.rate_max_at_least else ''}", look)


def _steps(rate: curves.Floats, rate_max: float) -> curves.Floats:
    return np.array([needed(float(at), rate_max) for at in rate], dtype=np.float64)
