"""asyncio: one task a connection on one event loop (`loop = "uvloop"` changes the loop and nothing else)."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import suppress

from servers.app import Service
from servers.blocking import BlockingIO, native_io
from servers.http11 import ServerConnection
from servers.io import Address, Database, Limiter
from servers.limiter import QueueLimiter
from servers.listener import Listener
from servers.settings import Settings


class AsyncioStream:
    """A non-blocking socket whose verbs suspend the task.

    The reader callback stays registered from one `recv` to the next: `loop.sock_recv` registers and unregisters
    each time, and under `asyncio.timeout` takes three more objects for every request in flight.
    """

    __slots__ = ("_loop", "_readable", "_watched", "sock")

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self.sock = sock
        self._loop = loop
        self._watched = False
        self._readable: asyncio.Future[None] | None = None

    async def recv(self, size: int, timeout_s: float) -> bytes:
        while True:
            with suppress(BlockingIOError):
                return self.sock.recv(size)
            if not self._watched:
                self._loop.add_reader(self.sock, self._wake)
                self._watched = True
            self._readable = self._loop.create_future()
            timer = self._loop.call_later(timeout_s, _expire, self._readable)
            try:
                await self._readable
            finally:
                self._readable = None
                timer.cancel()

    def _wake(self) -> None:
        if self._readable is None:  # nobody waits for what came: left registered, the loop would spin
            self._unwatch()
        elif not self._readable.done():
            self._readable.set_result(None)

    def _unwatch(self) -> None:
        if self._watched:
            self._loop.remove_reader(self.sock)
            self._watched = False

    async def sendall(self, data: bytes, timeout_s: float) -> None:
        sent = 0
        with suppress(BlockingIOError):
            sent = self.sock.send(data)
        if sent < len(data):
            async with asyncio.timeout(timeout_s):
                await self._loop.sock_sendall(self.sock, memoryview(data)[sent:])

    def close(self) -> None:
        self._unwatch()
        self.sock.close()


def _expire(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_exception(TimeoutError())


class AsyncioGate:
    """A future: cancelled with the task that waits for it, and then opening it does nothing."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait(self, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            await self._future

    def open(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


class AsyncioIO:
    """The verbs of asyncio."""

    @property
    def native(self) -> BlockingIO:
        return native_io()

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

    def lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    def limiter(self, total: int) -> Limiter:
        return QueueLimiter(total, AsyncioGate)

    def database(self, dsn: str, size: int, wait_s: float) -> Database:
        from servers.database.asyncio_ import AsyncioDatabase

        return AsyncioDatabase(dsn, size, wait_s)


async def _main(listener: Listener, settings: Settings) -> bool:
    loop = asyncio.get_running_loop()
    service = Service(AsyncioIO(), settings)
    await service.open()
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
    await service.close()
    return not tasks


def serve(listener: Listener, settings: Settings) -> bool:
    """Serve until SIGTERM; True if all that was in flight finished within the grace time."""
    if settings.loop == "uvloop":
        import uvloop

        return uvloop.run(_main(listener, settings))
    return asyncio.run(_main(listener, settings))
