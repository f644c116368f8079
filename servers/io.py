"""The verbs that an execution model fulfils, and nothing more.

Handlers and HTTP are written once, as `async def`, over these verbs. On an event loop (asyncio, trio) a verb
suspends. On threads and greenlets it simply blocks inside and returns, so the coroutine around it never
suspends and `run` drives it straight to its end: one source, four models, no generated code.

Errors are the operating system's own: `TimeoutError` when the time ran out, `ConnectionError` when the peer
is gone, any other `OSError` (descriptors exhausted, say) as it came.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Address = tuple[str, int]


class Stream(Protocol):
    """A connected TCP socket under one execution model."""

    @property
    def sock(self) -> socket.socket: ...

    def recv(self, size: int, timeout_s: float) -> Awaitable[bytes]:
        """At most `size` bytes; b"" once the peer has finished sending."""

    def sendall(self, data: bytes, timeout_s: float) -> Awaitable[None]: ...

    def close(self) -> None: ...


class IO(Protocol):
    """An execution model, as a handler sees it."""

    async def connect(self, address: Address, timeout_s: float) -> Stream: ...


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine whose verbs block: one `send` takes it from its start to its return."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise RuntimeError("a blocking verb suspended: this coroutine belongs to an event loop")
