"""The admission section: the article's rows beside ours, predictions in brackets, one lesson a kind of condition."""

from __future__ import annotations

from pathlib import Path

import matplotlib.text
import pandas as pd  # type: ignore[import-untyped]
import pytest
from synthetic_admission import admission_run, published, setting_of
from synthetic_runs import Pod
from synthetic_runs import published as published_pod

from harness import report, targets
from harness.report import admission, article, style
from harness.report.load import load
from harness.report.rows import Chapter, chapters
from harness.report.tables import Table

CONDITIONS = [("threadpool", 200), ("threadpool", 400), ("asyncio", None), ("trio", None), ("gevent", None)]
PLAIN = ["threadpool 200", "threadpool 400", "asyncio", "trio", "gevent"]


def chapter(results: Path) -> Chapter:
    (found,) = chapters(load(results), targets.load_targets())
    return found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("results")
    for place, (target, threads) in enumerate(CONDITIONS):
        for permits in (10, 0):
            published(home, admission_run(target, threads=threads, permits=permits, ok_rps=98 + place / 10))
    published(home, admission_run("trio", repeat=1, valid=False))
    return home


def cells(table: Table, label: str) -> dict[str, str]:
    line = next(line for line in table.lines if line.label == label)
    texts = [f"{cell.text} ({cell.interval})" if cell.interval else cell.text for cell in line.cells]
    return dict(zip(table.headers[1:], texts, strict=True))


def test_the_table_of_the_article(results: Path) -> None:
    table = admission.results(admission.entries(chapter(results)))
    assert [line.label for line in table.lines] == [
        "threadpool 200",
        "article: platform threads (JVM, cold start)",
        "threadpool 400",
        "asyncio",
        "trio",
        "gevent",
        "article: virtual threads (JVM, cold start)",
        *(f"{name} + semaphore" for name in PLAIN),
        "article: virtual threads + semaphore (JVM, cold start)",
    ]
    found = cells(table, "threadpool 400")
    assert (found["200"], found["429"], found["503"], found["unsent"]) == ("6,000", "0", "5,700", "6,300")
    assert found["in flight"] == "400 (400)" or found["in flight"] == "400"
    assert found["waiting for the pool"] == "390"
    assert cells(table, "trio")["verdict"] == "valid; 1 discarded"
    platform = cells(table, "article: platform threads (JVM, cold start)")
    assert (platform["p50 (ms)"], platform["200"], platform["503"], platform["unsent"]) == (
        *("18,215", "7,593", "2,056"),
        "8,272",
    )
    assert (platform["in flight"], platform["waiting for the pool"]) == ("199", "189")


def test_each_kind_of_condition_teaches_one_thing(results: Path) -> None:
    notes = admission.results(admission.entries(chapter(results))).notes
    said = "\n".join(notes)
    assert "98–98.4 successes a second in all 10 conditions, 0.4% apart; the connections carry 100/s" in said
    assert (
        "threadpool 200: not above the tipping point of 210, so the pool should refuse nobody; at the rate that was "
        "really served that point lies at 206, and 0 were refused (503)" in said
    )
    assert "12,000 requests found all clients waiting" in said
    assert "threadpool 400: above the tipping point of 210, so 503s appear (5,700)" in said
    assert "asyncio, trio, gevent: everybody is let in" in said
    assert "12,000 are refused (503) after 2,000 ms in line" in said
    assert "gevent + semaphore: 12,000 are told at the door, after 100 ms" in said
    assert len(notes) == 6
    assert "{" not in said


def test_what_a_success_takes(results: Path) -> None:
    table = admission.costs(admission.entries(chapter(results)))
    assert cells(table, "asyncio")["200/s"] == "98.2 (100)"
    assert cells(table, "asyncio")["p50 of 200 (ms)"] == "2,105 (2,100)"
    assert cells(table, "asyncio + semaphore")["p99 of 200 (ms)"] == "220"


def test_the_article_stands_only_beside_its_own_setting() -> None:
    assert article.admission_counterpart(setting_of("threadpool", 200, 0)) == article.ADMISSION[0]
    assert article.admission_counterpart(setting_of("gevent", None, 10)) == article.ADMISSION[2]
    assert article.admission_counterpart(setting_of("threadpool", 400, 0)) is None
    assert article.admission_counterpart(setting_of("asyncio", None, 0, "admission-compressed")) is None


def test_the_articles_requests_add_up() -> None:
    """300/s for 60 s; of the first row some were in flight when it ended."""
    for row in article.ADMISSION:
        total = row.ok_count + row.refused_429 + row.refused_503 + row.unsent
        assert 18_000 - 100 <= total <= 18_000


def test_csv(results: Path) -> None:
    report.generate(results)
    frame = pd.read_csv(results / "tables" / "admission.csv")
    assert list(frame["condition"]) == [*PLAIN, *(f"{name} + semaphore" for name in PLAIN)]
    assert {"p50_ms", "p99_ms", "ok_p50_ms", "ok_p99_ms", "ok_rps", "in_flight_mean", "waiting_mean"} <= set(
        frame
    )
    first = frame.to_dict("records")[0]
    assert (first["threads"], first["permits"], first["ok_count"], first["unsent"]) == (200, 0, 6_000, 12_000)
    assert (first["predicted_ok"], first["predicted_unsent"], first["tipping_point"]) == (6_000, 12_000, 210)
    assert (first["article_name"], first["article_ok_count"]) == ("platform threads", 7_593)
    assert pd.isna(frame["article_name"][1])
    assert (frame["verdict"] == "valid").sum() == 9


def test_the_report_has_the_section_and_its_figure(results: Path) -> None:
    written = {str(path.relative_to(results)) for path in report.generate(results)}
    assert {f"figures/admission-controlled-outcomes.{kind}" for kind in ("png", "svg")} <= written
    assert not [name for name in written if "admission-controlled-pods" in name]
    text = (results / "report.md").read_text(encoding="utf-8")
    assert "## admission" in text
    assert "figures/admission-controlled-outcomes.png" in text
    assert "Where the excess goes" in (results / "report.html").read_text(encoding="utf-8")


def test_the_figure_says_what_each_part_of_a_bar_is(results: Path) -> None:
    with style.applied():
        drawn = admission.outcomes(admission.entries(chapter(results))).figure
        drawn.draw_without_rendering()
    words = {
        text.get_text()
        for text in drawn.findobj(matplotlib.text.Text)
        if isinstance(text, matplotlib.text.Text)
    }
    assert {"6,000 × 200", "12,000 × 503", "12,000 × 429", "6,300 unsent", "threadpool 400"} <= words
    assert "0 × 429" not in words


def test_other_scenarios_are_reported_as_ever(tmp_path: Path) -> None:
    published_pod(tmp_path, Pod(rate_rps=200, w_s=1.0, window_s=4.0))
    assert not admission.is_of(chapter(tmp_path))
    report.generate(tmp_path)
    assert "pods_for_500_rps" in (tmp_path / "tables" / "rag.csv").read_text(encoding="utf-8")


def test_what_was_not_measured_is_empty_with_its_reason(tmp_path: Path) -> None:
    published(tmp_path, admission_run(without=("waiting", "in_flight")))
    table = admission.results(admission.entries(chapter(tmp_path)))
    assert cells(table, "asyncio")["in flight"] == "–"
    assert table.notes[-1] == "in flight, waiting for the pool: not measured [asyncio]"
    assert "everybody is let in, – at once" in "\n".join(table.notes)


def test_two_conditions_of_one_name_are_told_apart_by_their_options(tmp_path: Path) -> None:
    published(tmp_path, admission_run())
    other = admission_run(repeat=1)
    other.target.options["gc"] = "off"
    published(tmp_path, other)
    labels = [line.label for line in admission.results(admission.entries(chapter(tmp_path))).lines]
    assert any("gc=off" in label for label in labels)
    assert len(set(labels)) == len(labels)
