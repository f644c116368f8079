"""The pinning chapter from runs that never ran: expected and the article beside measured, and the figure."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import matplotlib.text
import msgspec
import pytest
from synthetic_runs import THREADS, TRIO, Pod, published

from harness import deadlock, held, lab, records, report, scenario
from harness.deadlock import Deadlock, Party
from harness.expected import ENDPOINTS, expect
from harness.report import pinning, style
from harness.report.load import load
from harness.report.rows import Chapter, chapters
from harness.report.tables import Line, Table
from harness.run import Bystander, Concurrency, HandlerPins
from harness.scenario import Scenario
from harness.targets import load_targets

PINNING = scenario.load("pinning")
SIXTH = Deadlock(
    target="trio",
    model="trio",
    created="2026-11-30T12:00:00+00:00",
    commit=None,
    requests=8,
    answered=0,
    took_s=1.3,
    exit_code=70,
    holder=Party("/hold/deadlock", "servers/hold.py:56 <hold>", 1.2),
    waiters=(Party("/hold/deadlock", "servers/hold.py:55 hold", 1.0),),
)


def asked(results: Path, pod: Pod, endpoint: str, wanted: Scenario = PINNING, repeat: int = 0) -> None:
    """Publish a run of the lab whose figures are the expected ones, a little off with each repeat."""
    expected = expect(pod.model, endpoint, wanted.load.clients or 0, wanted.w_s, pool=pod.pool)
    assert expected is not None
    made = published(
        results, replace(pod, repeat=repeat, route=f"/hold/{endpoint}", rate_rps=20, w_s=0.2, window_s=2)
    )
    run = records.read_run(made)
    requests = 100 + repeat
    found = (
        {f"/hold/{endpoint}": HandlerPins(count=requests, seconds=20.0)} if expected.pins_per_request else {}
    )
    waited_s = held.PROBE_TIMEOUT_S if expected.bystander_waits else 0.002 + repeat / 1e4
    run = msgspec.structs.replace(
        run,
        scenario=lab.asking(wanted, endpoint),
        target=msgspec.structs.replace(
            run.target, options={**run.target.options, "hold": "on", "pins": "on"}
        ),
        summary=msgspec.structs.replace(
            run.summary,
            throughput_rps=expected.throughput_rps - repeat / 100,
            latency_s=msgspec.structs.replace(run.summary.latency_s, p50=expected.latency_p50_s),
        ),
        concurrency=Concurrency(upstream_mean=float(expected.upstream_in_flight)),
        pins=held.pins(found, requests),
        bystander=Bystander(route="/health", timeout_s=5, n=375, unanswered=0, p50=waited_s, p99=waited_s),
    )
    (made / records.RUN).write_bytes(msgspec.json.encode(run))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Threads and trio, each endpoint three times, and an ordinary scenario beside them."""
    for pod in (replace(THREADS, scenario="pinning"), replace(TRIO, scenario="pinning")):
        for endpoint in ENDPOINTS:
            for repeat in range(3):
                asked(tmp_path, pod, endpoint, repeat=repeat)
    published(tmp_path, Pod(rate_rps=60, w_s=2.0, window_s=8.0))
    deadlock.keep(tmp_path, "pinning", SIXTH)
    return tmp_path


def chapter(results: Path, name: str = "pinning") -> Chapter:
    return next(found for found in chapters(load(results), load_targets()) if found.scenario == name)


def cells(table: Table, line: Line, header: str) -> list[str]:
    """The texts under a header, which several columns may share."""
    return [cell.text for title, cell in zip(table.headers[1:], line.cells, strict=True) if title == header]


def test_only_a_closed_model_is_shown_by_this_chapter(results: Path) -> None:
    assert pinning.is_of(chapter(results))
    assert not pinning.is_of(chapter(results, "rag"))


def test_each_endpoint_has_its_conditions_and_then_the_articles(results: Path) -> None:
    table = pinning.tables(chapter(results), results)["each way to hold a lock"]
    own = [line.label for line in table.lines if not line.of_article]
    assert own == [f"{endpoint}: {name}" for endpoint in ENDPOINTS for name in ("threadpool", "trio")]
    labels = [line.label for line in table.lines]
    assert labels[:4] == [
        "plain: threadpool",
        "plain: trio",
        "plain: article, platform threads (JVM)",
        "plain: article, virtual threads (JVM)",
    ]
    assert len(labels) == 5 * 4


def test_expected_and_measured_stand_side_by_side(results: Path) -> None:
    table = pinning.tables(chapter(results), results)["each way to hold a lock"]
    lines = {line.label: line for line in table.lines}
    pinned, free = lines["sync-shared: trio"], lines["sync-shared: threadpool"]
    assert cells(table, pinned, "expected") == ["5.00", "1.00", "1.00", "20,000", "≥ 100"]
    assert cells(table, free, "expected") == ["5.00", "1.00", "0", "20,000", "< 100"]
    assert cells(table, pinned, "bystander p50 (ms)") == ["≥ 5,000"], "a time-out is a lower bound"
    assert cells(table, free, "bystander p50 (ms)") == ["2.10"]
    assert cells(table, pinned, "pins of its own handler (%)") == ["100"]
    assert cells(table, pinned, "n") == ["3"]
    article = lines["sync-striped: article, virtual threads (JVM)"]
    assert cells(table, article, "pins") == ["579"]
    assert cells(table, article, "ok in the window") == ["392"]
    assert cells(table, article, "p50 (ms)") == ["10,270"]


def test_every_endpoint_teaches_something(results: Path) -> None:
    notes = pinning.tables(chapter(results), results)["each way to hold a lock"].notes
    assert [note.partition(":")[0] for note in notes[: len(ENDPOINTS)]] == list(ENDPOINTS)


def test_elsewhere_the_articles_figures_do_not_compare(tmp_path: Path) -> None:
    wanted = scenario.load("pinning-compressed")
    asked(tmp_path, replace(TRIO, scenario="pinning-compressed"), "plain", wanted)
    tables = pinning.tables(chapter(tmp_path, "pinning-compressed"), tmp_path)
    assert list(tables) == ["each way to hold a lock"], "the sixth was not tried"
    assert [line.of_article for line in tables["each way to hold a lock"].lines] == [False]


def test_the_sixth_has_a_table_of_its_own(results: Path) -> None:
    (line,) = pinning.tables(chapter(results), results)["a native lock held over a suspension"].lines
    assert line.label == "trio"
    assert [cell.text for cell in line.cells] == [
        "deadlock: the guard ended the pod after 1.3 s, exit status 70",
        "yes",
        "servers/hold.py:56 <hold>",
        "servers/hold.py:55 hold",
    ]


def test_the_figure_shows_every_condition_at_every_endpoint(results: Path) -> None:
    with style.applied():
        (drawing,) = pinning.drawings(chapter(results))
        drawing.figure.draw_without_rendering()
    texts = [text.get_text() for text in drawing.figure.findobj(matplotlib.text.Text)]
    assert {*ENDPOINTS, "threadpool", "trio"} <= set(texts)
    above, below = drawing.figure.axes
    assert above.get_yscale() == below.get_yscale() == "log"
    assert len(above.collections) >= 2 * len(ENDPOINTS), "an expected dash for each"


def test_the_whole_report_has_both_kinds(results: Path) -> None:
    written = {str(path.relative_to(results)) for path in report.generate(results)}
    assert {"tables/pinning.csv", "tables/rag.csv", "figures/pinning-controlled-held.png"} <= written
    assert "figures/rag-controlled-latency.png" in written
    assert "figures/pinning-controlled-latency.png" not in written
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "100 clients, closed model on /hold/plain" in page
    assert "servers/hold.py:56 &lt;hold&gt;" in page
    text = (results / "report.md").read_text(encoding="utf-8")
    assert "clients: 100" in text
    rows = list(csv.DictReader((results / "tables" / "pinning.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 2 * 5 + 1
    pinned = next(row for row in rows if (row["target"], row["endpoint"]) == ("trio", "sync-striped"))
    assert (pinned["clients"], pinned["runs"], pinned["pins_per_request"]) == ("100", "3", "1")
    assert (pinned["expected_rps"], pinned["expected_in_flight"], pinned["expected_p50_ms"]) == (
        "5",
        "1",
        "20000",
    )
    assert (pinned["article"], pinned["article_pins"]) == ("virtual threads", "579")
    assert float(pinned["throughput_rps_low"]) <= float(pinned["throughput_rps"])
    sixth = rows[-1]
    assert (sixth["endpoint"], sixth["deadlock_as_expected"]) == ("deadlock", "True")
    assert sixth["deadlock"].startswith("deadlock: ")
