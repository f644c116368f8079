"""HTTP/1.1 over blocking sockets: one request, one response, a pool of idle connections.

- Only the greenlet blocks: `import locust` has put gevent under the socket module.
- As little as possible per request in flight: a socket and a greenlet; a parser exists only from the first
  byte on.
- No time-out here: whoever sends also ends what takes too long, by throwing into the greenlet.
- A request is never repeated. A kept-alive connection that breaks under it leaves open whether the server got
  it, and a silent second try would count once here and twice there. Only when the kernel took none of its
  bytes is another connection used.
"""

from __future__ import annotations

import errno
import math
import socket
from collections.abc import Mapping, Sequence
from itertools import cycle
from time import monotonic
from typing import Final

from harness.generator.response import ProtocolError, Response, Truncated

# Linux, <linux/in.h>; not in Python's socket module before 3.12. Without it bind() takes a port at once,
# before the destination is known, and ports run out per source address instead of per (source, destination).
IP_BIND_ADDRESS_NO_PORT: Final = 24
RECEIVE_BYTES: Final = 65_536

UNSENT_BY_ERRNO: Final[Mapping[int | None, str]] = {
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.EADDRNOTAVAIL: "ports",
    errno.ENOBUFS: "memory",
    errno.ENOMEM: "memory",
}

BROKEN: Final[Mapping[type[Exception], str]] = {Truncated: "truncated", ProtocolError: "protocol"}


class Unsent(Exception):
    """No byte of the request left; the argument is one of the ledger's REASONS."""


class Failed(Exception):
    """The request left, or tried to, without a whole answer; the argument is one of the ledger's REASONS."""


class Answer:
    """What was seen of one answer, filled while it comes, so that an abandoned one keeps what it had."""

    __slots__ = ("first_byte_at", "received_bytes", "source", "status")

    def __init__(self) -> None:
        self.first_byte_at = math.nan  # on the monotonic clock
        self.received_bytes = 0
        self.source = -1
        self.status = 0


class Client:
    """Sends the same request to one address, over as many connections as there are requests in flight.

    `descriptors_peak` is the most descriptors the process had open when a socket was made.
    """

    def __init__(self, host: str, port: int, request: bytes, sources: Sequence[str] = ()) -> None:
        """Raises OSError when `host` does not resolve."""
        info = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._family, self._address = info[0], info[4]
        self._request = request
        self._sources = cycle(enumerate(sources)) if sources else None
        self._idle: list[tuple[socket.socket, int]] = []
        # One buffer for all: nothing switches greenlets between filling it and parsing it.
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.descriptors_peak = 0

    def fetch(self, answer: Answer) -> None:
        """Sends the request and fills `answer`. Raises Unsent, Failed, and what others throw into it."""
        sock, reused = self._send(answer)
        try:
            reusable = self._receive(sock, answer, reused)
        except BaseException:
            sock.close()
            raise
        if reusable:
            self._idle.append((sock, answer.source))
        else:
            sock.close()

    def close(self) -> None:
        """Closes the idle connections."""
        while self._idle:
            self._idle.pop()[0].close()

    def _send(self, answer: Answer) -> tuple[socket.socket, bool]:
        while self._idle:  # last in, first out: the one that the server is least likely to have given up
            sock, answer.source = self._idle.pop()
            try:
                if _quiet(sock):
                    # An idle connection's send buffer is empty: it takes the request whole or not at all.
                    sock.sendall(self._request)
                    return sock, True
            except OSError:
                pass
            sock.close()
        return self._send_on_new(answer), False

    def _send_on_new(self, answer: Answer) -> socket.socket:
        sock = self._open()
        try:
            self._connect(sock, answer)
            sock.sendall(self._request)
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError):
                raise Failed("reset") from error
            raise
        return sock

    def _open(self) -> socket.socket:
        try:
            sock = socket.socket(self._family, socket.SOCK_STREAM)
        except OSError as error:
            raise Unsent(UNSENT_BY_ERRNO.get(error.errno, "descriptors")) from error
        # The kernel gives the lowest free number: when n is handed out, 0 … n − 1 are open.
        self.descriptors_peak = max(self.descriptors_peak, sock.fileno() + 1)
        return sock

    def _connect(self, sock: socket.socket, answer: Answer) -> None:
        try:
            if self._sources:
                answer.source, source = next(self._sources)
                sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
                sock.bind((source, 0))
            sock.connect(self._address)
        except OSError as error:
            if error.errno in UNSENT_BY_ERRNO:
                raise Unsent(UNSENT_BY_ERRNO[error.errno]) from error
            raise Failed("connect") from error

    def _receive(self, sock: socket.socket, answer: Answer, reused: bool) -> bool:
        """Whether the connection may carry another request."""
        response = None
        try:
            while response is None or not response.complete:
                n = sock.recv_into(self._buffer)
                if response is None:
                    response = Response()
                if not n:
                    response.end()
                    return False
                if not answer.received_bytes:
                    answer.first_byte_at = monotonic()
                answer.received_bytes += n
                response.feed(self._buffer[:n])
                answer.status = response.status
        except (OSError, Truncated, ProtocolError) as error:
            if reused and not answer.received_bytes:
                raise Failed("stale connection") from error
            raise Failed(BROKEN.get(type(error), "reset")) from error
        finally:
            if response is not None:
                response.close()
        return response.reusable


def _quiet(sock: socket.socket) -> bool:
    """Whether an idle connection is open and has nothing to say. Raises OSError if it is broken."""
    sock.settimeout(0.0)
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        sock.settimeout(None)
        return True
    return False
