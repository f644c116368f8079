"""What a client sees of HTTP is the same from every model: same bytes, same refusals, same endings."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress

import pytest
from support import (
    HITS,
    FakeUpstream,
    Start,
    parse,
    read_response,
    request,
    wait_until,
)

RAG = json.dumps({"answer": "two pods", "documents": HITS}).encode()
HEALTH = b'{"status":"ok"}'


def ok(body: bytes, extra: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%s\r\n%s" % (
        len(body),
        extra,
        body,
    )


SAME_BYTES = [
    (request("/health"), ok(HEALTH)),
    (request("/rag"), ok(RAG)),
    (request("/rag?q=why"), ok(RAG)),
    (request("/health", "connection: close\r\n"), ok(HEALTH, b"Connection: close\r\n")),
    (b"GET /health HTTP/1.0\r\n\r\n", ok(HEALTH, b"Connection: close\r\n")),
    (
        request("/nowhere"),
        b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 51\r\n\r\n"
        b'{"error": "no such route; there are /rag, /health"}',
    ),
    (
        request("/rag", method="DELETE"),
        b"HTTP/1.1 405 Method Not Allowed\r\ncontent-type: application/json\r\nallow: GET\r\n"
        b'content-length: 33\r\n\r\n{"error": "this route takes GET"}',
    ),
]

# (name, what the client sends, the status it gets); after each the connection is closed.
REFUSED = [
    ("not HTTP", b"\x16\x03\x01 hello\r\n\r\n", 400),
    ("no host", b"GET /health HTTP/1.1\r\n\r\n", 400),
    ("a space in a header's name", request("/health", "bad name: x\r\n"), 400),
    ("a length that is no number", request("/health", "content-length: many\r\n"), 400),
    ("two lengths that differ", request("/health", "content-length: 1\r\ncontent-length: 2\r\n"), 400),
    ("a head without an end", b"GET /health HTTP/1.1\r\nhost: t\r\nx: " + b"y" * 40_000, 431),
    ("a body announced too long", request("/health", "content-length: 2000000\r\n", "POST"), 413),
    (
        "a chunked body that grows too long",
        request("/health", "transfer-encoding: chunked\r\n", "POST")
        + b"".join(b"10000\r\n%s\r\n" % (b"z" * 0x10000) for _ in range(17)),
        413,
    ),
    ("an unknown transfer encoding", request("/health", "transfer-encoding: zip\r\n", "POST"), 501),
    ("HTTP/3.0 in text", b"GET /health HTTP/3.0\r\nhost: t\r\n\r\n", 505),
]


@pytest.mark.parametrize(("sent", "received"), SAME_BYTES, ids=range(len(SAME_BYTES)))
def test_the_same_bytes_for_the_same_request(start: Start, sent: bytes, received: bytes) -> None:
    assert start("--threads", "4").exchange(sent) == received


def test_keep_alive_pipelined_and_byte_by_byte(start: Start) -> None:
    server = start("--threads", "4")
    with server.connect() as sock:
        for _ in range(3):
            sock.sendall(request("/health"))
            assert read_response(sock) == ok(HEALTH)
        sock.sendall(request("/rag") + request("/health") + request("/rag"))
        assert [read_response(sock) for _ in range(3)] == [ok(RAG), ok(HEALTH), ok(RAG)]
        for byte in request("/rag", "content-length: 3\r\n") + b"abc":
            sock.sendall(bytes([byte]))
        assert read_response(sock) == ok(RAG)


def test_expect_100_continue(start: Start) -> None:
    server = start("--threads", "4")
    with server.connect() as sock:
        sock.sendall(request("/health", "expect: 100-continue\r\ncontent-length: 3\r\n"))
        assert sock.recv(25) == b"HTTP/1.1 100 \r\n\r\n"
        sock.sendall(b"abc")
        assert read_response(sock) == ok(HEALTH)


def test_malformed_input_is_refused_and_the_server_lives_on(start: Start) -> None:
    server = start("--threads", "2", "--request-timeout", "1")
    for name, sent, status in REFUSED:
        with server.connect() as sock:
            with suppress(ConnectionError):  # it may refuse before it has read everything
                sock.sendall(sent)
            assert parse(read_response(sock))[0] == status, name
            assert sock.recv(1) == b"", f"{name}: the connection stays open"
    assert server.get("/health") == (200, HEALTH)
    log = server.log.read_text()
    assert log.count("refused a request with 400") == 1, "one line a kind, however often"


def test_half_closed_client_gets_its_answer(start: Start) -> None:
    server = start("--threads", "2")
    with server.connect() as sock:
        sock.sendall(request("/rag"))
        sock.shutdown(socket.SHUT_WR)
        assert read_response(sock) == ok(RAG)
        assert sock.recv(1) == b""


def test_a_request_cut_short_by_a_half_close_is_refused(start: Start) -> None:
    server = start("--threads", "2")
    with server.connect() as sock:
        sock.sendall(b"GET /health HT")
        sock.shutdown(socket.SHUT_WR)
        assert parse(read_response(sock))[0] == 400


def test_a_request_that_does_not_arrive_in_time_is_answered_408(start: Start) -> None:
    server = start("--threads", "2", "--request-timeout", "0.2")
    with server.connect() as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\n")
        assert parse(read_response(sock))[0] == 408


def test_a_slow_reader_loses_nothing_and_holds_nobody_up(start: Start) -> None:
    server = start("--threads", "4")
    count = 4000
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(20)
        slow.connect(("127.0.0.1", server.port))
        sender = threading.Thread(target=slow.sendall, args=(request("/health") * count,), daemon=True)
        sender.start()
        time.sleep(0.2)  # let the server run into the full buffers
        assert server.get("/health") == (200, HEALTH)
        expected = ok(HEALTH) * count
        received = bytearray()
        while len(received) < len(expected):
            received += slow.recv(65536)
        assert bytes(received) == expected


def test_many_at_once_are_all_answered(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "64")
    upstream.delay_s = 0.2
    sockets = [server.connect() for _ in range(64)]
    for sock in sockets:
        sock.sendall(request("/rag"))
    assert {read_response(sock) for sock in sockets} == {ok(RAG)}
    for sock in sockets:
        sock.close()
    assert len(upstream.prompts) == 64


def test_the_question_reaches_the_model(start: Start, upstream: FakeUpstream) -> None:
    start("--threads", "2").get("/rag?q=how%20many")
    (prompt,) = upstream.prompts
    assert isinstance(prompt, dict)
    assert prompt["messages"][-1] == {"role": "user", "content": "how many"}
    assert "doc-2" in prompt["messages"][0]["content"]


def test_a_client_that_leaves_is_forgotten(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "2")
    upstream.delay_s = 0.2
    for _ in range(4):
        with server.connect() as sock:
            sock.sendall(request("/rag"))
    wait_until(lambda: len(upstream.prompts) == 4)
    assert server.get("/health") == (200, HEALTH)
