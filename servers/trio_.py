"""trio: one task a connection in one nursery."""

from __future__ import annotations

import signal
import socket

import trio

from servers.app import Service
from servers.http11 import ServerConnection
from servers.io import Address
from servers.listener import Listener
from servers.settings import Settings


class TrioStream:
    """A trio socket whose verbs suspend the task; `sock` is the plain socket under it."""

    __slots__ = ("_trio", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._trio = trio.socket.from_stdlib_socket(sock)

    async def recv(self, size: int, timeout_s: float) -> bytes:
        with trio.move_on_after(timeout_s):
            return await self._trio.recv(size)
        raise TimeoutError

    async def sendall(self, data: bytes, timeout_s: float) -> None:
        with trio.move_on_after(timeout_s):
            sent = await self._trio.send(data)
            while sent < len(data):
                sent += await self._trio.send(memoryview(data)[sent:])
            return
        raise TimeoutError

    def close(self) -> None:
        self._trio.close()


class TrioIO:
    """The verbs of trio."""

    async def connect(self, address: Address, timeout_s: float) -> TrioStream:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            stream = TrioStream(sock)
            with trio.fail_after(timeout_s):
                await stream._trio.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except trio.TooSlowError as error:
            sock.close()
            raise TimeoutError from error
        except BaseException:
            sock.close()
            raise
        return stream


async def _main(listener: Listener, settings: Settings) -> bool:
    service = Service(TrioIO(), settings)
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:

            async def accept() -> None:
                while True:
                    await trio.lowlevel.wait_readable(listener.sock)
                    for sock in listener.accept_ready():
                        connections.start_soon(service.serve, ServerConnection(TrioStream(sock)))

            accepting.start_soon(accept)
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                await anext(signals)
            accepting.cancel_scope.cancel()
        listener.close()
        service.drain()
        connections.cancel_scope.deadline = trio.current_time() + settings.grace_s
    return not connections.cancel_scope.cancelled_caught


def serve(listener: Listener, settings: Settings) -> bool:
    """Serve until SIGTERM; True if all that was in flight finished within the grace time."""
    return trio.run(_main, listener, settings)
