"""Threads: a pool whose size was fixed before the process started, fed by a poller that parks connections.

The main thread accepts, and watches connections at rest. When one becomes readable it goes into a queue; a
worker takes it, reads the request, runs the handler to its end and hands the connection back. So a thread is
held for as long as a request takes, and never by a connection at rest. A client that sends its request slowly
does hold a thread, for `request_s` at most: that belongs to the model.

One-shot epoll arms a connection once, so the poller and a worker never hold the same one.
"""

from __future__ import annotations

import select
import signal
import socket
import threading
import time
from queue import SimpleQueue

from servers.app import Service
from servers.blocking import BlockingIO, BlockingStream
from servers.http11 import ServerConnection
from servers.io import run
from servers.listener import Listener, refuse
from servers.settings import Settings

READABLE = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT
SWEEP_S = 1.0
DRAIN_TURN_S = 0.1


class Pool:
    """The poller, its parked connections, the queue and the workers behind it."""

    def __init__(self, listener: Listener, settings: Settings) -> None:
        self._settings = settings
        self._listener = listener
        self._service = Service(BlockingIO(), settings)
        self._epoll = select.epoll()
        self._parked: dict[int, tuple[ServerConnection, float]] = {}
        self._queue: SimpleQueue[ServerConnection] = SimpleQueue()
        self._open: set[ServerConnection] = set()
        self._stopping = False
        self._woken, self._waker = socket.socketpair()

    def serve(self) -> bool:
        run(self._service.open())
        for number in range(self._settings.threads):
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True).start()
        signal.signal(signal.SIGTERM, self._stop)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._epoll.register(self._listener.sock, select.EPOLLIN)
        while not self._stopping:
            self._turn(SWEEP_S)
        self._epoll.unregister(self._listener.sock)
        self._epoll.unregister(self._woken)
        self._listener.close()
        return self._drain()

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True
        self._waker.send(b".")

    def _drain(self) -> bool:
        deadline = time.monotonic() + self._settings.grace_s
        while self._open and time.monotonic() < deadline:
            self._service.drain()  # again each turn: a worker may just have parked one more
            self._turn(DRAIN_TURN_S)
        run(self._service.close())
        return not self._open

    # The poller's side

    def _turn(self, timeout_s: float) -> None:
        for descriptor, _ in self._epoll.poll(timeout_s):
            if descriptor in self._parked:
                self._enqueue(self._parked.pop(descriptor)[0])
            elif not self._stopping and descriptor == self._listener.sock.fileno():
                for sock in self._listener.accept_ready():
                    connection = ServerConnection(BlockingStream(sock))
                    self._open.add(connection)
                    self._note_parked(connection)
                    self._epoll.register(sock, READABLE)
        self._expire(time.monotonic() - self._settings.keep_alive_s)

    def _enqueue(self, connection: ServerConnection) -> None:
        self._service.resting.discard(connection)
        if 0 < self._settings.queue <= self._queue.qsize():
            self._service.metrics.outcome["refused"].inc()
            self._open.discard(connection)
            refuse(connection.stream.sock)
            return
        self._service.metrics.waiting.inc()
        self._queue.put(connection)

    def _expire(self, before: float) -> None:
        """Close what has been at rest too long; parked connections are in order of their parking."""
        # Copied in one step. Each pair made on a walk over the items may start a collection, which calls back into
        # Python and lets a worker park another connection meanwhile.
        for descriptor, (connection, since) in self._parked.copy().items():
            if since > before:
                return
            if self._parked.pop(descriptor, None) is not None:
                self._close(connection)

    # The workers' side

    def _work(self) -> None:
        waiting = self._service.metrics.waiting
        while True:
            connection = self._queue.get()
            waiting.dec()
            if run(self._serve_ready(connection)):
                self._note_parked(connection)
                self._epoll.modify(connection.stream.sock, READABLE)
            else:
                self._close(connection)

    async def _serve_ready(self, connection: ServerConnection) -> bool:
        """Serve the requests that are here; True if the connection may rest again."""
        try:
            if not await self._service.rest(connection):
                return False
            while await self._service.serve_one(connection):
                if not connection.has_data:
                    return True
        except OSError:
            pass  # the client is gone; nobody is left to tell
        return False

    def _note_parked(self, connection: ServerConnection) -> None:
        self._service.resting.add(connection)
        self._parked[connection.stream.sock.fileno()] = (connection, time.monotonic())

    def _close(self, connection: ServerConnection) -> None:
        self._service.resting.discard(connection)
        self._open.discard(connection)
        connection.stream.close()


def serve(listener: Listener, settings: Settings) -> bool:
    """Serve until SIGTERM; True if all that was in flight finished within the grace time."""
    return Pool(listener, settings).serve()
