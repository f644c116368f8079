"""Streams over blocking sockets: threads use them as they are, gevent after patching the `socket` module."""

from __future__ import annotations

import socket

from servers.io import Address


class BlockingStream:
    """A socket whose verbs block the calling thread (or greenlet), and so never suspend a coroutine."""

    __slots__ = ("sock",)

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    async def recv(self, size: int, timeout_s: float) -> bytes:
        self.sock.settimeout(timeout_s)
        return self.sock.recv(size)

    async def sendall(self, data: bytes, timeout_s: float) -> None:
        self.sock.settimeout(timeout_s)
        self.sock.sendall(data)

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
