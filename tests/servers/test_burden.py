"""What a request is made to take: counted in CPU time, and memory that is there."""

from __future__ import annotations

import time

import pytest

from servers.burden import shoulder


@pytest.mark.parametrize("cpu_us", [1, 1_000, 20_000])
def test_the_work_is_cpu_time_of_this_thread(cpu_us: int) -> None:
    before_ns = time.thread_time_ns()
    assert shoulder(cpu_us, 0) == b""
    assert time.thread_time_ns() - before_ns >= 1000 * cpu_us


@pytest.mark.parametrize("size", [0, 1, 700, 1 << 20])
def test_the_ballast_is_written_to(size: int) -> None:
    ballast = shoulder(0, size)
    assert len(ballast) == size
    assert 0 not in ballast
