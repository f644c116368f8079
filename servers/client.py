"""The upstream client: keep-alive, without a bound, most recently used connection first.

Without a bound because the upstream must never be what limits: the experiment is about the server. Connections
go to the upstream's addresses in turn: towards a single one, `connect` itself grows dear once half of the
ephemeral ports are taken (docs/decisions/0007).
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from itertools import cycle

from servers.http11 import ClientConnection, Reply
from servers.io import IO, Address
from servers.metrics import Metrics

CONNECT_S = 5.0
_ESTABLISHED = 1  # TCP_ESTABLISHED in include/net/tcp_states.h


class Client:
    """A pool of connections to one service, at one or several addresses."""

    def __init__(self, io: IO, addresses: Sequence[Address], metrics: Metrics) -> None:
        self._io = io
        self._next_address = cycle(addresses).__next__  # one C call: threads share it as it is
        self._host = "{}:{}".format(*addresses[0]).encode()
        self._idle: list[ClientConnection] = []  # append and pop are atomic: threads share it as it is
        self._active = metrics.upstream_active

    async def post(self, target: bytes, body: bytes, timeout_s: float) -> Reply:
        """POST a JSON body; the connection goes back to the pool only after a clean exchange."""
        connection = self._take()
        self._active.inc()
        try:
            if connection is None:
                connection = ClientConnection(await self._io.connect(self._next_address(), CONNECT_S))
            await connection.send(self._host, target, body, timeout_s)
            del body  # not needed for as long as the answer takes
            reply = await connection.receive(timeout_s)
            if connection.reusable:
                self._idle.append(connection)
                connection = None
            return reply
        finally:
            self._active.dec()
            if connection is not None:
                connection.stream.close()

    def _take(self) -> ClientConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if _is_open(connection.stream.sock):
                return connection
            connection.stream.close()


def _is_open(sock: socket.socket) -> bool:
    """Whether the peer still holds its side: asked of the kernel, since no model may block or poll here."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
