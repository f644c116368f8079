"""What became of the sixth endpoint: how it is judged, worded, kept and read. (For real: tests/e2e.)"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from harness import deadlock
from harness.deadlock import Deadlock, Party
from harness.errors import MeasurementError

HOLDER = Party("/hold/deadlock", "servers/hold.py:56 hold", 1.2)
WAITER = Party("/hold/deadlock", "servers/hold.py:55 hold", 1.0, ("servers/guard.py:45 __aenter__",))
ENDED = Deadlock(
    target="asyncio",
    model="asyncio",
    created="2026-11-30T12:00:00+00:00",
    commit=None,
    requests=8,
    answered=0,
    took_s=1.3,
    exit_code=70,
    holder=HOLDER,
    waiters=(WAITER,),
)
SERVED = msgspec.structs.replace(
    ENDED, target="threadpool", model="threadpool", answered=8, exit_code=None, holder=None, waiters=()
)


@dataclass(frozen=True)
class Case:
    found: Deadlock
    as_expected: bool
    said: str


CASES = [
    Case(ENDED, True, "deadlock: the guard ended the pod after 1.3 s, exit status 70"),
    Case(SERVED, True, "8 of 8 requests answered in 1.3 s, one after the other: no deadlock"),
    Case(msgspec.structs.replace(ENDED, exit_code=1), False, "the pod ended with exit status 1"),
    Case(msgspec.structs.replace(ENDED, waiters=()), False, "the pod ended with exit status 70"),
    Case(msgspec.structs.replace(ENDED, model="threadpool"), False, "deadlock: "),
    Case(msgspec.structs.replace(SERVED, model="trio"), False, "no deadlock"),
    Case(msgspec.structs.replace(SERVED, answered=7), False, "7 of 8 requests answered in 1.3 s"),
]


@pytest.mark.parametrize("case", CASES)
def test_a_deadlock_is_expected_of_loops_and_of_nobody_else(case: Case) -> None:
    assert case.found.as_expected == case.as_expected
    assert case.said in case.found.outcome


def test_each_target_is_kept_beside_the_others(tmp_path: Path) -> None:
    deadlock.keep(tmp_path, "pinning", ENDED)
    file = deadlock.keep(tmp_path, "pinning", SERVED)
    assert deadlock.load(tmp_path, "pinning") == {"asyncio": ENDED, "threadpool": SERVED}
    assert list(file.parent.iterdir()) == [file]
    again = msgspec.structs.replace(ENDED, took_s=2.0)
    deadlock.keep(tmp_path, "pinning", again)
    assert deadlock.load(tmp_path, "pinning")["asyncio"] == again


def test_nothing_kept_is_nothing_and_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    assert deadlock.load(tmp_path, "pinning") == {}
    assert deadlock.load(tmp_path, "../\x00") == {}
    file = deadlock.keep(tmp_path, "pinning", ENDED)
    file.write_text("{")
    with pytest.raises(MeasurementError, match=r"pinning\.json: not readable.*run the lab again"):
        deadlock.load(tmp_path, "pinning")
