"""HTTP/1.1 on h11, both sides, once.

h11 keeps the protocol's state and never touches a socket; this module moves bytes between it and a `Stream`.
Rules:
- one `h11.Connection` per TCP connection and side, reused from request to request;
- a malformed peer raises `Refusal` (server side) or `BadGateway` (client side), never a bare h11 error;
- every response has a content-length, and a response leaves in one `sendall`.
"""

from __future__ import annotations

import json
import socket
import time
from http import HTTPStatus
from typing import Any, NamedTuple

import h11

from servers.io import Stream

READ_BYTES = 16 * 1024
HEAD_BYTES = 16 * 1024
LINGER_S = 1.0
LINGER_BYTES = 256 * 1024

REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}

Headers = tuple[tuple[bytes, bytes], ...]
JSON: Headers = ((b"content-type", b"application/json"),)


class Request(NamedTuple):
    """A request whose body has been read, and dropped: no route takes one."""

    method: str
    path: str
    query: str


class Response(NamedTuple):
    """What a handler answers; `outcome` is its row in the counters."""

    status: int
    body: bytes
    headers: Headers = JSON
    outcome: str = "ok"


def failure(status: int, message: str, outcome: str) -> Response:
    """An error as a JSON body."""
    return Response(status, json.dumps({"error": message}).encode(), outcome=outcome)


class Refusal(Exception):
    """The client's fault: answered with `status`, then the connection is closed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class BadGateway(Exception):
    """The upstream's fault: it closed early or does not speak HTTP."""


class ServerConnection:
    """The server's side of one connection."""

    __slots__ = ("_h11", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)

    @property
    def has_data(self) -> bool:
        """A pipelined request is already here."""
        return bool(self._h11.trailing_data[0])

    def feed(self, data: bytes) -> None:
        self._h11.receive_data(data)

    async def read_request(self, timeout_s: float, body_bytes: int) -> Request:
        """The next whole request.

        Raises:
            Refusal: 400, 413, 431, 501 or 505 for what the client sent, 408 for what it did not send in time.
            ConnectionError: the client is gone.
        """
        deadline = time.monotonic() + timeout_s
        head: Any = None
        received = 0
        try:
            while True:
                event: Any = self._h11.next_event()
                kind = type(
                    event
                )  # not isinstance: h11's events are ABCs, and asking one is ten times dearer
                if event is h11.NEED_DATA:
                    await self._receive(deadline - time.monotonic())
                elif kind is h11.Request:
                    head = event
                    _check_head(head, body_bytes)
                elif kind is h11.Data:
                    received += len(event.data)
                    if received > body_bytes:
                        raise Refusal(413, f"the body is longer than {body_bytes} bytes")
                elif kind is h11.EndOfMessage and head is not None:
                    path, _, query = head.target.decode("latin-1").partition("?")
                    return Request(head.method.decode("ascii"), path, query)
                else:
                    raise ConnectionResetError("the client closed the connection")
        except h11.RemoteProtocolError as error:
            raise Refusal(error.error_status_hint, str(error)) from error
        except TimeoutError as error:
            raise Refusal(408, f"the request did not arrive within {timeout_s:g} s") from error

    async def _receive(self, timeout_s: float) -> None:
        if self._h11.they_are_waiting_for_100_continue:
            go_on = self._h11.send(h11.InformationalResponse(status_code=100, headers=[]))
            await self.stream.sendall(go_on or b"", timeout_s)
        if timeout_s <= 0:
            raise TimeoutError
        self._h11.receive_data(await self.stream.recv(READ_BYTES, timeout_s))

    async def respond(self, response: Response, close: bool, timeout_s: float) -> bool:
        """Send a response; True if the connection can carry another request."""
        headers = [*response.headers, (b"content-length", b"%d" % len(response.body))]
        if close:
            headers.append((b"Connection", b"close"))  # spelled as h11 does where it adds it
        send, status = self._h11.send, response.status
        await self.stream.sendall(
            b"".join(
                (
                    send(h11.Response(status_code=status, headers=headers, reason=REASONS[status])) or b"",
                    send(h11.Data(data=response.body)) or b"",
                    send(h11.EndOfMessage()) or b"",
                )
            ),
            timeout_s,
        )
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True

    async def linger(self) -> None:
        """Let the client read a refusal before the connection goes.

        Closing a socket that has unread input sends a reset, which can overtake and destroy the answer.
        """
        try:
            self.stream.sock.shutdown(socket.SHUT_WR)
            received = 0
            deadline = time.monotonic() + LINGER_S
            while received < LINGER_BYTES and (left := deadline - time.monotonic()) > 0:
                data = await self.stream.recv(READ_BYTES, left)
                if not data:
                    return
                received += len(data)
        except OSError:
            return


def _check_head(head: h11.Request, body_bytes: int) -> None:
    if head.http_version not in (b"1.0", b"1.1"):
        raise Refusal(505, f"HTTP/{head.http_version.decode()}: this server speaks 1.1")
    for name, value in head.headers:
        if name == b"content-length" and int(value) > body_bytes:
            raise Refusal(413, f"content-length {int(value)}: at most {body_bytes} bytes are taken")


class Reply(NamedTuple):
    """An upstream's whole answer."""

    status: int
    body: bytes


class ClientConnection:
    """The client's side of one connection to the upstream."""

    __slots__ = ("_h11", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)

    @property
    def reusable(self) -> bool:
        """The last exchange ended cleanly on both sides."""
        return self._h11.our_state is h11.IDLE

    async def send(self, host: bytes, target: bytes, body: bytes, timeout_s: float) -> None:
        """Send a POST with a JSON body."""
        send = self._h11.send
        headers = [(b"host", host), *JSON, (b"content-length", b"%d" % len(body))]
        await self.stream.sendall(
            b"".join(
                (
                    send(h11.Request(method=b"POST", target=target, headers=headers)) or b"",
                    send(h11.Data(data=body)) or b"",
                    send(h11.EndOfMessage()) or b"",
                )
            ),
            timeout_s,
        )

    async def receive(self, timeout_s: float) -> Reply:
        """The whole answer to what was sent.

        Raises:
            BadGateway: the answer was cut short or is not HTTP.
            TimeoutError, OSError: from the stream.
        """
        deadline = time.monotonic() + timeout_s
        status = 0
        parts: list[bytes] = []
        try:
            while True:
                event: Any = self._h11.next_event()
                kind = type(event)
                if event is h11.NEED_DATA:
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise TimeoutError
                    self._h11.receive_data(await self.stream.recv(READ_BYTES, left_s))
                elif kind is h11.Response:
                    status = event.status_code
                elif kind is h11.Data:
                    parts.append(event.data)
                elif kind is h11.EndOfMessage:
                    break
                elif kind is not h11.InformationalResponse:
                    raise BadGateway("it closed the connection before it answered")
        except h11.RemoteProtocolError as error:
            raise BadGateway(str(error)) from error
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
        return Reply(status, b"".join(parts))
