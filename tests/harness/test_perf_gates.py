"""The gate's benchmark on runs that were never made: what it draws, and that it finds what was put in."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from synthetic import make_run

from harness.perf import gates
from harness.run import Run


def test_it_finds_what_was_added_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, asked = random.Random(3), []

    def once(model: str, changes: Mapping[str, str], name: str) -> Run:
        asked.append(dict(changes))
        return make_run(
            300,
            cpu_s=0.0006 * draw.gauss(1, 0.01) + int(changes.get("pod.cpu_us", "0")) / 1e6,
            each_bytes=6_400 * draw.gauss(1, 0.005) + int(changes.get("pod.ballast_bytes", "0")),
            overhead_s=0.008 * draw.gauss(1, 0.05),
        )

    monkeypatch.setattr(gates, "once", once)
    same, cpu, memory, took = gates.gate()
    assert (same.value, same.reached) == (0, True)
    assert (cpu.reached, memory.reached) == (True, True)
    assert "pod.ballast_bytes=6" in memory.note
    assert took.reached, "nothing took any time here"
    assert len(asked) == 1 + 4 * gates.ROUNDS
    assert asked[1:].count({}) == 2 * gates.ROUNDS
