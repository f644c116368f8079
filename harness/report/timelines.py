"""Figures over time, of one run of each condition: the typical one of its repeats (Cell.typical)."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
from matplotlib.axes import Axes

from harness.report import curves, style
from harness.report.drawing import SHOWN_MAX, Drawing, left_out, not_kept, shown_rows
from harness.report.load import Columns
from harness.report.metrics import given, number
from harness.report.rows import Cell, Chapter
from harness.report.style import INK, PALE, End, Look, label_lines, plain_ticks
from harness.run import Run

SCATTER_MAX = 3_000
WINDOW = "#f2f2f2"
CLIENT, HANDLERS, LITTLE = Look("#E69F00", "o", "-"), Look("#0072B2", "s", "--"), Look(INK, "", ":")
YOUNG, FULL = Look(PALE, "|", "-"), Look("#D55E00", "|", "-")
FULL_GENERATION = 2


def in_flight(chapter: Chapter) -> Drawing | None:
    """Requests in flight over time, at the client and in the handlers, against λW."""
    panels = [
        (row.label, cell) for row in shown_rows(chapter) for cell in (row.steady, row.saturated) if cell
    ]
    lines = math.ceil(len(panels) / 2)
    figure = style.sheet(0.3 + 1.75 * lines)
    grid = figure.subplots(lines, 2, squeeze=False)
    for axes, (label, cell) in zip(grid.flat, panels, strict=False):
        _in_flight_panel(axes, label, cell)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.supxlabel("time since the start (s)", fontsize=8.5)
    figure.supylabel("requests in flight", fontsize=8.5)
    caption = (
        "Requests in flight in one run of each condition, seen from the client and by the server's own gauge, "
        "against Little's law, L = λW; the window is shaded. In a pod that keeps up the three agree. In a "
        "saturated one the handlers stay at the pool's size, and what the client has in flight beyond it waits."
        f"{left_out(chapter)}{not_kept(chapter)}"
    )
    return Drawing("in-flight", "Requests in flight over time", caption, figure)


def gc(chapter: Chapter) -> Drawing | None:
    """Latency over due time, with the garbage collections of the same run below it."""
    typical = [(row.label, row.steady.typical()) for row in shown_rows(chapter) if row.steady]
    found = (
        (label, stored.run, requests, pauses)
        for label, stored in typical
        if (pauses := stored.collections()) and len(pauses["end_s"]) and (requests := stored.requests())
    )
    chosen = list(islice(found, SHOWN_MAX // 2))
    if not chosen:
        return None
    figure = style.sheet(2.7 * len(chosen))
    grid = figure.subplots(2 * len(chosen), 1, squeeze=False, height_ratios=[2, 1] * len(chosen))[:, 0]
    for above, below, (label, run, requests, pauses) in zip(grid[::2], grid[1::2], chosen, strict=True):
        above.set_title(style.short(f"{label}, λ = {given(run.scenario.load.rate_rps)}/s", 80))
        above.tick_params(labelbottom=False)
        _latency_dots(above, run, requests)
        _pause_bars(below, pauses)
        for axes in (above, below):
            axes.set_xlim(0, run.phases.window_end_s)
    grid[-1].set_xlabel("time since the start (s)")
    caption = (
        "One run of each condition. Above: each dot is a request, placed where it was due. Below: the collections "
        "of the same run. A pause delays whom it meets twice: requests that are due then, and requests that were "
        f"due W earlier, whose answers arrive then.{not_kept(chapter)}"
    )
    return Drawing("gc", "Garbage collection and latency", caption, figure)


def _in_flight_panel(axes: Axes, label: str, cell: Cell) -> None:
    stored = cell.typical()
    run, requests, samples = stored.run, stored.requests(), stored.samples()
    start_s, end_s = run.phases.window_start_s, run.phases.window_end_s
    axes.axvspan(start_s, end_s, color=WINDOW, zorder=0)
    series = [(samples["t_s"], samples["in_flight"], "handlers", HANDLERS)]
    if requests is not None:
        at_s = np.linspace(0.0, run.phases.drain_end_s, 400)
        seen = curves.in_flight(requests["sent_s"], requests["done_s"], at_s)
        series.insert(0, (at_s, seen, "client", CLIENT))
    ends = []
    for x, y, name, look in series:
        inside = y[(x >= start_s) & (x < end_s) & ~np.isnan(y)]
        if inside.size:  # without a gauge there is nothing to draw
            axes.plot(x, y, markevery=0.2, **look.kwargs)
            ends.append(End(float(inside[-1]), name, look))
    if run.scenario.load.arrivals != "stages":
        axes.axhline(run.scenario.in_flight, color=LITTLE.color, linewidth=0.9, linestyle=LITTLE.line)
        ends.append(End(run.scenario.in_flight, f"λW = {number(run.scenario.in_flight)}", LITTLE))
    axes.set_xlim(0, run.phases.drain_end_s)
    axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        plain_ticks(axis)
    saturated = ", saturated" if run.scenario.load.regime == "saturated" else ""
    axes.set_title(style.short(f"{label}, λ = {given(cell.rate_rps)}/s{saturated}", 46), fontsize=8)
    label_lines(axes, ends)


def _latency_dots(axes: Axes, run: Run, requests: Columns) -> None:
    answered = requests["outcome"] == "ok"
    due_s = requests["due_s"][answered]
    late_ms = (requests["done_s"][answered] - due_s - run.scenario.w_s) * 1e3
    drawn = curves.thinned(late_ms, SCATTER_MAX)
    axes.scatter(due_s[drawn], late_ms[drawn], s=3, color=HANDLERS.color, linewidths=0, rasterized=True)
    style.fit_height(axes, list(late_ms))
    axes.set_ylabel("latency − W (ms)")


def _pause_bars(axes: Axes, pauses: Columns) -> None:
    end_s, pause_ms = pauses["end_s"], pauses["pause_s"] * 1e3
    full = pauses["generation"] == FULL_GENERATION
    floor = max(float(pause_ms.min()), 1e-3) / 2
    ends = []
    for of, name, look, width in ((~full, "young", YOUNG, 0.4), (full, "full", FULL, 1.4)):
        bars = np.flatnonzero(of)[curves.thinned(pause_ms[of], SCATTER_MAX)]
        axes.vlines(end_s[bars], floor, pause_ms[bars], color=look.color, linewidth=width, rasterized=True)
        if bars.size:
            ends.append(End(float(pause_ms[of].max()), name, look))
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor)
    plain_ticks(axes.yaxis)
    axes.set_ylabel("pause (ms)")
    label_lines(axes, ends)
