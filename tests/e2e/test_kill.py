"""Killed at any moment, the harness leaves no process, no port and no half-written result."""

from __future__ import annotations

import signal

import pytest
from harness_support import Begin

from harness.pod import port_is_free

pytestmark = pytest.mark.e2e

PHASES = ("start", "warmup", "window", "drain")


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_nothing_is_left(begin: Begin, number: signal.Signals, phase: str) -> None:
    harness = begin("run", "asyncio", "--set", "pod.workers=2")
    harness.wait_for(f"  {phase} ")
    harness.process.send_signal(number)
    code, text = harness.end(20)
    assert harness.leftovers() == []
    assert all(port_is_free(port) for port in harness.ports)
    partial = list((harness.results / "runs").glob(".*.partial"))
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
        assert len(partial) == 1, "what was half written has no name that anybody reads"
    else:
        assert code == 130, text
        assert text.count("interrupted") == 1
        assert partial == []
        assert "interrupted" in (harness.results / "discarded" / "README.md").read_text()


def test_the_next_run_discards_what_a_killed_harness_left(begin: Begin) -> None:
    killed = begin("run", "asyncio")
    killed.wait_for("  warmup ")
    killed.process.kill()
    killed.end()
    assert killed.leftovers() == []
    following = begin("run", "asyncio")
    assert following.end()[0] == 0
    assert list((following.results / "runs").glob(".*.partial")) == []
    assert "was killed" in (following.results / "discarded" / "README.md").read_text()
