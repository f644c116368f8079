"""A bystander's probes against servers that answer, stand still, leave and talk nonsense."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from generator_support import OK, Answer, Serve, Server

from harness import bystander
from harness.bystander import Bystander
from harness.held import PROBE_TIMEOUT_S


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[Server] = []

    def make(answer: Answer) -> Server:
        servers.append(Server(answer=answer))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def probed(server: Server, at_least: int = 5) -> bystander.Columns:
    with Bystander("127.0.0.1", server.port, "/health") as asking:
        deadline = time.monotonic() + 10
        while len(server.requests) < at_least and time.monotonic() < deadline:
            time.sleep(0.01)
        return asking.stop()


def test_probes_are_due_in_a_fixed_rhythm_and_reuse_a_connection(serve: Serve) -> None:
    server = serve(lambda sock: sock.sendall(OK))
    columns = probed(server, 6)
    assert len(columns["due_s"]) >= 6
    assert np.diff(columns["due_s"]) == pytest.approx(bystander.PERIOD_S)
    assert (columns["latency_s"] > 0).all()
    assert server.connections < len(columns["due_s"]) / 2
    assert server.heads[0].startswith(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_server_that_stands_still_is_seen_for_as_long_as_it_does(serve: Serve) -> None:
    """The open model: the probes due meanwhile are sent, and each has waited since it was due."""
    free = threading.Event()

    def answer(sock: socket.socket) -> None:
        free.wait(10)
        sock.sendall(OK)

    server = serve(answer)
    with Bystander("127.0.0.1", server.port, "/health") as asking:
        deadline = time.monotonic() + 10
        while len(server.requests) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        free.set()
        columns = asking.stop()
    first, fifth = columns["latency_s"][0], columns["latency_s"][4]
    assert first >= 4 * bystander.PERIOD_S
    assert first - fifth == pytest.approx(4 * bystander.PERIOD_S, abs=bystander.PERIOD_S)


def test_no_answer_in_time_is_nan(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bystander, "PROBE_TIMEOUT_S", 0.2)
    columns = probed(serve(lambda sock: time.sleep(5)))
    assert np.isnan(columns["latency_s"]).all()


def leave(sock: socket.socket) -> None:
    sock.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "answer",
    [
        leave,
        lambda sock: sock.sendall(OK.replace(b"200 OK", b"404 No")),
        lambda sock: sock.sendall(b"x" * 100_000),
        lambda sock: sock.sendall(b"\r\n\r\n"),
    ],
    ids=["closes", "refuses", "never ends", "no status"],
)
def test_a_bad_answer_is_none(serve: Serve, answer: Answer) -> None:
    assert np.isnan(probed(serve(answer))["latency_s"]).all()


def test_a_server_that_closes_after_each_answer_is_asked_all_the_same(serve: Serve) -> None:
    def answer(sock: socket.socket) -> None:
        sock.sendall(OK)
        leave(sock)

    columns = probed(serve(answer))
    assert not np.isnan(columns["latency_s"]).any()


def test_an_answer_without_a_length_does_not_spoil_the_next(serve: Serve) -> None:
    server = serve(
        lambda sock: sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
    )
    columns = probed(server)
    assert not np.isnan(columns["latency_s"]).any()
    assert server.connections >= len(columns["due_s"]) - 1


def test_nobody_listens_and_nobody_waits() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with Bystander("127.0.0.1", port, "/health") as asking:
            time.sleep(3 * bystander.PERIOD_S)
            assert np.isnan(asking.stop()["latency_s"]).all()


def test_whoever_fails_does_not_wait_for_its_bystander(serve: Serve) -> None:
    began, server = time.monotonic(), serve(lambda sock: time.sleep(20))

    def interrupted() -> None:
        with Bystander("127.0.0.1", server.port, "/health"):
            time.sleep(2 * bystander.PERIOD_S)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - began < PROBE_TIMEOUT_S
    assert not any(thread.name == "bystander" for thread in threading.enumerate())
