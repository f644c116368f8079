"""Figures: there is one where there is something to show, it says what it shows, and names stay text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from report_support import chapter, words
from synthetic_runs import GEVENT, THREADS, TRIO, Pod, published, repeated

from harness.report import FIGURES, figures, style, timelines
from harness.report.drawing import SHOWN_MAX, Drawing, shown_rows
from harness.report.rows import Chapter

POD = Pod(rate_rps=200, w_s=2.0, window_s=8.0)
POOL = replace(THREADS, w_s=2.0, window_s=8.0)


def heights(axes: Axes) -> list[str]:
    """The numbers at the vertical axis that are in view."""
    low, high = axes.get_ylim()
    labels = axes.yaxis.get_ticklabels(which="both")
    return [
        label.get_text() for label in labels if label.get_text() and low <= label.get_position()[1] <= high
    ]


def drawn(draw: Callable[[Chapter], Drawing | None], results: Path) -> Drawing:
    with style.applied():
        found = draw(chapter(results))
    assert found is not None
    return found


@pytest.fixture
def four(tmp_path: Path) -> Path:
    """All models, the pool saturated too, with collections."""
    repeated(tmp_path, replace(POOL, rate_rps=97), 2)
    published(tmp_path, replace(POOL, rate_rps=120, regime="saturated"))
    for pod in (POD, TRIO, GEVENT):
        published(tmp_path, replace(pod, rate_rps=200, w_s=2.0, window_s=8.0, pause_s=0.1))
    return tmp_path


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (figures.latency, {"latency − W (ms)", "percentile", "99", "trio", "threadpool"}),
        (timelines.in_flight, {"client", "handlers", "λW = 400", "threadpool, λ = 120/s, saturated"}),
        (figures.load, {"RSS (MB)", "CPU (% of a core)", "offered rate λ (req/s)", "gevent"}),
        (figures.pods, {"pods", "arrival rate λ (req/s)", "threadpool", "trio (≤)"}),
        (timelines.gc, {"latency − W (ms)", "pause (ms)", "full", "young", "asyncio, λ = 200/s"}),
    ],
)
def test_each_figure_says_what_it_shows(
    four: Path, draw: Callable[[Chapter], Drawing | None], said: set[str]
) -> None:
    found = drawn(draw, four)
    assert said <= set(words(found.figure))
    assert found.caption.endswith(".")
    assert all(len(heights(axes)) >= 2 for axes in found.figure.axes if axes.get_visible())


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([2.0, 9.0], "linear"),
        ([0.0, 900.0], "linear"),
        ([0.5, 900.0], "log"),
        ([0.9, 19.0], "log"),
        ([-0.2, 5.0], "linear"),
        ([-0.2, 900.0], "symlog"),
        ([0.0, 0.0], "linear"),
        ([7.0, 7.0], "linear"),
    ],
)
def test_any_range_can_be_read(values: list[float], scale: str) -> None:
    with style.applied():
        axes = style.sheet(3.0).add_subplot()
        axes.plot(values)
        style.fit_height(axes, values)
        axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    assert axes.get_yscale() == scale
    assert len(heights(axes)) >= 2
    assert axes.get_ylim()[0] <= min(values) <= max(values) <= axes.get_ylim()[1]


def test_the_latency_line_ends_where_the_sample_does(tmp_path: Path) -> None:
    published(tmp_path, replace(POD, rate_rps=50))  # 400 requests: a p99, no p99.9
    published(tmp_path, replace(GEVENT, w_s=2.0, window_s=8.0, rate_rps=1_000))
    axes = drawn(figures.latency, tmp_path).figure.axes[0]
    ends = sorted(float(np.asarray(line.get_xdata())[-1]) for line in axes.lines if len(line.get_xdata()) > 9)  # type: ignore[arg-type]
    assert 2.0 < ends[0] < 2.1
    assert 3.0 < ends[1] < 3.5


def test_the_pods_figure_is_the_table(four: Path) -> None:
    axes = drawn(figures.pods, four).figure.axes[0]
    pool = axes.lines[0]
    rate, pods = np.asarray(pool.get_xdata()), np.asarray(pool.get_ydata())
    row = chapter(four).rows[0]
    at_500 = pods[np.searchsorted(rate, 500.0)]
    assert abs(at_500 - (row.figures["pods"].value or 0)) <= 1
    assert pods[0] == 1


def test_no_collections_no_figure(tmp_path: Path) -> None:
    directory = published(tmp_path, POD)
    assert timelines.gc(chapter(tmp_path)) is None
    (directory / "gc.parquet").unlink()
    assert timelines.gc(chapter(tmp_path)) is None


def test_only_saturated_runs_have_no_latency(tmp_path: Path) -> None:
    published(tmp_path, replace(POOL, rate_rps=120, regime="saturated"))
    found = [draw(chapter(tmp_path)) for draw in FIGURES]
    assert [drawing.slug for drawing in found if drawing] == ["in-flight", "pods"]


def test_without_a_gauge_the_client_is_drawn_alone(tmp_path: Path) -> None:
    published(tmp_path, replace(POD, gauges=False))
    said = words(drawn(timelines.in_flight, tmp_path).figure)
    assert "client" in said
    assert "handlers" not in said


def test_too_many_conditions_leave_one_of_each_target(tmp_path: Path) -> None:
    for w_s in (0.5, 1.0):
        published(tmp_path, replace(POD, w_s=w_s))
    repeated(tmp_path, POD, 3)
    repeated(tmp_path, replace(TRIO, rate_rps=100, w_s=2.0, window_s=8.0), 2)
    for workers in range(2, SHOWN_MAX + 2):
        published(tmp_path, replace(POD, workers=workers))
    shown = shown_rows(chapter(tmp_path))
    assert [(row.label, row.condition.w_s) for row in shown] == [("asyncio", 2.0), ("trio", 2.0)]
    caption = drawn(figures.latency, tmp_path).caption
    assert caption.endswith(
        " Shown: one condition of each target, at W = 2 s; 10 more conditions are in the table."
    )


HOSTILE = ("<script>alert(1)</script>", "$\\nonsense{$", "a\x00\x1b[31mb", "λ" * 300, "]]>&amp;", "日本")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_stay_text(tmp_path: Path, name: str) -> None:
    pod = replace(POD, target=name, model=name, options={name: name}, pause_s=0.1, rate_rps=50)
    published(tmp_path, pod)
    published(tmp_path, replace(pod, options={name: "other"}))
    with style.applied():
        for draw in FIGURES:
            drawing = draw(chapter(tmp_path))
            assert drawing is not None
            files = style.rendered(drawing.figure)
            assert files["png"].startswith(b"\x89PNG")
            ElementTree.fromstring(files["svg"])


def test_the_same_runs_give_the_same_bytes(four: Path) -> None:
    def once() -> dict[str, bytes]:
        with style.applied():
            drawing = timelines.gc(chapter(four))
            assert drawing is not None
            return style.rendered(drawing.figure)

    assert once() == once()


def test_colours_are_the_targets_and_every_line_can_be_told_apart_in_grey() -> None:
    named = [("asyncio", "asyncio"), ("asyncio", "asyncio gc=off"), *((name, name) for name in "abcdef")]
    found = style.looks(named)
    assert found["asyncio"].color == found["asyncio gc=off"].color
    assert len({look.color for look in found.values()}) == 7
    assert len({(look.marker, look.line) for look in found.values()}) == 8
