"""The client on plain blocking sockets: Locust's gevent is nothing that it knows of."""

from __future__ import annotations

import errno
import gc
import math
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from harness.generator.client import UNSENT_BY_ERRNO, Answer, Client, Failed, Unsent
from harness.generator.ledger import REASONS

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
CLOSE = None
RESET = 0

# What the peer does on one connection: answer a request with bytes, or end the connection in one of two ways.
Act = bytes | int | None


class Peer:
    """A server that plays one script per connection."""

    def __init__(self, scripts: list[list[Act]]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.peers: list[str] = []
        self.requests = 0
        self.ended = threading.Event()
        self._scripts = scripts
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for script in self._scripts:
            try:
                sock, (address, _) = self._listener.accept()
            except OSError:
                return
            self.peers.append(address)
            with sock:
                self._play(sock, script)
            self.ended.set()

    def _play(self, sock: socket.socket, script: list[Act]) -> None:
        for act in script:
            if isinstance(act, bytes) or act == RESET:
                if not sock.recv(4096):
                    return
                self.requests += 1
            if isinstance(act, bytes):
                sock.sendall(act)
            elif act == RESET:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    def close(self) -> None:
        self._listener.close()


MakePeer = Callable[..., Peer]


@pytest.fixture
def peer() -> Iterator[MakePeer]:
    peers: list[Peer] = []

    def make(*scripts: list[Act]) -> Peer:
        peers.append(Peer(list(scripts)))
        return peers[-1]

    yield make
    for made in peers:
        made.close()


@contextmanager
def client(port: int, *sources: str) -> Iterator[Client]:
    made = Client("127.0.0.1", port, REQUEST, sources)
    try:
        yield made
    finally:
        made.close()


def fetch(client: Client) -> Answer:
    answer = Answer()
    client.fetch(answer)
    return answer


@pytest.mark.parametrize("data", [OK, CHUNKED])
def test_an_answer_tells_status_bytes_and_first_byte(peer: MakePeer, data: bytes) -> None:
    with client(peer([data]).port) as http:
        answer = fetch(http)
    assert (answer.status, answer.received_bytes, answer.source) == (200, len(data), -1)
    assert not math.isnan(answer.first_byte_at)


def test_an_idle_connection_is_used_again(peer: MakePeer) -> None:
    server = peer([OK, CHUNKED, OK])
    with client(server.port) as http:
        assert [fetch(http).status for _ in range(3)] == [200, 200, 200]
    assert len(server.peers) == 1


def test_an_idle_connection_that_was_closed_is_not(peer: MakePeer) -> None:
    server = peer([OK, CLOSE], [OK])
    with client(server.port) as http:
        fetch(http)
        assert server.ended.wait(5)
        assert fetch(http).status == 200
    assert len(server.peers) == 2
    assert server.requests == 2  # nothing was sent into the closed one, and nothing twice


def test_unasked_bytes_spoil_a_connection(peer: MakePeer) -> None:
    server = peer([OK + OK], [OK])
    with client(server.port) as http:
        assert [fetch(http).status, fetch(http).status] == [200, 200]
    assert len(server.peers) == 2


@pytest.mark.parametrize("end", [RESET, b""])
def test_a_kept_connection_that_breaks_under_a_request_is_stale_and_not_tried_again(
    peer: MakePeer, end: Act
) -> None:
    server = peer([OK, end], [OK])
    with client(server.port) as http:
        fetch(http)
        with pytest.raises(Failed, match=r"^stale connection$"):
            fetch(http)
        assert server.requests == 2
        assert fetch(http).status == 200


@pytest.mark.parametrize(
    ("act", "reason", "status"),
    [
        (b"", "truncated", 0),
        (RESET, "reset", 0),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "truncated", 0),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "truncated", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "truncated", 200),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "protocol", 0),
    ],
)
def test_a_failure_has_its_reason_and_keeps_what_came(
    peer: MakePeer, act: Act, reason: str, status: int
) -> None:
    answer = Answer()
    with client(peer([act]).port) as http, pytest.raises(Failed, match=f"^{reason}$"):
        http.fetch(answer)
    assert answer.status == status
    assert math.isnan(answer.first_byte_at) == (not answer.received_bytes)


def test_where_nobody_listens_connecting_fails() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with client(unused.getsockname()[1]) as http, pytest.raises(Failed, match=r"^connect$"):
            fetch(http)


def test_connections_come_from_the_sources_in_turn(peer: MakePeer) -> None:
    server = peer(*([OK, CLOSE] for _ in range(4)))
    sources = []
    with client(server.port, "127.0.0.2", "127.0.0.3") as http:
        for _ in range(4):
            server.ended.clear()
            sources.append(fetch(http).source)
            assert server.ended.wait(5)
    assert sources == [0, 1, 0, 1]
    assert server.peers == ["127.0.0.2", "127.0.0.3"] * 2


def test_a_source_that_is_not_ours_leaves_the_request_unsent(peer: MakePeer) -> None:
    with client(peer([OK]).port, "192.0.2.1") as http, pytest.raises(Unsent, match=r"^ports$"):
        fetch(http)


def test_without_descriptors_a_request_is_unsent(peer: MakePeer) -> None:
    server = peer([OK])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with client(server.port) as http:
        with open("/dev/null") as lowest_free:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free.fileno(), limits[1]))
        try:
            with pytest.raises(Unsent, match=r"^descriptors$"):
                fetch(http)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert fetch(http).status == 200


def test_every_reason_is_one_of_the_ledgers() -> None:
    assert set(UNSENT_BY_ERRNO.values()) <= set(REASONS)
    assert UNSENT_BY_ERRNO[errno.EMFILE] == "descriptors"


def test_the_descriptors_peak_is_the_highest_number_given(peer: MakePeer) -> None:
    with open("/dev/null") as lowest_free:
        lowest = lowest_free.fileno()
    with client(peer([OK]).port) as http:
        fetch(http)
        assert http.descriptors_peak > lowest


@pytest.mark.parametrize("act", [OK, b"", b"SSH-2.0\r\n"])
def test_a_request_leaves_nothing_to_a_collector(peer: MakePeer, act: Act) -> None:
    server = peer(*([act] for _ in range(20)))
    with client(server.port) as http:
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                with suppress(Failed):
                    fetch(http)
            assert gc.collect() == 0
        finally:
            gc.enable()
