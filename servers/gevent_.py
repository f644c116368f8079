"""gevent: one greenlet a connection. The blocking driver, patched: that is gevent's own proposition."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import signal  # noqa: E402  everything below must see the patched modules
import socket  # noqa: E402

import gevent  # noqa: E402
import gevent.event  # noqa: E402
import gevent.pool  # noqa: E402
import gevent.socket  # noqa: E402

from servers.app import Service  # noqa: E402
from servers.blocking import BlockingIO, BlockingStream  # noqa: E402
from servers.http11 import ServerConnection  # noqa: E402
from servers.io import run  # noqa: E402
from servers.listener import Listener  # noqa: E402
from servers.settings import Settings  # noqa: E402


def _main(listener: Listener, settings: Settings) -> bool:
    service = Service(BlockingIO(), settings)
    connections = gevent.pool.Group()
    stopping = gevent.event.Event()

    def serve_connection(sock: socket.socket) -> None:
        run(service.serve(ServerConnection(BlockingStream(sock))))

    def accept() -> None:
        while True:
            gevent.socket.wait_read(listener.sock.fileno())  # type: ignore[attr-defined]
            for sock in listener.accept_ready():
                connections.spawn(serve_connection, sock)

    accepting = gevent.spawn(accept)
    gevent.signal_handler(signal.SIGTERM, stopping.set)
    stopping.wait()
    accepting.kill()
    listener.close()
    service.drain()
    return bool(connections.join(timeout=settings.grace_s))


def serve(listener: Listener, settings: Settings) -> bool:
    """Serve until SIGTERM; True if all that was in flight finished within the grace time."""
    return _main(listener, settings)
