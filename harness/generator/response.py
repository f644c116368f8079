"""One HTTP response, from bytes to a status and where it ends. Pure: no socket, no clock.

A response is whole when its framing says so (length, chunks, or a status without a body), or, where the head
announces neither, when the server closes. Closing earlier is a truncation. Interim responses (1xx) are passed
over.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_BYTES_MAX: Final = 65_536
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding"))


class ProtocolError(Exception):
    """The peer does not speak HTTP/1.1, or its head does not end."""


class Truncated(Exception):
    """The peer closed before the response was whole."""


class Response:
    """A response being received; `feed` it until it is `complete`, or `end` it when the peer closes.

    `status` is 0 until a final head is whole. `reusable` tells, once complete, whether the connection may
    carry another request.
    """

    __slots__ = ("_framed", "_head_bytes", "_parser", "complete", "reusable", "status")

    def __init__(self) -> None:
        self.status = 0
        self.complete = False
        self.reusable = False
        self._framed = False
        self._head_bytes = 0
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Takes what was received, at least one byte. Raises ProtocolError."""
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.reusable = False
            if not self.complete:  # what follows a whole response is no fault of that response
                raise ProtocolError(str(error)) from error
        if not self.status and self._head_bytes > HEAD_BYTES_MAX:
            raise ProtocolError(f"no end of the head within {HEAD_BYTES_MAX} bytes")

    def end(self) -> None:
        """The peer has closed. Raises Truncated if the response needed more."""
        if not self.status or self._framed:
            raise Truncated
        self.complete = True

    def close(self) -> None:
        """Forgets the parser: it and the response refer to each other, and during a run no collector runs."""
        del self._parser

    # httptools calls these, by their names.

    def on_message_begin(self) -> None:
        if self.complete:  # bytes that nobody asked for
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._framed = self._framed or name.lower() in _FRAMING

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self.complete:
            self.status = status

    def on_message_complete(self) -> None:
        if self.status and not self.complete:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()
