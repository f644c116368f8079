"""Commands: what is wrong is refused in one line with exit code 2, before anything starts."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import main

REFUSED = [
    ("check asynci", 'did you mean "asyncio"'),
    ("check asyncio --scenario rga", "unknown scenario"),
    ("check asyncio --scenario /no/such.toml", "no such scenario file"),
    ("check asyncio --rate 0", "--rate"),
    ("check asyncio --rate -5", "--rate"),
    ("check asyncio --rate fast", "--rate"),
    ("check asyncio --rate 500/fortnight", "--rate"),
    ("check asyncio --duration 0", "--duration"),
    ("check asyncio --duration 10", "shorter than W"),
    ("check asyncio --duration 10parsec", "--duration"),
    ("check asyncio --set load.in_flight_max=500", "below λW"),
    ("check asyncio --set load.ratee=5/s", 'did you mean "rate"'),
    ("check asyncio --set pod.thread=5", "pod.thread"),
    ("check threadpool --set pod.threads=0", "pod.threads"),
    ("check threadpool --set pod.threads=many", "pod.threads"),
    ("check asyncio --set pod.loop=tornado", "pod.loop"),
    ("check asyncio --set threads", "KEY=VALUE"),
    ("check asyncio --rate 20000", "too few ports"),
    ("check asyncio --set pod.workers=1", "too few descriptors"),
    ("check asyncio --targets /no/targets.toml", "/no/targets.toml"),
    ("gate asyncio --baseline /no/baseline.json", "/no/baseline.json"),
    ("gate asyncio --base-ref no-such-revision", "--base-ref no-such-revision"),
    ("gate nobody", "unknown target"),
    ("capacity nobody", "unknown target"),
    ("pinning nobody", "unknown target"),
    ("pinning asyncio --scenario rag", 'arrivals = "closed"'),
    ("pinning asyncio --set pod.hold=off", 'hold = "on"'),
    ("check asyncio --scenario pinning --rate 5", "the clients of a closed load"),
    ("bench asyncio --scenario pinning", "no rate to vary"),
    ("capacity asyncio --scenario pinning", "no rate to vary"),
    ("gate asyncio --scenario pinning", "no rate to vary"),
    ("baseline asyncio --scenario pinning", "no rate to vary"),
    ("admission nobody", "unknown target"),
    ("admission --scenario rag", "it has no [database]"),
    ("admission asyncio --set pod.connections=0", "pod.connections: "),
    ("check asyncio --set load.route=/db", "a table [database]"),
    ("check asyncio --scenario admission --set database.hold=0", "database.hold"),
    ("sweep rag", "has no table [sweep]"),
    ("sweep sweep-gcc", 'did you mean "sweep-gc"'),
    ("sweep sweep-gc nobody", "unknown target"),
    ("sweep sweep-threads asyncio", "pod.threads: asyncio has no such option"),
    ("sweep sweep-gc --set pod.gc=off", "the sweep itself sets pod.gc"),
    ("sweep sweep-gc --duration 2", "shorter than W"),
]


def harness(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(("command", "said"), REFUSED, ids=[command for command, _ in REFUSED])
def test_refused_in_one_line(command: str, said: str) -> None:
    result = harness(*command.split())
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = harness("run", "asyncio", "--port", port, "--results", str(tmp_path / "results"))
    assert result.exit_code == 2
    assert f"--port {port}: already in use" in result.stderr
    assert not (tmp_path / "results").exists()


def test_check_says_what_a_run_would_need() -> None:
    result = harness("check", "asyncio", "--rate", "450")
    assert result.exit_code == 0
    assert "predicted 9,009 in flight" in result.stdout
    found = json.loads(harness("check", "threadpool", "--rate", "11", "--json").stdout)
    assert found["prediction"]["bound_by"] == "pool"
    assert found["prediction"]["rate_max_rps"] == pytest.approx(200 / 20.02)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--rate 5", "a p99 needs 368"),
        ("--warmup 2", "shorter than W"),
        ("--set pod.cpus=0", "share all CPUs"),
    ],
)
def test_what_weakens_a_result_is_a_warning(options: str, said: str) -> None:
    result = harness("check", "asyncio", *options.split())
    assert result.exit_code == 0
    assert said in result.output


def test_show_of_nothing_says_where_runs_are() -> None:
    result = harness("show", "20200101T000000-nobody")
    assert result.exit_code == 6
    assert "give a directory of results/runs/" in result.stderr


def test_plan_without_a_measured_capacity_says_how_to_get_one(tmp_path: Path) -> None:
    result = harness("plan", "--rate", "500", "--results", str(tmp_path))
    assert result.exit_code == 6
    assert "harness capacity TARGET --scenario capacity" in result.stderr


def test_the_schema_is_published() -> None:
    published = json.loads(harness("schema").stdout)
    assert published["$schema"].startswith("https://json-schema.org/")


def test_targets_are_listed() -> None:
    listed = harness("targets").stdout
    assert all(name in listed for name in ("threadpool", "asyncio", "trio", "gevent"))
