"""Runs one function as many tasks, threads or greenlets of a model, in a process of its own.

    python crowd.py MODEL PROGRAM

The programs are written once, over the verbs of servers/io.py, and print a JSON object for the test to judge.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

model, program = sys.argv[1:]
if model == "gevent":
    importlib.import_module("servers.gevent_")  # patches

import threading  # noqa: E402  patched by now, where it has to be

from servers.blocking import BlockingIO  # noqa: E402
from servers.io import IO, run  # noqa: E402

Member = Callable[[int], Coroutine[Any, Any, None]]
KillAt = Sequence[float | None]  # by member: when to cancel it, in seconds


def threads(member: Member, kill_at_s: KillAt) -> None:
    """Threads cannot be cancelled."""
    members = [threading.Thread(target=lambda i=i: run(member(i))) for i in range(len(kill_at_s))]
    for thread in members:
        thread.start()
    for thread in members:
        thread.join()


def asyncio_tasks(member: Member, kill_at_s: KillAt) -> None:
    import asyncio

    async def main() -> None:
        tasks = [asyncio.ensure_future(member(index)) for index in range(len(kill_at_s))]
        for task, at_s in zip(tasks, kill_at_s, strict=True):
            if at_s is not None:
                asyncio.get_running_loop().call_later(at_s, task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def trio_tasks(member: Member, kill_at_s: KillAt) -> None:
    import trio

    async def one(index: int, at_s: float | None) -> None:
        with trio.move_on_after(float("inf") if at_s is None else at_s):
            await member(index)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for index, at_s in enumerate(kill_at_s):
                nursery.start_soon(one, index, at_s)

    trio.run(main)


def greenlets(member: Member, kill_at_s: KillAt) -> None:
    import gevent

    members = [gevent.spawn(lambda i: run(member(i)), index) for index in range(len(kill_at_s))]
    for greenlet, at_s in zip(members, kill_at_s, strict=True):
        if at_s is not None:
            gevent.spawn_later(at_s, greenlet.kill, block=False)
    gevent.joinall(members)


TOGETHER = {"threadpool": threads, "asyncio": asyncio_tasks, "trio": trio_tasks, "gevent": greenlets}
together = TOGETHER[model]


def verbs() -> IO:
    if model in ("threadpool", "gevent"):
        return BlockingIO()
    name = {"asyncio": "AsyncioIO", "trio": "TrioIO"}[model]
    io: IO = getattr(importlib.import_module(f"servers.{model}_"), name)()
    return io


async def wait(seconds: float) -> None:
    if model in ("threadpool", "gevent"):
        time.sleep(seconds)
    else:
        await importlib.import_module(model).sleep(seconds)


def storm() -> dict[str, Any]:
    """150 want 5 permits for a moment each; most run out of time or are cancelled; the size changes."""
    chance = random.Random(7)
    waits_s = [chance.uniform(0, 0.3) for _ in range(150)]
    kill_at_s = [chance.uniform(0.01, 0.3) if chance.random() < 0.4 else None for _ in range(150)]
    limiter = verbs().limiter(5)
    inside: set[int] = set()  # these are changed in one step, for the threads' sake
    crowded: list[int] = []
    late: list[int] = []

    async def member(index: int) -> None:
        if index % 50 == 49:
            await wait(0.1)
            limiter.total = 1 + index % 7
            return
        try:
            await limiter.acquire(waits_s[index])
        except TimeoutError:
            late.append(index)
            return
        inside.add(index)
        crowded.append(len(inside))
        try:
            await wait(0.01)
        finally:
            inside.discard(index)
            limiter.release()

    together(member, kill_at_s)
    left = {"inside": len(inside), "borrowed": limiter.borrowed, "waiting": limiter.waiting}
    return {"got": len(crowded), "peak": max(crowded), "late": len(late), "left": left}


def queue() -> dict[str, Any]:
    """Members come one after another to a limiter without a permit; then there is one; then all it takes."""
    limiter = verbs().limiter(0)
    order: list[int] = []
    seen: dict[str, Any] = {"order": order}

    async def member(index: int) -> None:
        await wait(0.02 * index)
        if index == 10:
            seen["waiting"] = limiter.waiting
            limiter.total = 1
            return
        await limiter.acquire(5)
        order.append(index)
        await wait(0.005)
        limiter.release()

    together(member, [None] * 11)
    return seen


def shrink() -> dict[str, Any]:
    """Three hold a permit when the limit falls to one; the fourth has to wait for all but none of them."""
    limiter = verbs().limiter(3)
    seen: dict[str, Any] = {}

    async def member(index: int) -> None:
        if index < 3:
            await limiter.acquire(1)
            await wait(0.05 * (index + 1))
            limiter.release()
            return
        await wait(0.02)
        limiter.total = 1
        seen["over"] = limiter.borrowed - limiter.total
        await limiter.acquire(2)
        seen["with_me"] = limiter.borrowed
        limiter.release()

    together(member, [None] * 4)
    return {**seen, "borrowed": limiter.borrowed}


print(json.dumps({"storm": storm, "queue": queue, "shrink": shrink}[program]()))
