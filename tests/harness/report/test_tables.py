"""Tables: as text and as CSV, with the article beside, and nothing made up where nothing was measured."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pytest
from synthetic_runs import GEVENT, THREADS, TRIO, Pod, published, repeated

from harness import targets
from harness.report import frames, tables
from harness.report.load import load
from harness.report.metrics import METRICS, given, number
from harness.report.rows import Chapter, chapters
from harness.report.tables import Table

POOL = replace(THREADS, rate_rps=9.7)


def chapter(results: Path) -> Chapter:
    (found,) = chapters(load(results), targets.load_targets())
    return found


def column(table: Table, title: str) -> list[tuple[str, str]]:
    place = next(i for i, header in enumerate(table.headers[1:]) if header.startswith(title))
    return [(line.cells[place].text, line.cells[place].interval) for line in table.lines]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9.96, "9.96"),
        (9.9999, "10.00"),
        (0.06118, "0.0612"),
        (181.4, "181"),
        (20_024.4, "20,024"),
        (-2.5, "-2.50"),
        (float("nan"), "nan"),
    ],
)
def test_a_measured_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.7, "9.7"),
        (500.0, "500"),
        (50_000, "50,000"),
        (1e6, "1,000,000"),
        (97.9020979, "97.90"),
        (0, "0"),
        (0.02 + 0.18, "0.2"),
        (3 * 0.2, "0.6"),
    ],
)
def test_a_number_that_was_set(value: float, text: str) -> None:
    assert given(value) == text


def test_the_table_of_the_article(tmp_path: Path) -> None:
    repeated(tmp_path, POOL, 2)
    repeated(tmp_path, replace(POOL, rate_rps=12, regime="saturated"), 3)
    for pod in (Pod(), replace(Pod(), workers=2), TRIO, GEVENT):
        published(tmp_path, replace(pod, rate_rps=450))
    table = tables.results(chapter(tmp_path))
    assert [line.label for line in table.lines] == [
        "threadpool",
        "article: worker pool (200) (JVM, 4 CPUs)",
        "asyncio",
        "asyncio workers=2",
        "trio",
        "article: reactive (JVM, 4 CPUs)",
        "gevent",
        "article: virtual threads (JVM, 4 CPUs)",
    ]
    ours, article = (tuple(cell.text for cell in line.cells) for line in table.lines[:2])
    assert article[:10] == ("9.96", "9.96", "20,082", "181", "3.0 (?)", "210", "182", "51", "9.99", "0.997")
    assert ours[1] == "9.7"
    assert ours[5:7] == ("210", "194")
    assert ours[7] in ("50", "51")  # λ max is 10 but for the last completion of the window
    assert ours[10:] == ("0 of 3,324", "pool", "valid", "2 + 3")
    assert column(table, "λ max")[2] == ("≥ 450", "")
    assert column(table, "pods")[2] == ("≤ 2", "")
    assert column(table, "CPU")[0][1] != ""
    assert column(table, "CPU")[2][1] == ""
    assert table.notes == ()


def test_an_empty_cell_has_its_reason_below(tmp_path: Path) -> None:
    published(tmp_path, replace(POOL, rate_rps=4, w_s=20.0, window_s=40.0))
    published(tmp_path, replace(Pod(), rate_rps=4, w_s=20.0, window_s=40.0))
    table = tables.results(chapter(tmp_path))
    assert column(table, "p99")[0] == ("–", "")
    assert table.notes == ("p99 at capacity: n = 160, p99 needs 368 [threadpool, asyncio]",)
    assert tables.chosen(table, "p99", "RSS").notes == table.notes
    few = tables.chosen(table, "RSS", "λ max")
    assert few.headers == ("condition", "RSS (MB)", "λ max / pod (req/s)")
    assert [column(few, "RSS"), column(few, "λ max")] == [column(table, "RSS"), column(table, "λ max")]
    assert few.notes == ()


def test_without_a_gauge_the_client_counts(tmp_path: Path) -> None:
    published(tmp_path, replace(Pod(), gauges=False))
    text, _ = column(tables.results(chapter(tmp_path)), "sustained")[0]
    assert re.fullmatch(r"10,0\d\d \(client\)", text)


def test_an_interval_that_reads_like_the_value_is_left_out(tmp_path: Path) -> None:
    repeated(tmp_path, replace(Pod(), w_s=1.0), 3)
    table = tables.results(chapter(tmp_path))
    assert column(table, "OS threads") == [("10", "")]
    assert column(table, "CPU")[0][1] == "30.0–31.2"


def test_csv(tmp_path: Path) -> None:
    repeated(tmp_path, POOL, 2)
    repeated(tmp_path, replace(POOL, rate_rps=12, regime="saturated"), 2)
    published(tmp_path, replace(Pod(), rate_rps=4, gauges=False, target="=cmd|x", model="mine"))
    path = tmp_path / "rag.csv"
    frames.write_csv(frames.frame(chapters(load(tmp_path), targets.load_targets())), path)
    frame = pd.read_csv(path)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in frame.columns)
    assert {f"{key}{end}" for key in METRICS for end in ("", "_low", "_high")} <= set(frame.columns)
    pool, mine = frame.to_dict("records")
    defaults = targets.resolve(targets.load_targets()["threadpool"], {})
    options = " ".join(f"{name}={value}" for name, value in sorted(defaults.items()))
    assert (pool["arm"], pool["condition"], pool["options"]) == ("controlled", "threadpool", options)
    assert "threads=200" in options
    assert pool["rate_max_rps"] == pytest.approx(9.98, rel=0.01)
    assert pool["rate_max_rps_low"] <= pool["rate_max_rps"] <= pool["rate_max_rps_high"]
    assert (pool["rate_rps"], pool["runs_steady"], pool["runs_saturated"]) == (9.7, 2, 2)
    assert pool["pods_for_500_rps"] in (50, 51)
    assert (pool["article_configuration"], pool["article_rss_bytes"]) == ("worker pool (200)", 181e6)
    assert (mine["arm"], mine["rate_max_is_lower_bound"]) == ("own", True)
    assert pd.isna(mine["latency_p99_s"])
    assert pd.isna(mine["latency_p99_s_low"])
    assert re.search(r"latency_p99_s: n = \d+, p99 needs 368", mine["reasons"])
    assert "concurrency: not measured" in mine["reasons"]
