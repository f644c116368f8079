"""Real runs on a short pipeline: what a good one leaves, and how each broken one is judged."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import numpy as np
import psutil
import pytest
from harness_support import Begin, Harness

from harness import records

pytestmark = pytest.mark.e2e


def runs(results: Path, home: str) -> list[Path]:
    return sorted(path for path in (results / home).glob("*") if path.is_dir())


def only(results: Path, home: str) -> Path:
    (path,) = runs(results, home)
    return path


def discarded(harness: Harness) -> tuple[Path, str]:
    """The one discarded run, and the line that says why."""
    path = only(harness.results, "discarded")
    assert not runs(harness.results, "runs"), "an invalid run never enters results/runs/"
    readme = (harness.results / "discarded" / "README.md").read_text()
    (line,) = (line for line in readme.splitlines() if path.name in line)
    return path, line


def failed_checks(path: Path) -> set[str]:
    return {check.name for check in records.read_run(path).verdict.checks if check.ok is False}


@pytest.mark.parametrize("target", ["threadpool", "asyncio", "trio", "gevent"])
def test_a_good_run_leaves_a_whole_record(begin: Begin, target: str) -> None:
    harness = begin("run", target, "--json")
    stdout, _ = harness.process.communicate(timeout=60)
    assert harness.process.returncode == 0, harness.log.read_text()
    path = only(harness.results, "runs")
    assert json.loads(stdout) == json.loads((path / "run.json").read_text())
    jsonschema.validate(json.loads(stdout), records.json_schema())
    run, requests, samples = records.read_run(path), records.read_requests(path), records.read_samples(path)
    assert run.verdict.valid
    assert run.target.name == run.model == target
    assert len(requests["due_s"]) == 222, "60/s for 3.7 s, to the request"
    assert np.array_equal(requests["sequence"], np.arange(222))
    assert set(requests["outcome"]) == {"ok"}
    assert (requests["done_s"] - requests["sent_s"]).min() >= 1.2
    assert samples["handled_total"][-1] == samples["upstream_chat_total"][-1] == 222
    assert samples["in_flight"].max() > 10
    assert run.resources.bytes_per_request_in_flight is not None
    assert run.source.hash_start == run.source.hash_end
    for log in ("pod.log", "upstream.log", "generator.log"):
        assert (path / log).exists()


def test_several_workers_and_generators_share_the_work(begin: Begin) -> None:
    harness = begin("run", "asyncio", "--set", "pod.workers=2", "--rate", "100")
    harness.wait_for("  window ")
    workers = [p for p in harness.family.values() if "servers" in " ".join(p.cmdline())]
    code, said = harness.end()
    assert code == 0, said
    assert len(workers) >= 3, "two workers and their supervisor, besides the leash"
    assert records.read_run(only(harness.results, "runs")).target.workers == 2


def test_bench_makes_both_runs_of_a_small_pool_and_the_row(begin: Begin) -> None:
    harness = begin("bench", "threadpool", "--set", "pod.threads=10", "--json")
    stdout, _ = harness.process.communicate(timeout=90)
    (row,) = json.loads(stdout)
    assert harness.process.returncode == 0, harness.log.read_text()
    assert row["bound_by"] == "pool"
    assert row["predicted_rps"] == pytest.approx(10 / 1.201)
    assert row["ratio"] == pytest.approx(1, abs=0.1)
    assert row["pods"] in (7, 8, 9)
    regimes = {records.read_run(path).scenario.load.regime for path in runs(harness.results, "runs")}
    assert regimes == {"steady", "saturated"}


def test_an_upstream_that_is_never_reached_is_no_result(begin: Begin) -> None:
    harness = begin("run", "lost")
    code, said = harness.end()
    assert code == 3, said
    path, line = discarded(harness)
    assert {"failures", "completions", "upstream_reached"} <= failed_checks(path) | {"upstream_reached"}
    assert "failures" in line
    assert records.read_run(path).summary.latency_s.p99 is None


def test_a_server_that_answers_at_once_is_no_result(begin: Begin) -> None:
    harness = begin("run", "instant")
    assert harness.end()[0] == 3
    path, _ = discarded(harness)
    assert {"upstream_reached", "latency_floor"} <= failed_checks(path)


def test_a_generator_starved_of_cpu_is_no_result(begin: Begin) -> None:
    harness = begin("run", "asyncio")
    harness.wait_for("  window ")
    generator = harness.find("harness.generator")
    generator.suspend()
    time.sleep(0.9)
    generator.resume()
    code, said = harness.end()
    assert code == 3, said
    assert "send_lag_p99" in failed_checks(discarded(harness)[0])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("servers", "asyncio"), 4, "asyncio ended during the run"),
        (("harness.upstream",), 6, "the upstream ended during the run"),
        (("harness.generator",), 5, "the generator ended before the load did"),
    ],
)
def test_a_companion_that_dies_ends_the_run(
    begin: Begin, words: tuple[str, ...], code: int, said: str
) -> None:
    harness = begin("run", "asyncio")
    harness.wait_for("  warmup ")
    harness.find(*words).kill()
    ended, text = harness.end()
    assert ended == code, text
    assert said in text
    assert said in discarded(harness)[1]
    assert harness.leftovers() == []


def test_a_pod_worker_that_dies_ends_the_run(begin: Begin) -> None:
    harness = begin("run", "trio", "--set", "pod.workers=2")
    harness.wait_for("  warmup ")
    supervisor = harness.find("servers", "trio")
    supervisor.children()[0].kill()
    ended, text = harness.end()
    assert ended == 4
    assert "the pod ends" in text, "the server's last words are shown"


@pytest.mark.parametrize(
    ("target", "said"), [("absent", "/nonexistent/server"), ("crash", "no module named weights")]
)
def test_a_server_that_does_not_start_is_the_targets_fault(begin: Begin, target: str, said: str) -> None:
    code, text = begin("run", target).end()
    assert code == 4
    assert said in text


def test_a_full_disk_loses_the_run_and_nothing_else(begin: Begin) -> None:
    harness = begin("run", "asyncio")
    harness.wait_for("  window ")
    psutil.Process(harness.process.pid).rlimit(psutil.RLIMIT_FSIZE, (4096, 4096))
    code, text = harness.end()
    assert code == 6, text
    assert "could not be written" in text
    assert not runs(harness.results, "runs")
    assert harness.leftovers() == []


def test_a_second_run_on_the_same_machine_is_refused(begin: Begin) -> None:
    first = begin("run", "asyncio")
    first.wait_for("  start ")
    code, text = begin("run", "asyncio").end()
    assert code == 6
    assert f"pid {first.process.pid}" in text
    assert first.end()[0] == 0
