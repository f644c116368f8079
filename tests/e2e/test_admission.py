"""Overload before a real PostgreSQL: what each condition gives, and a database that goes away during a run."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import psutil
import pytest
from harness_support import Begin, Harness
from support import free_port, needs_postgres, parse, read_response, request

from harness import records
from harness.pod import port_is_free

pytestmark = [pytest.mark.e2e, needs_postgres]

COMPRESSED = ("--scenario", "admission-compressed")
# What a noisy machine may do to a run that is shorter than its disturbances.
LENIENT = [
    word
    for limit in (
        *("send_lag_p99=200 ms", "little_share=0.3", "database_share=0.5", "samples_missed_share=0.5"),
        *("cpu_shared_share=1.0", "cpu_steal_share=1.0", "kernel_events=50"),
    )
    for word in ("--set", f"limits.{limit}")
]


def run(begin: Begin, *options: str) -> Harness:
    return begin("run", "asyncio", *COMPRESSED, *LENIENT, *options)


def ended(harness: Harness, code: int) -> str:
    """What it said; nothing of it is left."""
    found, said = harness.end()
    assert found == code, said
    assert harness.leftovers() == []
    assert all(port_is_free(port) for port in harness.ports)
    return said


def discarded(harness: Harness) -> str:
    assert not [path for path in (harness.results / "runs").glob("*") if path.is_dir()]
    return (harness.results / "discarded" / "README.md").read_text()


@pytest.mark.timeout(400)
def test_the_conditions_differ_in_where_the_excess_goes_and_in_nothing_else(begin: Begin) -> None:
    pools = ("--threads", "25", "--threads", "90")
    harness = begin("admission", "asyncio", "threadpool", *COMPRESSED, *LENIENT, *pools, "--json")
    stdout, _ = harness.process.communicate(timeout=380)
    assert harness.process.returncode == 0, harness.log.read_text()
    rows = {row["condition"]: row for row in json.loads(stdout)}
    plain = ("threadpool 25", "threadpool 90", "asyncio")
    assert set(rows) == {*plain, *(f"{name} + semaphore" for name in plain)}
    outcomes = ("ok_count", "refused_429", "refused_503", "timed_out", "unsent")
    for name, row in rows.items():
        assert row["verdict"] == "valid"
        assert sum(row[outcome] for outcome in outcomes) == 1260, f"{name}: 300/s for 4.2 s, to the request"
        assert row["ok_count"] == pytest.approx(row["predicted_ok"], rel=0.4)
        guarded = name.endswith("semaphore")
        assert bool(row["refused_429"]) == guarded
        assert not (guarded and row["refused_503"])
    below, above, everybody = (rows[name] for name in plain)
    assert below["refused_503"] == 0 < min(above["refused_503"], everybody["refused_503"])
    assert below["unsent"] > above["unsent"] > everybody["unsent"]
    assert below["ok_p50_ms"] > above["ok_p50_ms"] > everybody["ok_p50_ms"]
    assert everybody["waiting_mean"] > below["waiting_mean"] > 5 > rows["asyncio + semaphore"]["waiting_mean"]
    rates = [row["ok_rps"] for row in rows.values()]
    assert max(rates) / min(rates) < 1.4
    _holds_no_password(harness.results)


def _holds_no_password(results: Path) -> None:
    kept = [path for path in (results / "runs").iterdir() if path.is_dir()]
    assert len(kept) == 6
    for path in kept:
        recorded = records.read_run(path)
        assert any(note.startswith("database: PostgreSQL") for note in recorded.notes)
        assert recorded.database is not None
        assert recorded.target.argv[recorded.target.argv.index("--db-hold-ms") + 1] == "50"
        assert (path / "postgres.log").exists()
        for file in path.iterdir():
            assert b"postgresql://" not in file.read_bytes(), file.name


def test_a_refusal_at_the_door_says_when_to_come_back(begin: Begin) -> None:
    port = free_port()
    harness = run(begin, "--set", "pod.permits=5", "--port", str(port))
    harness.wait_for("  window ")
    answers = [_ask(port) for _ in range(20)]
    refused = [answer for answer in answers if parse(answer)[0] == 429]
    assert refused
    assert all(b"\r\nretry-after: 1\r\n" in answer for answer in refused)
    ended(harness, 0)


def _ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        sock.sendall(request("/db"))
        return read_response(sock)


def test_a_database_that_is_killed_ends_the_run_with_one_clear_line(begin: Begin) -> None:
    harness = run(begin)
    harness.wait_for("  window ")
    harness.find("postgres", "-D").kill()
    said = ended(harness, 6)
    assert "error: PostgreSQL ended during the run (killed by SIGKILL)" in said
    assert "PostgreSQL ended during the run" in discarded(harness)


def test_a_database_that_stands_still_makes_the_run_invalid(begin: Begin) -> None:
    harness = run(begin)
    harness.wait_for("  window ")
    postmaster = harness.find("postgres", "-D")
    for process in (postmaster, *postmaster.children(recursive=True)):
        process.suspend()
    ended(harness, 3)
    assert "database_throughput" in discarded(harness)


def test_a_connection_that_is_cut_makes_the_run_invalid(begin: Begin) -> None:
    """The postmaster starts over with all its processes, and the pool connects again: only a count remembers."""
    harness = run(begin)
    harness.wait_for("  window ")
    backends = [p for p in harness.find("postgres", "-D").children() if _is_backend(p)]
    backends[0].kill()
    ended(harness, 3)
    assert "database_present" in discarded(harness)


def _is_backend(process: psutil.Process) -> bool:
    return "harness postgres 127.0.0.1" in " ".join(process.cmdline())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda s: s.name)
@pytest.mark.parametrize("phase", ["start", "window"])
def test_whoever_ends_the_harness_ends_its_database(begin: Begin, number: signal.Signals, phase: str) -> None:
    harness = run(begin)
    harness.wait_for(f"  {phase} ")
    harness.process.send_signal(number)
    ended(harness, 130 if number == signal.SIGINT else -signal.SIGKILL)
