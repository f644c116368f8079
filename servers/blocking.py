"""Verbs that block: threads use them as they are, gevent after patching `socket` and `threading`.

A process that gevent has patched has both: `BlockingIO()` blocks a greenlet, `native_io()` the thread.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Never, Self, TypeVar

from servers.io import Address, Database, Limiter
from servers.limiter import QueueLimiter
from servers.native import original

T = TypeVar("T")


class Done(Awaitable[T]):
    """An awaitable that has its value: the verb blocked before this was made.

    A coroutine would do as well, but each one that a greenlet blocks in keeps half a kilobyte of C stack.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, T]:
        return self  # type: ignore[return-value]  # an iterator is all that `await` asks for

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Never:
        raise StopIteration(self._value)


class BlockingStream:
    """A socket whose verbs block the calling thread (or greenlet), and so never suspend a coroutine."""

    __slots__ = ("sock",)

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def recv(self, size: int, timeout_s: float) -> Done[bytes]:
        self.sock.settimeout(timeout_s)
        return Done(self.sock.recv(size))

    def sendall(self, data: bytes, timeout_s: float) -> Done[None]:
        self.sock.settimeout(timeout_s)
        self.sock.sendall(data)
        return Done(None)

    def close(self) -> None:
        self.sock.close()


class BlockingLock:
    """A lock under the spelling of a handler: `async with`, which waits inside and does not suspend."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    async def __aenter__(self) -> None:
        self.raw.acquire()

    async def __aexit__(self, *error: object) -> None:
        self.raw.release()


class BlockingGate:
    """A lock that is taken from the start, so that its first `release` opens it."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    async def wait(self, timeout_s: float) -> None:
        if not self._lock.acquire(timeout=timeout_s):
            raise TimeoutError

    def open(self) -> None:
        self._lock.release()


class BlockingIO:
    """The verbs of threads and greenlets."""

    def __init__(
        self,
        new_socket: Callable[[int, int], socket.socket] = socket.socket,
        new_lock: Callable[[], Any] = threading.Lock,
    ) -> None:
        self._new_socket = new_socket
        self._new_lock = new_lock

    @property
    def native(self) -> BlockingIO:
        return native_io()

    async def connect(self, address: Address, timeout_s: float) -> BlockingStream:
        sock = self._new_socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout_s)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return BlockingStream(sock)

    def lock(self) -> BlockingLock:
        return BlockingLock(self._new_lock())

    def limiter(self, total: int) -> Limiter:
        return QueueLimiter(total, BlockingGate)

    def database(self, dsn: str, size: int, wait_s: float) -> Database:
        from servers.database.blocking import BlockingDatabase

        return BlockingDatabase(dsn, size, wait_s)


def native_io() -> BlockingIO:
    """The verbs of a library that knows nothing of any model: they block the operating-system thread."""
    return BlockingIO(original("socket", "socket"), original("_thread", "allocate_lock"))
