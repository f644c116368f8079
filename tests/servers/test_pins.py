"""The pin monitor in a user's own service: what is a pin, whose it is, and what it leaves behind.

gevent runs here unpatched: its hub is the same, and pytest keeps its threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from resource import RUSAGE_THREAD, getrusage

import gevent
import pytest
import trio
import uvloop

from servers import pins
from servers.io import run

MODELS = ("asyncio", "uvloop", "trio", "gevent")
TIMES = 20
Part = Callable[[], Awaitable[None]]


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(autouse=True)
def nobody_watches() -> Iterator[None]:
    yield
    assert pins._watching is None, "a test left its monitor"


async def cooperate(model: str, seconds: float = 0.001) -> None:
    """A wait that lets others run."""
    if model == "trio":
        await trio.sleep(seconds)
    elif model == "gevent":
        gevent.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


async def together(model: str, *parts: Part) -> None:
    """Children of the task that calls it."""
    if model == "trio":
        async with trio.open_nursery() as nursery:
            for part in parts:
                nursery.start_soon(part)
    elif model == "gevent":
        gevent.joinall([gevent.spawn(lambda part: run(part()), part) for part in parts], raise_error=True)
    else:
        await asyncio.gather(*(part() for part in parts))


def watched(model: str, *parts: Part) -> dict[str, pins.Pins]:
    """Run the parts side by side under a monitor; the pins that it saw."""

    async def main() -> dict[str, pins.Pins]:
        monitor = pins.watch()
        try:
            await together(model, *parts)
        finally:
            monitor.close()
        return monitor.pins

    if model == "trio":
        return trio.run(main)
    if model == "gevent":
        return gevent.spawn(run, main()).get()  # type: ignore[no-any-return]
    return uvloop.run(main()) if model == "uvloop" else asyncio.run(main())


def helper() -> None:
    """What every handler goes through, and nobody may blame."""
    time.sleep(0.002)


def named(model: str, name: str, act: Callable[[], None], times: int = TIMES) -> Part:
    async def part() -> None:
        with pins.handler(name):
            for _ in range(times):
                await cooperate(model)
                act()

    return part


def burn() -> None:
    end_s = time.thread_time() + 0.004
    while time.thread_time() < end_s:
        pass


def test_each_pin_is_counted_and_is_its_handlers(model: str) -> None:
    found = watched(model, *(named(model, name, helper) for name in ("/a", "/b", "/c")))
    for name in ("/a", "/b", "/c"):
        assert found[name].count == TIMES
        assert found[name].seconds >= TIMES * 0.002


def test_a_calculation_is_no_pin(model: str) -> None:
    found = watched(model, named(model, "/burn", burn))
    # A machine that others use may take the CPU away in the middle of one; a pin would be seen each time.
    assert "/burn" not in found or found["/burn"].count <= TIMES // 4


def test_a_calculation_that_gives_way_for_a_moment_is_no_pin(model: str) -> None:
    def give_way() -> None:
        burn()
        time.sleep(0.00005)

    found = watched(model, named(model, "/burn", give_way))
    assert "/burn" not in found or found["/burn"].count <= TIMES // 4


@pytest.fixture
def crowded_cpu() -> Iterator[None]:
    """One CPU for this process and for one that always wants it; no thread of ours may interrupt."""
    cpus, interval_s = os.sched_getaffinity(0), sys.getswitchinterval()
    os.sched_setaffinity(0, {min(cpus)})
    sys.setswitchinterval(1.0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:  # on the same CPU
        try:
            yield
        finally:
            other.kill()
            sys.setswitchinterval(interval_s)
            os.sched_setaffinity(0, cpus)


@pytest.mark.usefixtures("crowded_cpu")
def test_a_calculation_that_others_push_off_the_cpu_is_no_pin(model: str) -> None:
    pushed = getrusage(RUSAGE_THREAD).ru_nivcsw
    found = watched(model, named(model, "/burn", burn))
    assert getrusage(RUSAGE_THREAD).ru_nivcsw - pushed >= TIMES // 2
    assert "/burn" not in found or found["/burn"].count <= TIMES // 4


def test_a_slow_wait_is_no_pin(model: str) -> None:
    async def slow() -> None:
        with pins.handler("/slow"):
            await cooperate(model, 0.1)

    assert "/slow" not in watched(model, slow)


def test_a_child_task_is_its_handlers(model: str) -> None:
    async def child() -> None:
        await cooperate(model)
        helper()

    async def parent() -> None:
        with pins.handler("/parent"):
            await together(model, child, child, child)

    assert watched(model, parent)["/parent"].count == 3


def test_a_handler_ends_where_it_ends(model: str) -> None:
    async def connection() -> None:
        helper()
        with pins.handler("/outer"):
            helper()
            with pins.handler("/inner"):
                helper()
            helper()
        helper()

    found = watched(model, connection)
    counts = {name: pin.count for name, pin in found.items()}
    assert counts.pop("/outer") == 2
    assert counts.pop("/inner") == 1
    ((name, count),) = counts.items()
    assert count == 2
    assert name.endswith("<lambda>" if model == "gevent" else "connection"), "named after what began"


def test_the_evidence_is_the_whole_stack(model: str, caplog: pytest.LogCaptureFixture) -> None:
    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        else:
            time.sleep(0.06)

    with caplog.at_level(logging.WARNING, "pins"):
        found = watched(model, named(model, "/deep", lambda: deep(30), times=2))
    assert found["/deep"].count == 2
    (stack,) = found["/deep"].stacks
    assert sum("deep" in at for at in stack) >= 31
    assert "test_pins.py" in stack[-1]
    assert [record.getMessage().split()[0] for record in caplog.records] == ["/deep"], (
        "the first one is logged"
    )


def test_other_threads_pin_nothing(model: str) -> None:
    """They may enter the same handlers, also while the loop is held; it is not theirs to hold."""

    def in_thread() -> None:
        time.sleep(0.01)
        with pins.handler("/thread"):
            time.sleep(0.02)

    async def beside() -> None:
        thread = threading.Thread(target=in_thread)
        with pins.handler("/loop"):
            thread.start()
            time.sleep(0.05)
            await cooperate(model)
        thread.join()

    found = watched(model, beside)
    assert found["/loop"].count == 1
    assert "/thread" not in found


def test_one_monitor_at_a_time() -> None:
    async def main() -> None:
        monitor = pins.watch()
        with pytest.raises(RuntimeError, match="watched already"):
            pins.watch()
        monitor.close()

    asyncio.run(main())


def test_a_closed_monitor_leaves_nothing_behind(model: str) -> None:
    run_before = asyncio.Handle._run
    first = watched(model, named(model, "/a", helper, 1))
    second = watched(model, named(model, "/a", helper, 1))
    assert first["/a"].count == second["/a"].count == 1
    assert asyncio.Handle._run is run_before


def test_without_a_monitor_a_handler_costs_and_does_nothing() -> None:
    assert pins.handler("/a") is pins.handler("/b")
    with pins.handler("/a"):
        helper()
