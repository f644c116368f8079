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
from contextlib import AbstractAsyncContextManager
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


class Limiter(Protocol):
    """Permits, as trio's `CapacityLimiter` has them: first come, first served, resized while in use."""

    @property
    def total(self) -> int:
        """Permits there are. More wake waiters at once; fewer let those out finish, and nobody else in."""

    @total.setter
    def total(self, total: int) -> None: ...

    @property
    def borrowed(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    async def acquire(self, timeout_s: float) -> None:
        """Borrow a permit; TimeoutError if there was none for that long. Never overtakes one who waits."""

    def release(self) -> None:
        """Give it back; RuntimeError if none is out."""


class Database(Protocol):
    """A pool of connections to PostgreSQL, made when they are first needed and made anew when they broke."""

    async def open(self) -> None: ...

    async def acquire(self) -> Any:
        """A connection; NoConnection if none became free in the pool's own waiting time."""

    async def sleep(self, connection: Any, seconds: float) -> None:
        """`SELECT pg_sleep(seconds)`; ConnectionLost if the server went away meanwhile."""

    async def release(self, connection: Any) -> None:
        """Give it back; a broken one is replaced."""

    async def close(self) -> None: ...


class NoConnection(Exception):
    """The pool's waiting time was over before a connection was free."""


class ConnectionLost(Exception):
    """The database ended the connection in the middle of a statement."""


class IO(Protocol):
    """An execution model, as a handler sees it.

    `native` holds the verbs of a library that knows nothing of the model: they block the operating-system
    thread, and with it whatever loop or hub runs there.
    """

    @property
    def native(self) -> IO: ...

    async def connect(self, address: Address, timeout_s: float) -> Stream: ...

    def lock(self) -> AbstractAsyncContextManager[Any]: ...

    def limiter(self, total: int) -> Limiter: ...

    def database(self, dsn: str, size: int, wait_s: float) -> Database: ...


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine whose verbs block: one `send` takes it from its start to its return."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise RuntimeError("a blocking verb suspended: this coroutine belongs to an event loop")
