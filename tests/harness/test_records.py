"""Records: what a run leaves is complete under its name or not there at all, and is read back as it was."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_run

from harness import records
from harness.errors import MeasurementError
from harness.run import Run

ID = "20261130T091500-threadpool-rag-0a1b"
RUN = msgspec.structs.replace(
    make_run(9.99, w_s=20.02, target="threadpool", options={"threads": 200}, run_id=ID),
    versions={"trio": "0.35.0"},
    notes=("pss_bytes: too many threads to read it each second",),
)
REQUESTS = {
    "sequence": np.arange(4),
    "due_s": np.array([0.0, 0.1, 0.2, 0.3]),
    "done_s": np.array([20.0, 20.1, 20.2, np.nan]),
    "outcome": np.array(["ok", "ok", "ok", "unfinished"]),
}
SAMPLES = {"t_s": np.array([1.0, 2.0]), "in_flight": np.array([200.0, 200.0])}

# Issue 2: keys that others rely on.
RELIED_ON = {
    "": "schema_version id created model target scenario machine versions source verdict notes phases",
    "target": "name argv options workers",
    "machine": "cpus model_name memory_bytes kernel python class",
    "source": "commit dirty hash_start hash_end",
    "verdict": "valid checks",
    "verdict.checks.0": "name ok value limit detail",
    "summary": "planned sent unsent completed failed unfinished rate_offered_rps throughput_rps service_s",
    "summary.latency_s": "n p50 p90 p99 p99_low p99_high max",
    "summary.send_lag_s": "p50 p99 max",
    "resources": "cpu_percent cpu_s_per_request memory_at_rest_bytes bytes_per_request_in_flight",
    "resources.rss_bytes": "mean peak",
    "resources.pss_bytes": "mean peak",
    "resources.os_threads": "mean peak",
    "resources.descriptors": "mean peak",
    "resources.gc_pause_s": "total max count",
    "resources.generator": "cpu_s_per_request cpu_percent_max rss_peak_bytes",
    "concurrency": "handlers_mean client_mean upstream_mean",
    "prediction": "rate_max_rps concurrency bound_by ratio",
}


def written(results: Path, run: Run = RUN) -> Path:
    staging = records.stage(results, run.id)
    records.write_run(staging, run, REQUESTS, SAMPLES)
    return staging


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """A disk that fills up: a write beyond `size` fails with an OSError, for real."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def visible(results: Path) -> list[str]:
    return sorted(
        str(path.relative_to(results)) for path in results.glob("*/*") if not path.name.startswith(".")
    )


def test_a_valid_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    staging = written(tmp_path)
    assert visible(tmp_path) == []
    home = records.publish(staging)
    assert home == tmp_path / "runs" / ID
    assert visible(tmp_path) == [f"runs/{ID}"]
    assert not staging.exists()
    assert records.read_run(home) == RUN
    assert records.read_run(home / "run.json") == RUN
    requests, samples = records.read_requests(home), records.read_samples(home)
    assert list(requests) == list(REQUESTS)
    for name, column in REQUESTS.items():
        np.testing.assert_array_equal(requests[name], column)
    np.testing.assert_array_equal(samples["in_flight"], SAMPLES["in_flight"])


def test_a_discarded_run_leaves_its_reason(tmp_path: Path) -> None:
    second = msgspec.structs.replace(RUN, id=ID.replace("0a1b", "0a1c"))
    records.publish(written(tmp_path), discarded="ledger,\n  drift")
    home = records.publish(written(tmp_path, second), discarded="stopped by Ctrl-C")
    assert home == tmp_path / "discarded" / second.id
    lines = (tmp_path / "discarded" / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert lines[-2:] == [f"- {ID}: ledger, drift", f"- {second.id}: stopped by Ctrl-C"]
    assert not list((tmp_path / "runs").iterdir())
    assert records.read_run(home) == second


def test_a_broken_run_is_discarded_without_a_record(tmp_path: Path) -> None:
    staging = records.stage(tmp_path, ID)
    (staging / "pod.log").write_text("Traceback", encoding="utf-8")
    home = records.publish(staging, discarded="the server died")
    assert (home / "pod.log").read_text(encoding="utf-8") == "Traceback"
    with pytest.raises(MeasurementError, match=r"run\.json: no run here"):
        records.read_run(home)


@pytest.mark.parametrize("size", [0, 500, 2_500])
def test_a_full_disk_leaves_nothing_under_a_final_name(tmp_path: Path, size: int) -> None:
    staging = records.stage(tmp_path, ID)
    with files_no_larger_than(size), pytest.raises(MeasurementError, match="could not be written"):
        records.write_run(staging, RUN, REQUESTS, SAMPLES)
    assert visible(tmp_path) == []
    records.publish(staging, discarded="the disk is full")
    assert visible(tmp_path) == [f"discarded/{ID}", "discarded/README.md"]


def test_a_name_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    records.publish(written(tmp_path))
    staging = written(tmp_path, msgspec.structs.replace(RUN, notes=("another",)))
    with pytest.raises(MeasurementError, match="publishing it as"):
        records.publish(staging)
    assert records.read_run(tmp_path / "runs" / ID) == RUN
    with pytest.raises(MeasurementError, match="cannot create"):
        records.stage(tmp_path, ID)


def test_columns_of_one_table_have_one_length(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="could not be written"):
        records.write_run(records.stage(tmp_path, ID), RUN, {**REQUESTS, "sent_s": np.zeros(3)}, SAMPLES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", ["not a run's record", "discard it and run again"]),
        (b"{", ["not a run's record"]),
        (b'{"id": "x"}', ["not a run's record", "schema_version"]),
        (b'{"schema_version": 1}', ["not a run's record", "missing required field"]),
        (b'{"schema_version": 2}', ["schema version 2, this harness reads 1", "source.commit"]),
        (b"\xff\xfe", ["not a run's record"]),
    ],
)
def test_a_record_that_cannot_be_read_says_what_to_do(tmp_path: Path, text: bytes, words: list[str]) -> None:
    (tmp_path / "run.json").write_bytes(text)
    with pytest.raises(MeasurementError) as refused:
        records.read_run(tmp_path)
    for word in (str(tmp_path), *words):
        assert word in str(refused.value)


def test_a_table_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(MeasurementError, match=r"requests\.parquet: not readable"):
        records.read_requests(tmp_path)
    with pytest.raises(MeasurementError, match=r"samples\.parquet: not readable"):
        records.read_samples(tmp_path)


@pytest.mark.parametrize("path", sorted(RELIED_ON))
def test_the_keys_that_others_rely_on(path: str) -> None:
    at: Any = json.loads(msgspec.json.encode(RUN))
    for key in filter(None, path.split(".")):
        at = at[int(key)] if key.isdigit() else at[key]
    assert set(RELIED_ON[path].split()) <= set(at)


def test_the_published_schema_fits_and_can_refuse() -> None:
    schema = records.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    record = json.loads(msgspec.json.encode(RUN))
    validator.validate(record)
    assert not validator.is_valid({**record, "schema_version": 2})
    assert not validator.is_valid({key: value for key, value in record.items() if key != "verdict"})
    assert not validator.is_valid({**record, "summary": {**record["summary"], "sent": "many"}})


def test_an_id_says_what_ran() -> None:
    created = datetime(2026, 11, 30, 10, 15, tzinfo=timezone(timedelta(hours=1)))
    assert re.fullmatch(
        r"20261130T091500-threadpool-rag-[0-9a-f]{4}", records.new_id("threadpool", "rag", created)
    )


MOMENTS = st.datetimes(min_value=datetime(2000, 1, 1))


@given(st.text(max_size=30), MOMENTS, MOMENTS)
def test_ids_sort_by_time_and_are_safe_in_a_path(name: str, one: datetime, other: datetime) -> None:
    first, second = (records.new_id("t", name, when.replace(tzinfo=UTC)) for when in sorted((one, other)))
    assert first[:15] <= second[:15]
    assert re.fullmatch(r"[A-Za-z0-9_-]+", first)
