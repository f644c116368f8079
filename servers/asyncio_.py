"""asyncio: one task a connection on one event loop (`loop = "uvloop"` changes the loop and nothing else)."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import suppress

from servers.app import Service
from servers.http11 import ServerConnection
from servers.io import Address
from servers.listener import Listener
from servers.settings import Settings


class AsyncioStream:
    """A non-blocking socket whose verbs suspend the task.

    `recv` waits on the loop's own reader callback and timer: `loop.sock_recv` under `asyncio.timeout` does the
    same with three more objects for every request in flight.
    """

    __slots__ = ("_loop", "sock")

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self.sock = sock
        self._loop = loop

    async def recv(self, size: int, timeout_s: float) -> bytes:
        with suppress(BlockingIOError):
            return self.sock.recv(size)
        while True:
            readable = self._loop.create_future()
            self._loop.add_reader(self.sock, _wake, readable)
            timer = self._loop.call_later(timeout_s, _expire, readable)
            try:
                await readable
            finally:
                timer.cancel()
                self._loop.remove_reader(self.sock)
            with suppress(BlockingIOError):
                return self.sock.recv(size)

    async def sendall(self, data: bytes, timeout_s: float) -> None:
        sent = 0
        with suppress(BlockingIOError):
            sent = self.sock.send(data)
        if sent < len(data):
            async with asyncio.timeout(timeout_s):
                await self._loop.sock_sendall(self.sock, memoryview(data)[sent:])

    def close(self) -> None:
        self.sock.close()


def _wake(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def _expire(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_exception(TimeoutError())


class AsyncioIO:
    """The verbs of asyncio."""

    async def connect(self, address: Address, timeout_s: float) -> AsyncioStream:
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            async with asyncio.timeout(timeout_s):
                await loop.sock_connect(sock, address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return AsyncioStream(sock, loop)


async def _main(listener: Listener, settings: Settings) -> bool:
    loop = asyncio.get_running_loop()
    service = Service(AsyncioIO(), settings)
    tasks: set[asyncio.Task[None]] = set()
    stopping = asyncio.Event()

    def accept() -> None:
        for sock in listener.accept_ready():
            sock.setblocking(False)
            task = loop.create_task(service.serve(ServerConnection(AsyncioStream(sock, loop))))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_reader(listener.sock, accept)
    await stopping.wait()
    loop.remove_reader(listener.sock)
    listener.close()
    service.drain()
    if tasks:
        await asyncio.wait(tasks, timeout=settings.grace_s)
    return not tasks


def serve(listener: Listener, settings: Settings) -> bool:
    """Serve until SIGTERM; True if all that was in flight finished within the grace time."""
    if settings.loop == "uvloop":
        import uvloop

        return uvloop.run(_main(listener, settings))
    return asyncio.run(_main(listener, settings))
