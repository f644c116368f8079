"""Sweeps in the report: what is joined to a line, what a figure compares it with, and what a chapter shows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_support import chapter, words
from synthetic_runs import GEVENT, THREADS, TRIO, Pod, published

from harness import report
from harness.report import axes, style, sweeps
from harness.report.drawing import Drawing

POD = Pod(rate_rps=200, w_s=2.0, window_s=8.0)
POOL = replace(THREADS, w_s=2.0, window_s=8.0)
PLAIN = dict(POD.options)


def sweep(results: Path, slug: str) -> Drawing | None:
    axis = next(axis for axis in axes.AXES if axis.slug == slug)
    with style.applied():
        return sweeps.against(chapter(results), axis)


@pytest.mark.parametrize(
    ("slug", "changes", "said"),
    [
        (
            "gc",
            [{"options": {**PLAIN, "gc": gc}} for gc in ("default", "off")],
            {"default", "off", "collector"},
        ),
        ("loop", [{"options": {**PLAIN, "loop": loop}} for loop in ("asyncio", "uvloop")], {"uvloop"}),
        ("workers", [{"workers": n, "workers_asked": n} for n in (1, 2, 3)], {"processes in the pod", "3"}),
        ("w", [{"w_s": w_s} for w_s in (0.5, 2.0)], {"W (s)", "0.5", "2"}),
        ("w", [{"w_s": 0.5}, {"w_s": 2.0, "workers": 2}], {"W (s)", "asyncio"}),  # as many as it takes
        (
            "cpu-work",
            [{"options": {**PLAIN, "cpu_us": us}} for us in (0, 20_000)],
            {"CPU work (ms per request)", "20"},
        ),
    ],
)
def test_a_sweep_shows_conditions_that_differ_in_it_alone(
    tmp_path: Path, slug: str, changes: list[dict[str, object]], said: set[str]
) -> None:
    for change in changes:
        published(tmp_path, replace(POD, **change))  # type: ignore[arg-type]
    found = sweep(tmp_path, slug)
    assert found is not None
    assert said <= set(words(found.figure))
    others = [axis.slug for axis in axes.AXES if axis.slug != slug and sweep(tmp_path, axis.slug)]
    assert others == []


def test_what_differs_in_more_than_the_option_is_not_joined(tmp_path: Path) -> None:
    published(tmp_path, POD)
    published(tmp_path, replace(POD, options={**PLAIN, "gc": "off"}, rate_rps=100))  # another rate
    published(tmp_path, replace(POD, options={**PLAIN, "gc": "freeze", "loop": "uvloop"}))
    assert sweep(tmp_path, "gc") is None


def test_a_pool_of_any_size_is_compared_at_its_own_capacity(tmp_path: Path) -> None:
    for threads in (10, 20, 400):
        pool = replace(
            POOL, options={**POOL.options, "threads": threads}, pool=threads, workers=1 + (threads > 100)
        )
        published(tmp_path, replace(pool, rate_rps=0.97 * threads / 2))
        published(tmp_path, replace(pool, rate_rps=1.2 * threads / 2, regime="saturated"))
    found = sweep(tmp_path, "pool-size")
    assert found is not None
    said = words(found.figure)
    assert {"N / W", "1 MB a thread", "threads in the pool", "10", "20", "400"} <= set(said)
    measured, expected = found.figure.axes[0].lines[:2]
    np.testing.assert_allclose(
        np.asarray(measured.get_ydata(), dtype=float),
        np.asarray(expected.get_ydata(), dtype=float),
        rtol=0.03,
    )


def full(threads: int) -> Pod:
    """A pool of a sweep over its size: run full, and not otherwise."""
    options = {**THREADS.options, "threads": threads}
    pool = replace(THREADS, options=options, pool=threads, rate_rps=1.1 * threads / 2, regime="saturated")
    return replace(pool, w_s=2.0, window_s=8.0, scenario="sweep-threads", axis="pod.threads")


def test_a_pool_that_was_only_run_full_has_its_resources_from_there(tmp_path: Path) -> None:
    for threads in (10, 100, 1_000):
        published(tmp_path, full(threads))
    found = sweep(tmp_path, "pool-size")
    assert found is not None
    said = words(found.figure)
    assert {"λ max / pod\n(req/s)", "RSS\n(MB)", "CPU / request\n(ms)", "10", "100", "1,000"} <= set(said)
    assert [axes.get_yscale() for axes in found.figure.axes] == ["log", "log", "linear"]
    memory = np.asarray(found.figure.axes[1].lines[0].get_ydata(), dtype=float)
    np.testing.assert_allclose(memory, [(23e6 + 40e3 * n) / 1e6 for n in (10, 100, 1_000)], rtol=0.03)


def test_cpu_work_is_shown_in_milliseconds_beside_itself(tmp_path: Path) -> None:
    for us in (0, 2_000, 20_000):
        for pod in (POD, TRIO, GEVENT):
            options = {**pod.options, "cpu_us": us}
            slow = replace(pod, rate_rps=200, w_s=2.0, window_s=8.0, overhead_s=0.004 + 3e-6 * us)
            published(tmp_path, replace(slow, options=options, scenario="sweep-cpu", axis="pod.cpu_us"))
    found = sweep(tmp_path, "cpu-work")
    assert found is not None
    assert {"0", "2", "20", "the work itself", "asyncio", "trio", "gevent"} <= set(words(found.figure))
    work = found.figure.axes[0].lines[3]
    assert list(work.get_xdata()) == list(work.get_ydata()) == [0.0, 2.0, 20.0]  # type: ignore[arg-type]


def test_requests_in_flight_stand_beside_littles_law(tmp_path: Path) -> None:
    for w_s in (0.5, 2.0, 8.0):
        published(tmp_path, replace(POD, w_s=w_s, scenario="sweep-w", axis="upstream.llm"))
    found = sweep(tmp_path, "w")
    assert found is not None
    assert "λW" in words(found.figure)
    measured, law = found.figure.axes[0].lines[:2]
    assert list(law.get_ydata()) == [100.0, 400.0, 1_600.0]  # type: ignore[arg-type]
    np.testing.assert_allclose(np.asarray(measured.get_ydata(), dtype=float), [100, 400, 1_600], rtol=0.05)


def test_a_sweep_has_a_chapter_of_its_own_kind(tmp_path: Path) -> None:
    for threads in (10, 200, 1_000):
        published(tmp_path, full(threads))
    published(tmp_path, POD)
    written = [str(path.relative_to(tmp_path)) for path in report.generate(tmp_path)]
    assert [name for name in written if re.match(r"figures/sweep-threads.*\.png", name)] == [
        "figures/sweep-threads-controlled-sweep-pool-size.png"
    ]
    assert "figures/rag-controlled-latency.png" in written
    assert "tables/sweep-threads.csv" in written
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    section = text[text.index("## sweep-threads") : text.index("## How to read")]
    assert section.index("![Pool size]") < section.index("| condition |")
    header = next(line for line in section.splitlines() if line.startswith("| condition |"))
    assert "λ max / pod" in header
    assert "pods for" not in header
    assert section.count("| condition |") == 1
    rows = [line.split(" | ")[1] for line in section.splitlines() if line.startswith("| threadpool")]
    assert rows == ["10", "200", "1,000"], "the default is no exception"
    csv = (tmp_path / "tables" / "sweep-threads.csv").read_text(encoding="utf-8").splitlines()
    assert len(csv) == 4
    assert all(line.split(",")[8] for line in csv), "the rate of a pod that was only run full"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "sweep-threads: sweep" in page


def test_a_sweep_over_what_is_not_drawn_is_reported_as_any_other(tmp_path: Path) -> None:
    for backlog in (64, 4_096):
        published(tmp_path, replace(POD, options={**PLAIN, "backlog": backlog}, axis="pod.backlog"))
    written = [str(path.relative_to(tmp_path)) for path in report.generate(tmp_path)]
    assert "figures/rag-controlled-latency.png" in written
