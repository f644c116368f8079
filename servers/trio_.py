"""trio: one task a connection in one nursery."""

from __future__ import annotations

import signal
import socket
from contextlib import suppress

import trio

from servers.app import Service
from servers.blocking import BlockingIO, native_io
from servers.http11 import ServerConnection
from servers.io import Address, Database, Limiter
from servers.listener import Listener
from servers.settings import Settings


class TrioStream:
    """A non-blocking socket whose verbs suspend the task; each tries first, and waits only where it must."""

    __slots__ = ("sock",)

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    async def recv(self, size: int, timeout_s: float) -> bytes:
        with suppress(BlockingIOError):
            return self.sock.recv(size)
        with trio.move_on_after(timeout_s):
            while True:
                await trio.lowlevel.wait_readable(self.sock)
                with suppress(BlockingIOError):
                    return self.sock.recv(size)
        raise TimeoutError

    async def sendall(self, data: bytes, timeout_s: float) -> None:
        sent = 0
        with suppress(BlockingIOError):
            sent = self.sock.send(data)
        if sent == len(data):
            return
        with trio.move_on_after(timeout_s):
            while sent < len(data):
                await trio.lowlevel.wait_writable(self.sock)
                with suppress(BlockingIOError):
                    sent += self.sock.send(memoryview(data)[sent:])
            return
        raise TimeoutError

    def close(self) -> None:
        trio.lowlevel.notify_closing(self.sock)
        self.sock.close()


class TrioLimiter:
    """trio's own. A task borrows at most one permit of a limiter, and gives back its own."""

    def __init__(self, total: int) -> None:
        self._limiter = trio.CapacityLimiter(total)

    @property
    def total(self) -> int:
        return int(self._limiter.total_tokens)

    @total.setter
    def total(self, total: int) -> None:
        self._limiter.total_tokens = total

    @property
    def borrowed(self) -> int:
        return self._limiter.borrowed_tokens

    @property
    def waiting(self) -> int:
        return self._limiter.statistics().tasks_waiting

    async def acquire(self, timeout_s: float) -> None:
        with suppress(trio.WouldBlock):  # also when there is no time to wait, as in the other models
            self._limiter.acquire_nowait()
            return
        with trio.move_on_after(timeout_s):
            await self._limiter.acquire()
            return
        raise TimeoutError

    def release(self) -> None:
        self._limiter.release()


class TrioIO:
    """The verbs of trio."""

    @property
    def native(self) -> BlockingIO:
        return native_io()

    async def connect(self, address: Address, timeout_s: float) -> TrioStream:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            with trio.move_on_after(timeout_s) as scope:
                # A trio socket in front of the same descriptor: connecting is the one verb it does better.
                await trio.socket.from_stdlib_socket(sock).connect(address)
            if scope.cancelled_caught:
                raise TimeoutError
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return TrioStream(sock)

    def lock(self) -> trio.Lock:
        return trio.Lock()

    def limiter(self, total: int) -> Limiter:
        return TrioLimiter(total)

    def database(self, dsn: str, size: int, wait_s: float) -> Database:
        from servers.database.trio_ import TrioDatabase

        return TrioDatabase(dsn, size, wait_s)


async def _main(listener: Listener, settings: Settings) -> bool:
    service = Service(TrioIO(), settings)
    await service.open()
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:

            async def accept() -> None:
                while True:
                    await trio.lowlevel.wait_readable(listener.sock)
                    for sock in listener.accept_ready():
                        sock.setblocking(False)
                        connections.start_soon(service.serve, ServerConnection(TrioStream(sock)))

            accepting.start_soon(accept)
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                await anext(signals)
            accepting.cancel_scope.cancel()
        listener.close()
        service.drain()
        connections.cancel_scope.deadline = trio.current_time() + settings.grace_s
    await service.close()
    return not connections.cancel_scope.cancelled_caught


def serve(listener: Listener, settings: Settings) -> bool:
    """Serve until SIGTERM; True if all that was in flight finished within the grace time."""
    return trio.run(_main, listener, settings)
