"""A sweep through the command, on a short pipeline: all of it, one condition short, and interrupted."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from harness_support import SHORT, Begin
from support import wait_until

from harness import records, report

pytestmark = pytest.mark.e2e

SWEEP = """
[sweep]
axis = "pod.gc"
targets = ["asyncio"]
values = ["default", "off", { pod.gc = "freeze", pod.descriptors = 64 }]
"""


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(SHORT + SWEEP)
    return str(path)


def test_every_condition_is_run_and_one_that_cannot_start_is_said(begin: Begin, tiny: str) -> None:
    harness = begin("sweep", tiny, "--json")
    stdout, _ = harness.process.communicate(timeout=60)
    said = harness.log.read_text()
    assert harness.process.returncode == 3, said
    assert said.count("skipped: asyncio pod.gc=freeze: ") == 1
    assert "2/2 asyncio pod.gc=" in said
    rows = {row["target"]: row for row in json.loads(stdout)}
    assert [rows[f"asyncio pod.gc={gc}"]["valid"] for gc in ("default", "off", "freeze")] == [
        True,
        True,
        False,
    ]
    made = [path for path in (harness.results / "runs").iterdir() if path.is_dir()]
    runs = [records.read_run(path) for path in made]
    assert sorted(str(run.target.options["gc"]) for run in runs) == ["default", "off"]
    assert {run.scenario.name for run in runs} == {"tiny"}
    written = [path.name for path in report.generate(harness.results)]
    assert "tiny-controlled-sweep-gc.png" in written
    assert "tiny-controlled-latency.png" not in written


def test_an_interrupt_ends_the_whole_sweep_and_keeps_what_was_made(begin: Begin, tiny: str) -> None:
    harness = begin("sweep", tiny)
    harness.wait_for("2/2 ")
    wait_until(lambda: "  warmup " in harness.log.read_text().partition("2/2 ")[2])
    harness.look()
    harness.process.send_signal(signal.SIGINT)
    code, said = harness.end(20)
    assert code == 130, said
    assert harness.leftovers() == []
    assert len([path for path in (harness.results / "runs").iterdir() if path.is_dir()]) == 1
