"""A limiter that can be resized while it is in use, for the models that have nothing like trio's.

Rules, those of trio's `CapacityLimiter`:
- first come, first served: nobody gets a permit while another waits;
- `total` may fall below what is borrowed: those out finish, and nobody enters until enough are back;
- whoever gives up waiting (its time is over, it is cancelled or killed) leaves no trace, also if a permit was
  granted to it at that very moment: it goes to the next in line.

The queue is the same for every model; what a model gives is a `Gate`. The mutex is held for a few lines that
never wait, so it is free in a loop and right between threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class Gate(Protocol):
    """Opened once by whoever gives a permit back; waited at by one who wants it."""

    async def wait(self, timeout_s: float) -> None:
        """Until it is open; TimeoutError after `timeout_s`."""

    def open(self) -> None:
        """Never waits; may come when the one who waited has given up."""


class QueueLimiter:
    """`total` permits and a queue of gates."""

    def __init__(self, total: int, gate: Callable[[], Gate]) -> None:
        self._gate = gate
        self._mutex = threading.Lock()
        self._queue: dict[Gate, None] = {}  # in order of arrival, and left in O(1) from anywhere
        self._borrowed = 0
        self._total = _checked(total)

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, total: int) -> None:
        with self._mutex:
            self._total = _checked(total)
            self._grant()

    @property
    def borrowed(self) -> int:
        return self._borrowed

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def acquire(self, timeout_s: float) -> None:
        with self._mutex:
            if self._borrowed < self._total:  # then nobody waits: `_grant` has seen to it
                self._borrowed += 1
                return
            gate = self._gate()
            self._queue[gate] = None
        try:
            await gate.wait(timeout_s)
        except BaseException:
            self._leave(gate)
            raise

    def release(self) -> None:
        with self._mutex:
            if self._borrowed == 0:
                raise RuntimeError("a permit was given back that nobody had")
            self._borrowed -= 1
            self._grant()

    def _leave(self, gate: Gate) -> None:
        with self._mutex:
            if gate in self._queue:
                del self._queue[gate]
                return
        self.release()  # it was granted a moment ago

    def _grant(self) -> None:
        while self._queue and self._borrowed < self._total:
            gate = next(iter(self._queue))
            del self._queue[gate]
            self._borrowed += 1
            gate.open()


def _checked(total: int) -> int:
    if total < 0:
        raise ValueError(f"{total} permits: at least 0")
    return total
