"""The harness as a process of its own, on a pipeline of one second or less."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness_support import ROOT, SHORT, TARGETS, Begin, Harness


def _interruptible() -> None:
    """A suite that a shell started in the background ignores SIGINT, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """`begin("run", "asyncio", …)` starts a harness command on the short scenario."""
    scenario, targets = tmp_path / "short.toml", tmp_path / "targets.toml"
    scenario.write_text(SHORT)
    targets.write_text(TARGETS)
    started: list[Harness] = []

    def start(command: str, target: str, *options: str) -> Harness:
        log = tmp_path / f"harness-{len(started)}.log"
        results = tmp_path / "results"
        argv = [sys.executable, "-m", "harness.cli", command, target]
        if command != "sweep":  # its own argument is the scenario
            argv += ["--scenario", str(scenario)]
        argv += ["--targets", str(targets), "--results", str(results), *options]
        with log.open("w") as output:
            process = subprocess.Popen(
                argv,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
                preexec_fn=_interruptible,
            )
        started.append(Harness(process, results, log))
        return started[-1]

    yield start
    for harness in started:
        harness.process.kill()
        harness.process.communicate()
        for process in harness.leftovers():
            process.kill()
