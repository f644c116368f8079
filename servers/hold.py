"""`/hold/*`: the same upstream call each time; what differs is what the handler holds meanwhile.

| route | holds | waits for the upstream |
|---|---|---|
| `/hold/plain` | nothing | as the model does |
| `/hold/sync-striped`, `-shared` | a native lock, its own or everybody's | blocking the thread |
| `/hold/lock-striped`, `-shared` | the model's own lock, its own or everybody's | as the model does |
| `/hold/deadlock` (only with a guard) | a native lock, everybody's | as the model does |

A native lock and a blocking wait go together, as in a library that knows nothing of the model; both come from
`io.native`. So a sync-* handler never suspends: it pins a loop or hub from its first line to its last.
Held across a suspension, a native lock is worse: the next request for it stops the thread on which its holder
would have to run. Threads are the control: there the two kinds of lock are one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import cycle
from typing import Any

from servers.blocking import BlockingLock
from servers.client import Client
from servers.guard import GuardedLock
from servers.http11 import Request, Response
from servers.io import IO
from servers.log import once
from servers.metrics import Metrics
from servers.pipeline import answered
from servers.settings import Settings

STRIPES = 65_536
NATIVE = "_thread.lock"
RUNTIME = {
    "threadpool": NATIVE,
    "asyncio": "asyncio.locks.Lock",
    "trio": "trio.Lock",
    "gevent": "gevent.thread.LockType",
}
PROMPT = b'{"model": "simulated", "messages": [{"role": "user", "content": "How long do you hold it?"}]}'

Lock = AbstractAsyncContextManager[Any]
Handler = Callable[[Request], Awaitable[Response]]


def hold_routes(io: IO, client: Client, settings: Settings, metrics: Metrics) -> dict[str, Handler]:
    """The routes and their handlers; RuntimeError if a lock is not of the kind that its route says."""
    native = io.native
    blocking = Client(native, settings.upstream, metrics)
    _check_kinds(settings.model, native.lock(), io.lock())

    def handler(next_lock: Callable[[], Lock], client: Client) -> Handler:
        async def hold(request: Request) -> Response:
            async with next_lock():
                answered(await client.post(b"/v1/chat/completions", PROMPT, settings.upstream_s))
            return Response(200, b'{"held":true}')

        return hold

    routes = {
        "/hold/plain": handler(_shared(nullcontext()), client),
        "/hold/sync-striped": handler(_striped(native), blocking),
        "/hold/lock-striped": handler(_striped(io), client),
        "/hold/sync-shared": handler(_shared(native.lock()), blocking),
        "/hold/lock-shared": handler(_shared(io.lock()), client),
    }
    if settings.guard_s:
        routes["/hold/deadlock"] = handler(_shared(GuardedLock(settings.guard_s)), client)
    return routes


def _shared(lock: Lock) -> Callable[[], Lock]:
    return lambda: lock


def _striped(io: IO) -> Callable[[], Lock]:
    """Locks handed out in turn: one comes round again only after 65,535 others, so nobody contends."""
    return cycle([io.lock() for _ in range(STRIPES)]).__next__  # atomic: threads share it as it is


def _check_kinds(model: str, native: Lock, runtime: Lock) -> None:
    """After gevent's `patch_all()` a `threading.Lock` is the runtime's: mixed up, the lab proves nothing."""
    found = (_kind(native), _kind(runtime))
    if found != (NATIVE, RUNTIME[model]):
        raise RuntimeError(f"{model}: native and runtime lock are {found}, not {(NATIVE, RUNTIME[model])}")
    once("locks", f"locks: native {found[0]}, runtime {found[1]}")


def _kind(lock: Lock) -> str:
    kind = type(lock.raw if isinstance(lock, BlockingLock) else lock)
    return f"{kind.__module__}.{kind.__qualname__}"
