"""A native lock that is held across a suspension, and a guard thread that finds the deadlock and ends it.

The proof needs no time-out: if the thread that waits for the lock is the thread on which it was taken, then
nobody is left to give it back: the holder is a suspended task or greenlet of the very loop or hub that now
stands still. (Between threads the two differ, and a wait, however long, is only a wait.) The guard lets it
last for `guard_s`, so that it is seen from outside too, then reports holder and waiters and ends the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from types import FrameType
from typing import Any, NamedTuple

from servers.native import original, stack

EXIT_DEADLOCK = 70
POLLS = 4  # looks within guard_s


class Party(NamedTuple):
    """Who holds or waits: the frame is that of the handler, and shows where that stands now."""

    thread: int
    frame: FrameType
    since_s: float


class GuardedLock:
    """`async with` over a native lock, known by its holder and its waiters."""

    def __init__(self, guard_s: float) -> None:
        self._guard_s = guard_s
        self._lock = original("_thread", "allocate_lock")()
        self._get_ident = original("_thread", "get_ident")
        self._holder: Party | None = None
        self._waiters: dict[object, Party] = {}
        original("_thread", "start_new_thread")(self._watch, (original("time", "sleep"),))

    async def __aenter__(self) -> None:
        me = Party(self._get_ident(), sys._getframe(1), time.monotonic())
        self._waiters[key := object()] = me
        self._lock.acquire()
        del self._waiters[key]
        self._holder = me

    async def __aexit__(self, *error: object) -> None:
        self._holder = None
        self._lock.release()

    def _watch(self, sleep: Any) -> None:
        while True:
            sleep(self._guard_s / POLLS)
            holder = self._holder
            waiters = tuple(self._waiters.values())
            if holder is not None and any(self._is_stuck(waiter, holder) for waiter in waiters):
                print(json.dumps(_report(holder, waiters)), file=sys.stderr, flush=True)
                os._exit(EXIT_DEADLOCK)

    def _is_stuck(self, waiter: Party, holder: Party) -> bool:
        return waiter.thread == holder.thread and time.monotonic() - waiter.since_s >= self._guard_s


def _report(holder: Party, waiters: tuple[Party, ...]) -> dict[str, Any]:
    frames = sys._current_frames()
    return {
        "deadlock": "a native lock is held by a suspended handler of the thread that waits for it",
        "holder": {**_place(holder), "suspended": True},
        "waiters": [{**_place(waiter), "stack": stack(frames.get(waiter.thread))} for waiter in waiters],
    }


def _place(party: Party) -> dict[str, Any]:
    code = party.frame.f_code
    return {
        "handler": party.frame.f_locals["request"].path,
        "at": f"{code.co_filename}:{party.frame.f_lineno} {code.co_qualname}",
        "thread": party.thread,
        "for_s": round(time.monotonic() - party.since_s, 3),
    }
