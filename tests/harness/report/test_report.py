"""The whole report from runs on a disk: what is written, what it says, and that it says it again."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_runs import GEVENT, THREADS, TRIO, Pod, published, repeated

from harness import report
from harness.errors import MeasurementError

HOSTILE = '<script>alert("x")</script>|`*[a](http://evil.example)\n# b\x00'


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("results")
    pool = replace(THREADS, w_s=2.0, window_s=8.0)
    repeated(home, replace(pool, rate_rps=97), 3)
    published(home, replace(pool, rate_rps=120, regime="saturated"))
    for pod in (Pod(), TRIO, GEVENT):
        published(home, replace(pod, rate_rps=200, w_s=2.0, window_s=8.0, pause_s=0.05))
    published(home, replace(Pod(), rate_rps=123, w_s=2.0, window_s=8.0, workers=3), discarded="drift")
    hostile = Pod(target=HOSTILE, model=HOSTILE, options={HOSTILE: HOSTILE}, scenario=HOSTILE, rate_rps=60)
    published(home, replace(hostile, description=HOSTILE, notes=(HOSTILE,), w_s=2.0, window_s=8.0))
    published(home, replace(hostile, w_s=2.0, window_s=8.0, repeat=1), discarded=HOSTILE)
    return home


@pytest.fixture(scope="module")
def written(results: Path) -> list[Path]:
    return report.generate(results)


def test_files(results: Path, written: list[Path]) -> None:
    names = [str(path.relative_to(results)) for path in written]
    assert len(names) == len(set(names))
    assert all(path.stat().st_size for path in written)
    assert {"report.md", "report.html", "tables/rag.csv"} <= set(names)
    figures = [name for name in names if name.startswith("figures/rag-controlled-")]
    for slug in ("latency", "in-flight", "load", "pods", "gc"):
        assert {f"figures/rag-controlled-{slug}.{kind}" for kind in ("png", "svg")} <= set(figures)
    assert sum(name.startswith("histograms/") for name in names) == 7  # steady runs
    assert all(re.fullmatch(r"[\w./-]+", name) for name in names)


def test_again(results: Path, written: list[Path]) -> None:
    before = {path: path.read_bytes() for path in written}
    assert report.generate(results) == written
    assert {path: path.read_bytes() for path in written} == before


def test_every_link_of_the_markdown_leads_to_a_file(results: Path, written: list[Path]) -> None:
    text = (results / "report.md").read_text(encoding="utf-8")
    links = re.findall(r"(?<!\\)\]\(([^)]*)\)", text)
    assert len(links) > 10
    assert {results / link for link in links} <= set(written)


def test_discarded_runs_are_said_and_not_shown(results: Path, written: list[Path]) -> None:
    text = (results / "report.md").read_text(encoding="utf-8")
    assert "8 valid runs" in text
    assert "- 1 run discarded: drift (1)." in text
    assert "- asyncio workers=3: no valid run (drift (1))." in text
    assert ",123," not in (results / "tables" / "rag.csv").read_text(encoding="utf-8")


def test_nothing_of_a_name_becomes_markup(results: Path, written: list[Path]) -> None:
    for name in ("report.html", "report.md"):
        text = (results / name).read_text(encoding="utf-8")
        assert "<script" not in text
        assert "&lt;script&gt;" in text
        assert "\x00" not in text
        assert "\n# b" not in text
    assert "](http" not in (results / "report.md").read_text(encoding="utf-8").replace("\\](http", "")


def test_the_page_asks_nobody(results: Path, written: list[Path]) -> None:
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "default-src &#x27;none&#x27;" in page
    assert not re.search(r'(?:src|href)="(?!data:image/svg\+xml;base64,|#)', page)
    assert "style=" not in page
    anchors, links = re.findall(r' id="([^"]+)"', page), re.findall(r'href="#([^"]+)"', page)
    assert len(anchors) == len(set(anchors))
    assert set(links) <= set(anchors)
    assert page.count("<details") == 8


def test_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"no valid run to report, 0 discarded; make one first"):
        report.generate(tmp_path)
    published(tmp_path, replace(Pod(), rate_rps=20, w_s=1.0, window_s=4.0), discarded="drift")
    with pytest.raises(MeasurementError, match="1 discarded"):
        report.generate(tmp_path)
    assert not (tmp_path / "report.md").exists()
