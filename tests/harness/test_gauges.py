"""Gauges read from outside: files as prometheus_client's multiprocess mode writes them."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from harness import gauges

WRITER = """
from prometheus_client import Counter, Gauge, Summary
active = Gauge("http_server_active_requests", "h", multiprocess_mode="livesum")
requests = Counter("http_server_requests", "h", ["outcome"])
seconds = Summary("http_server_request_duration_seconds", "h")
active.inc(5)
active.dec(2)
requests.labels("ok").inc(7)
requests.labels("failed").inc()
seconds.observe(0.25)
seconds.observe(0.5)
"""


def write(path: Path, **samples: float) -> None:
    file = MmapedDict(str(path))
    for name, value in samples.items():
        file.write_value(mmap_key(name, name, [], [], "help"), value, 0.0)
    file.close()


def test_what_a_process_writes_is_read(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", WRITER], env=environment, check=True, timeout=30)
    assert gauges.read(tmp_path) == {
        "http_server_active_requests": 6,
        'http_server_requests_total{outcome="ok"}': 14,
        'http_server_requests_total{outcome="failed"}': 2,
        "http_server_request_duration_seconds_count": 4,
        "http_server_request_duration_seconds_sum": 1.5,
    }


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ('["a", "a_total", {}, "help"]', "a_total"),
        ('["a", "a", {"route": "chat"}, "x"]', 'a{route="chat"}'),
        ('["a", "a", {"b": "1", "c": "2"}, "x"]', 'a{b="1",c="2"}'),
    ],
)
def test_names(key: str, name: str) -> None:
    assert gauges.sample_name(key) == name


def test_a_target_without_gauges_has_none(tmp_path: Path) -> None:
    assert gauges.read(tmp_path / "absent") == {}
    assert gauges.read(tmp_path) == {}


def test_a_file_just_being_created_is_empty(tmp_path: Path) -> None:
    write(tmp_path / "counter_1.db", a=1)
    (tmp_path / "counter_2.db").touch()
    (tmp_path / "counter_3.db").write_bytes(bytes(1 << 16))  # has its size, but no length yet
    assert gauges.read(tmp_path) == {"a": 1}


def test_a_file_is_read_while_it_grows(tmp_path: Path) -> None:
    """Past the first page, and past the size it began with, while its writer holds it open."""
    file = MmapedDict(str(tmp_path / "counter_1.db"))
    expected = {}
    for number in range(1500):
        name = f"sample_{number:04}_{'x' * 40}"
        file.write_value(mmap_key(name, name, [], [], "help"), number, 0.0)
        expected[name] = float(number)
        if number % 250 == 0:
            assert gauges.read(tmp_path) == expected
    assert (tmp_path / "counter_1.db").stat().st_size > 1 << 16
    assert gauges.read(tmp_path) == expected
    file.close()


def test_a_file_that_goes_away_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "gauge_livesum_1.db", a=1)
    monkeypatch.setattr(
        Path, "glob", lambda self, _: [self / "gauge_livesum_0.db", self / "gauge_livesum_1.db"]
    )
    assert gauges.read(tmp_path) == {"a": 1}


def test_gc_pauses_of_all_processes_in_order(tmp_path: Path) -> None:
    record = struct.Struct("<ddB")
    assert record.size == gauges.GC_RECORD.itemsize
    (tmp_path / "gc_1.log").write_bytes(record.pack(1.0, 0.1, 0) + record.pack(3.0, 0.3, 2))
    (tmp_path / "gc_2.log").write_bytes(record.pack(2.0, 0.2, 1) + b"half a record"[:5])
    pauses = gauges.gc_pauses(tmp_path)
    assert pauses.tolist() == [(1.0, 0.1, 0), (2.0, 0.2, 1), (3.0, 0.3, 2)]
    assert pauses["pause_s"].sum() == pytest.approx(0.6)


def test_no_gc_log_is_no_pause(tmp_path: Path) -> None:
    assert gauges.gc_pauses(tmp_path).shape == gauges.gc_pauses(tmp_path / "absent").shape == (0,)
