"""Pins: what held an event loop or hub without working, for how long, and whose handler it was.

In a service of your own, one line where its loop or hub runs already (asyncio, uvloop, trio, gevent):

    pins.watch()

It logs the first pin of each handler with its stack, and counts them all: `pins.watch().pins`. Name what you
want told apart with `with pins.handler("checkout"):`; the name holds for child tasks and greenlets too. What
has no name goes by that of the coroutine or function its task began with.

- A segment is what runs between two switches, and a handler's beginning and end split it. So a segment
  belongs to one handler, and a helper that all handlers go through is never blamed. Every segment is
  measured: counts are exact, not sampled.
- A segment is a pin if it took 1 ms or more, of which the thread was off the CPU for 1 ms or more, and gave
  the CPU up by itself meanwhile. So a calculation is none, however long, nor is a slow `await`, which ends a
  segment.
- A thread beside the loop looks at it every 20 ms and takes the stack, whole, of a segment that lasts:
  evidence, kept if it proves to be a pin. Counts do not depend on it.

Cost, per switch: 1.2 to 2.6 µs.

Limits: under uvloop only tasks are measured that start after `watch()`, and no plain callbacks. A busy thread
that keeps the interpreter's lock from the loop for 1 ms counts as a pin too: it does hold the loop.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from resource import RUSAGE_THREAD, getrusage
from types import TracebackType

from servers.carriers import attach, handler_name, name_of
from servers.native import Stack, original, stack

PIN_NS = 1_000_000
LOOK_S = 0.02
STACKS = 16  # kept per handler, the first ones seen

Report = Callable[[str, float, Stack], None]

_log = logging.getLogger("pins")


@dataclass(frozen=True)
class Pins:
    """What one handler did: how often, for how many seconds in all, and the stacks that were caught."""

    count: int
    seconds: float
    stacks: dict[Stack, int]


class Monitor:
    """Measures the segments of one thread; `begin` and `end` are called at each switch."""

    def __init__(self, report: Report | None) -> None:
        self._report = report
        self._get_ident: Callable[[], int] = original("_thread", "get_ident")
        self.thread = self._get_ident()
        self._count: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._stacks: dict[str, Counter[Stack]] = {}
        self._since_ns = 0  # 0: no segment is open
        self._cpu_ns = 0
        self._switches = 0
        self._name: str | None = None
        self._source: object = None
        self._evidence: tuple[int, Stack] = (0, ())
        self._closed = False
        self._undo: Callable[[], None] = lambda: None
        original("_thread", "start_new_thread")(self._look, (original("time", "sleep"),))

    @property
    def pins(self) -> dict[str, Pins]:
        """By handler, all that was counted so far."""
        return {
            name: Pins(count, self._seconds[name], dict(self._stacks.get(name, {})))
            for name, count in self._count.items()
        }

    def begin(self, name: str | None, source: object) -> None:
        """A segment begins: `name` is its handler, `source` what to name it after if it has none."""
        self._name = name
        self._source = source
        self._switches = getrusage(RUSAGE_THREAD).ru_nvcsw
        self._cpu_ns = time.thread_time_ns()
        self._since_ns = time.monotonic_ns()

    def end(self) -> None:
        """The segment that is open ends, if one is."""
        if (since_ns := self._since_ns) and (wall_ns := time.monotonic_ns() - since_ns) >= PIN_NS:
            off_cpu_ns = wall_ns - (time.thread_time_ns() - self._cpu_ns)
            if off_cpu_ns >= PIN_NS and getrusage(RUSAGE_THREAD).ru_nvcsw > self._switches:
                self._count_pin(since_ns, wall_ns)
        self._since_ns = 0

    def split(self, name: str | None) -> None:
        """The handler changes within a segment. In another thread than the loop's, nothing is open."""
        if self._since_ns and self._get_ident() == self.thread:
            self.end()
            self.begin(name, self._source)

    def close(self) -> None:
        """Measure no more; what was counted stays."""
        global _watching
        self._undo()
        self._since_ns = 0
        self._closed = True
        _watching = None

    def _count_pin(self, since_ns: int, wall_ns: int) -> None:
        name = self._name or name_of(self._source)
        seconds = wall_ns / 1e9
        taken_of, taken = self._evidence
        caught = taken if taken_of == since_ns else ()
        self._count[name] += 1
        self._seconds[name] += seconds
        if caught:
            stacks = self._stacks.setdefault(name, Counter())
            if caught in stacks or len(stacks) < STACKS:
                stacks[caught] += 1
        if self._report is not None:
            self._report(name, seconds, caught)
        if self._count[name] == 1:
            _log.warning("%s held the loop for %.3f s%s", name, seconds, "\n  ".join(("", *caught)))

    def _look(self, sleep: Callable[[float], None]) -> None:
        while not self._closed:
            since_ns = self._since_ns
            if since_ns and time.monotonic_ns() - since_ns >= LOOK_S * 1e9:
                taken = stack(sys._current_frames().get(self.thread))
                if self._since_ns == since_ns:  # else it is that of another segment
                    self._evidence = (since_ns, taken)
            sleep(LOOK_S)


class _Handler:
    __slots__ = ("_monitor", "_name", "_token")

    def __init__(self, monitor: Monitor, name: str) -> None:
        self._monitor = monitor
        self._name = name

    def __enter__(self) -> None:
        self._token = handler_name.set(self._name)
        self._monitor.split(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        handler_name.reset(self._token)
        self._monitor.split(handler_name.get())


_watching: Monitor | None = None
_UNWATCHED: AbstractContextManager[None] = nullcontext()


def handler(name: str) -> AbstractContextManager[None]:
    """While it is entered, pins are those of `name`; it does nothing while nobody watches."""
    return _UNWATCHED if _watching is None else _Handler(_watching, name)


def watch(report: Report | None = None) -> Monitor:
    """Measure the loop or hub that this is called on.

    `report(handler, seconds, stack)` is called for each pin; the stack is empty if none was caught.
    Raises RuntimeError where there is none, or if one is being watched: a process has one monitor.
    """
    global _watching
    if _watching is not None:
        raise RuntimeError("a loop or hub is being watched already; close that monitor first")
    monitor = Monitor(report)
    try:
        monitor._undo = attach(monitor)
    except BaseException:
        monitor.close()
        raise
    _watching = monitor
    return monitor
