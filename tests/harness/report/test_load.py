"""What is read from the disk: valid runs, and of the others only that they were discarded and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic_runs import Pod, published

from harness import records
from harness.errors import MeasurementError
from harness.report.load import Discarded, latencies_s, load

SMALL = Pod(scenario="rag-compressed", rate_rps=20, w_s=1.0, window_s=5.0)


def test_a_valid_run_comes_with_its_columns(tmp_path: Path) -> None:
    directory = published(tmp_path, SMALL)
    (stored,) = load(tmp_path).valid
    assert stored.directory == directory
    assert stored.run.id == SMALL.id
    requests = stored.requests()
    assert requests is not None
    latency = latencies_s(stored.run, requests)
    assert latency.size == stored.run.summary.completed == 100
    assert np.all((latency > 1.0) & (latency < 1.5))
    assert set(stored.samples()) >= {"t_s", "in_flight"}
    pauses = stored.collections()
    assert pauses is not None
    assert len(pauses["end_s"]) == 0


def test_collections_may_be_absent_but_not_broken(tmp_path: Path) -> None:
    directory = published(tmp_path, SMALL)
    (stored,) = load(tmp_path).valid
    (directory / "gc.parquet").write_bytes(b"PAR1")
    with pytest.raises(MeasurementError, match=r"gc\.parquet: not readable"):
        stored.collections()
    (directory / "gc.parquet").unlink()
    assert stored.collections() is None


def test_requests_may_be_absent_but_not_broken(tmp_path: Path) -> None:
    directory = published(tmp_path, SMALL)
    (stored,) = load(tmp_path).valid
    (directory / "requests.parquet").write_bytes(b"PAR1")
    with pytest.raises(MeasurementError, match=r"requests\.parquet: not readable"):
        stored.requests()
    (directory / "requests.parquet").unlink()
    assert stored.requests() is None


def test_what_does_not_count_is_counted(tmp_path: Path) -> None:
    published(tmp_path, SMALL)
    published(tmp_path, replace(SMALL, valid=False, repeat=2))
    kept = published(tmp_path, replace(SMALL, repeat=3), discarded="drift, unsent")
    staging = records.stage(tmp_path, records.new_id("trio", "rag-compressed", SMALL.created))
    broken = records.publish(staging, discarded="Ctrl-C")
    unreadable = tmp_path / "runs" / "20261130T090000-gevent-rag-0000"
    unreadable.mkdir()
    (tmp_path / "runs" / ".20261130T090000-x-rag-0001.partial").mkdir()

    shelf = load(tmp_path)
    assert [stored.run.id for stored in shelf.valid] == [SMALL.id]
    reasons = {item.id: item.reason for item in shelf.discarded}
    assert reasons[replace(SMALL, valid=False, repeat=2).id] == "completions"
    assert reasons[kept.name] == "drift, unsent"
    assert reasons[broken.name] == "Ctrl-C"
    assert reasons[unreadable.name].startswith("run.json: no run here")
    assert str(tmp_path) not in reasons[unreadable.name]
    assert len(reasons) == 4
    assert shelf.scenarios() == ["rag-compressed"]


def test_reasons_outlive_their_directories(tmp_path: Path) -> None:
    home = published(tmp_path, SMALL, discarded="drift")
    for file in home.iterdir():
        file.unlink()
    home.rmdir()
    assert [(item.id, item.reason, item.run) for item in load(tmp_path).discarded] == [
        (SMALL.id, "drift", None)
    ]


def test_nothing_there_is_no_error(tmp_path: Path) -> None:
    shelf = load(tmp_path)
    assert (shelf.valid, shelf.discarded) == ((), ())


@pytest.mark.parametrize(
    ("run_id", "scenario", "is_of"),
    [
        ("20261130T090000-trio-rag-0a1b", "rag", True),
        ("20261130T090000-trio-rag-compressed-0a1b", "rag-compressed", True),
        ("20261130T090000-trio-rag-compressed-0a1b", "rag", False),
        ("20261130T090000-trio-a-b-0a1b", "a/b", True),
        ("something", "rag", False),
    ],
)
def test_an_id_tells_the_scenario(run_id: str, scenario: str, is_of: bool) -> None:
    assert Discarded(run_id, "why").is_of(scenario) is is_of
