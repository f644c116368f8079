"""Reference runs: the newest of each condition, small, without a path of their machine, and enough for the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from synthetic_runs import GEVENT, THREADS, Pod, published, repeated

from harness import records, reference, report, targets
from harness.cli import main
from harness.errors import MeasurementError, ScenarioError
from harness.report.load import Stored, load

ASYNCIO = replace(Pod(), rate_rps=150, w_s=1.0, window_s=5.0, pause_s=0.05)
POOL = replace(THREADS, w_s=1.0, window_s=5.0, rate_rps=190)
SWEPT = replace(GEVENT, w_s=1.0, window_s=5.0, rate_rps=60, scenario="sweep")
REGISTRY = targets.load_targets()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    repeated(tmp_path, ASYNCIO, 4)
    repeated(tmp_path, POOL, 2)
    published(tmp_path, replace(POOL, rate_rps=230, regime="saturated"))
    repeated(tmp_path, SWEPT, 2)
    published(tmp_path, replace(ASYNCIO, valid=False, repeat=9))
    return tmp_path


def kept(results: Path) -> dict[str, Stored]:
    return {stored.run.id: stored for stored in load(results / reference.HOME).valid}


def files(results: Path) -> list[Path]:
    return sorted((results / reference.HOME).rglob("*"))


def test_the_newest_runs_of_each_condition(results: Path) -> None:
    made = reference.make(results, REGISTRY, (), 3, ("rag",))
    found = kept(results)
    assert {replace(ASYNCIO, repeat=n).id for n in (1, 2, 3)} < set(found)
    assert len(found) == 3 + 2 + 1 + 2
    assert made.gone == ()
    assert made.line == f"8 runs, {made.size_bytes / 1e6:.1f} MB"
    assert made.size_bytes == sum(path.stat().st_size for path in files(results) if path.is_file())


def test_only_what_figures_show_keeps_requests(results: Path) -> None:
    made = reference.make(results, REGISTRY, (), 3, ("rag",))
    with_requests = {id for id, stored in kept(results).items() if stored.has_requests}
    assert len(with_requests) == 3  # asyncio, the pool, the pool saturated
    assert with_requests == {each.shown.run.id for each in made.kept if each.shown}
    assert all(stored.samples()["t_s"].size for stored in kept(results).values())
    again = reference.choose(results / reference.HOME, REGISTRY, (), 3, ("rag",))
    assert with_requests == {each.shown.run.id for each in again if each.shown}, "what is typical stays so"


def test_requests_are_reduced_and_not_changed(results: Path) -> None:
    reference.make(results, REGISTRY, (), 3, ("rag",))
    for id, stored in kept(results).items():
        reduced, whole = stored.requests(), records.read_requests(results / "runs" / id)
        if reduced is None:
            continue
        assert set(reduced) == {"due_s", "sent_s", "done_s", "outcome"}
        assert list(reduced["outcome"]) == list(whole["outcome"])
        for name in reference.TIMES:
            np.testing.assert_allclose(reduced[name], whole[name], rtol=0, atol=0.5e-6)
        was, now = (
            (home / records.REQUESTS).stat().st_size for home in (results / "runs" / id, stored.directory)
        )
        assert now < was
        assert stored.run.notes[-1] == reference.NOTE


def test_a_record_is_whole_but_for_paths(tmp_path: Path) -> None:
    run = records.read_run(published(tmp_path, SWEPT))
    argv = ("/usr/bin/python3", "-m", "servers", "--metrics", "/tmp/x/pod", "--upstream", "127.0.0.1:9")
    run = msgspec.structs.replace(run, target=msgspec.structs.replace(run.target, argv=argv))
    portable = reference.portable(run)
    assert portable.target.argv == (
        "python3",
        "-m",
        "servers",
        "--metrics",
        "pod",
        "--upstream",
        "127.0.0.1:9",
    )
    assert msgspec.structs.replace(portable, target=run.target) == run


def test_a_set_replaces_the_one_before(results: Path) -> None:
    reference.make(results, REGISTRY, (), 3, ("rag",))
    newer = published(results, replace(ASYNCIO, repeat=5)).name
    made = reference.make(results, REGISTRY, ("rag",), 1, ())
    found = kept(results)
    assert newer in found
    assert len(found) == 3
    assert len(made.gone) == 8 - 2
    assert set(made.gone).isdisjoint(found)
    assert not [path for path in files(results) if path.name.startswith(".")]


def test_the_report_is_made_of_it_and_says_what_is_missing(results: Path) -> None:
    reference.make(results, REGISTRY, (), 3, ("rag",))
    home = results / reference.HOME
    report.generate(home)
    text = (home / "report.md").read_text(encoding="utf-8")
    assert "- Requests were kept of 3 of 6 valid runs." in text
    assert "- Requests were kept of 0 of 2 valid runs." in text
    assert "Of 3 of these 6 runs the requests were not kept." in text
    drawn = {path.name for path in (home / "figures").iterdir()}
    assert {"rag-controlled-latency.png", "rag-controlled-gc.png", "sweep-controlled-in-flight.png"} <= drawn
    assert "sweep-controlled-latency.png" not in drawn
    assert len(list((home / "histograms").iterdir())) == 2


def test_what_cannot_be_kept_is_refused_and_nothing_lost(results: Path) -> None:
    reference.make(results, REGISTRY, (), 3, ("rag",))
    before = files(results)
    with pytest.raises(ScenarioError, match=r"rga: no valid run in .*runs, only of rag, sweep"):
        reference.make(results, REGISTRY, ("rga",), 3, ())
    (results / "runs" / replace(ASYNCIO, repeat=3).id / records.SAMPLES).unlink()
    with pytest.raises(MeasurementError, match="could not be written"):
        reference.make(results, REGISTRY, (), 3, ())
    assert files(results) == before
    with pytest.raises(MeasurementError, match="no valid run to keep; make one first"):
        reference.make(results / "nowhere", REGISTRY, (), 3, ())


def test_the_command_says_what_it_kept(results: Path) -> None:
    done = CliRunner().invoke(main, ["reference", "--results", str(results), "--runs", "1"])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("rag: threadpool, λ = 190/s: 1 run, requests of ")
    assert lines[3] == "sweep: gevent, λ = 60/s: 1 run"
    assert lines[4].startswith("4 runs, ")
    wrong = CliRunner().invoke(main, ["reference", "--results", str(results), "nothing"])
    assert (wrong.exit_code, len(wrong.output.splitlines())) == (2, 1)
