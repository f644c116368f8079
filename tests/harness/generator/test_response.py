from __future__ import annotations

import gc

import pytest

from harness.generator.response import HEAD_BYTES_MAX, ProtocolError, Response, Truncated

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
CLOSING = b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\n\r\n" + LENGTH
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc"

WHOLE = [
    (LENGTH, 200, True),
    (CHUNKED, 200, True),
    (EMPTY, 204, True),
    (CLOSING, 503, False),
    (INTERIM, 200, True),
    (OLD, 200, False),
]


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(("data", "status", "reusable"), WHOLE)
def test_a_response_ends_where_its_framing_says(data: bytes, status: int, reusable: bool, step: int) -> None:
    response = Response()
    for at in range(0, len(data), step):
        assert not response.complete
        response.feed(data[at : at + step])
    assert (response.complete, response.status, response.reusable) == (True, status, reusable)


@pytest.mark.parametrize("data", [LENGTH, CHUNKED, INTERIM, OLD])
def test_closing_earlier_is_a_truncation(data: bytes) -> None:
    for end in range(1, len(data)):
        response = Response()
        response.feed(data[:end])
        with pytest.raises(Truncated):
            response.end()


def test_closing_before_the_first_byte_is_a_truncation() -> None:
    with pytest.raises(Truncated):
        Response().end()


def test_without_any_framing_closing_is_the_end() -> None:
    response = Response()
    response.feed(b"HTTP/1.1 200 OK\r\n\r\nwhat")
    response.feed(b"ever")
    assert not response.complete
    response.end()
    assert (response.complete, response.status, response.reusable) == (True, 200, False)


@pytest.mark.parametrize("rest", [b"\x00", LENGTH, b"garbage"])
@pytest.mark.parametrize("data", [LENGTH, CLOSING])
def test_what_follows_a_response_spoils_the_connection_only(data: bytes, rest: bytes) -> None:
    response = Response()
    response.feed(data + rest)
    assert response.complete
    assert not response.reusable
    assert response.status == (200 if data is LENGTH else 503)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_BYTES_MAX,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Response().feed(data)


def test_a_closed_response_leaves_nothing_to_a_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            response = Response()
            response.feed(LENGTH)
            response.close()
        del response
        assert gc.collect() == 0
    finally:
        gc.enable()
