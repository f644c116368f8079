"""The pinning lab for real, in short: counts and ratios that noise cannot break, one model at a time."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from harness_support import Begin

from harness import records, report
from harness.expected import ENDPOINTS, THREADS

pytestmark = pytest.mark.e2e

LAB = """
[load]
route = "/hold/plain"
arrivals = "closed"
clients = 20
warmup = "0.3 s"
window = "2 s"
drain = "20 s"
timeout = "20 s"
bystander = "/health"

[upstream]
vector = "0 ms"
llm = "50 ms"

[pod]
hold = "on"
pins = "on"

[limits]
generator_gc_pause = "1 s"
little_share = 1.0
samples_missed_share = 1.0
cpu_shared_share = 1.0
cpu_steal_share = 1.0
kernel_events = 50
"""


@pytest.fixture
def lab(tmp_path: Path) -> tuple[str, str]:
    """The options that ask for the short lab."""
    file = tmp_path / "lab.toml"
    file.write_text(LAB)
    return "--scenario", str(file)


@pytest.mark.parametrize("target", ["threadpool", "asyncio"])  # others: conformance, and below
def test_what_is_held_decides(begin: Begin, lab: tuple[str, str], target: str) -> None:
    harness = begin("pinning", target, *lab, "--runs", "1", "--json")
    stdout, _ = harness.process.communicate(timeout=170)
    assert harness.process.returncode == 0, harness.log.read_text()
    result = json.loads(stdout)
    found = {cell["endpoint"]: cell["measured"] for cell in result["cells"]}
    (sixth,) = result["deadlocks"]
    assert list(found) == list(ENDPOINTS)
    plain, own = found["plain"], found["lock-striped"]
    striped, shared, waiting = (found[name] for name in ("sync-striped", "sync-shared", "lock-shared"))
    assert own["throughput_rps"] == pytest.approx(plain["throughput_rps"], rel=0.5)
    for one_at_a_time in (shared, waiting):
        assert one_at_a_time["upstream_in_flight"] <= 1
        assert one_at_a_time["throughput_rps"] < plain["throughput_rps"] / 3
    if target == THREADS:
        assert striped["throughput_rps"] == pytest.approx(plain["throughput_rps"], rel=0.5)
        assert {found[name]["pins"] for name in ENDPOINTS} == {0}
        assert sixth["answered"] == sixth["requests"]
        return
    assert max(own["pins_per_request"], waiting["pins_per_request"]) < 0.2
    assert striped["upstream_in_flight"] <= 1
    for pinning in (striped, shared):
        assert pinning["pins_per_request"] == pytest.approx(1, abs=0.1)
        assert pinning["attributed_share"] >= 0.98
        assert pinning["bystander_p50_s"] > 3 * waiting["bystander_p50_s"]
    assert sixth["exit_code"] == 70
    assert sixth["holder"]["handler"] == sixth["waiters"][0]["handler"] == "/hold/deadlock"
    assert sixth["holder"]["at"].startswith("servers/hold.py:")


def test_pins_are_in_the_record_on_the_screen_and_in_the_report(begin: Begin, lab: tuple[str, str]) -> None:
    """Of an ordinary scenario, and of the lab beside it."""
    ordinary = begin("run", "trio", "--set", "pod.pins=on")
    said, _ = ordinary.process.communicate(timeout=60)
    assert "  pins       " in said
    assert "limit none: not judged" in said
    held = begin(
        "run", "trio", *lab, "--set", "load.route=/hold/lock-striped", "--set", "limits.pins_per_request=9"
    )
    said, _ = held.process.communicate(timeout=60)
    assert "  bystander  /health: p50 " in said
    assert "ok   pins" in said
    runs = {
        run.scenario.name: run for run in map(records.read_run, sorted((held.results / "runs").iterdir()))
    }
    assert all(run.pins is not None and run.pins.per_request is not None for run in runs.values())
    assert (runs["lab"].bystander is not None, runs["short"].bystander) == (True, None)
    report.generate(held.results)
    for name in runs:
        rows = list(csv.DictReader((held.results / "tables" / f"{name}.csv").read_text().splitlines()))
        assert [float(row["pins_per_request"]) >= 0 for row in rows] == [True]
    text = (held.results / "report.md").read_text()
    assert "lock-striped: trio" in text
    assert "pins / request" in text
