"""Streams over blocking sockets: threads use them as they are, gevent after patching the `socket` module."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Generator
from typing import Any, Never, Self, TypeVar

from servers.io import Address

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


class BlockingIO:
    """The verbs of threads and greenlets."""

    async def connect(self, address: Address, timeout_s: float) -> BlockingStream:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout_s)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return BlockingStream(sock)
