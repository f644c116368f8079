"""Faults around a server: a bad upstream, no descriptors, a full queue, a signal, a dead worker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from support import FakeUpstream, Server, Start, free_port, parse, read_response, request, wait_until

from harness import gauges

BAD_UPSTREAM = {
    "error": 502,
    "not a completion": 502,
    "not json": 502,
    "not http": 502,
    "close": 502,
    "cut short": 502,
}


def values(server: Server) -> dict[str, float]:
    """The server's metrics; 0 for those of a process that has only just begun to listen."""
    return defaultdict(float, gauges.read(server.metrics))


def test_each_fault_of_the_upstream_has_its_status(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "4")
    for behaviour, status in BAD_UPSTREAM.items():
        upstream.behaviour = behaviour
        assert server.get("/rag")[0] == status, behaviour
    upstream.behaviour = "answer"
    assert server.get("/rag")[0] == 200, "it recovers with the upstream"
    count = len(BAD_UPSTREAM) + 1
    wait_until(lambda: values(server)["http_server_request_duration_seconds_count"] == count)
    figures = values(server)
    assert figures['http_server_requests_total{outcome="upstream_error"}'] == len(BAD_UPSTREAM)
    assert figures['http_server_requests_total{outcome="ok"}'] == 1


def test_an_upstream_that_is_not_there_is_502(start: Start) -> None:
    server = start("--threads", "2", upstream_url=f"http://127.0.0.1:{free_port()}")
    assert server.get("/rag")[0] == 502
    assert server.get("/health")[0] == 200


def test_an_upstream_that_hangs_is_504(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "2", "--upstream-timeout", "0.2")
    upstream.delay_s = 1.0
    assert server.get("/rag")[0] == 504
    wait_until(lambda: values(server)["http_client_active_requests"] == 0)
    assert values(server)['http_server_requests_total{outcome="timed_out"}'] == 1


def test_a_dead_pooled_connection_costs_no_request(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "2")
    assert server.get("/rag")[0] == 200
    upstream.behaviour = "close"
    assert server.get("/rag")[0] == 502
    upstream.behaviour = "answer"
    assert [server.get("/rag")[0] for _ in range(3)] == [200] * 3


def test_gauges_show_what_is_in_flight_and_come_back_to_zero(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "3")
    upstream.delay_s = 0.5
    sockets = [server.connect() for _ in range(5)]
    for sock in sockets:
        sock.sendall(request("/rag"))
    in_flight = 3 if server.model == "threadpool" else 5
    wait_until(lambda: values(server)["http_server_active_requests"] == in_flight)
    assert values(server)["http_server_waiting_requests"] == 5 - in_flight
    sockets.pop().close()  # one client leaves
    for sock in sockets:
        assert parse(read_response(sock))[0] == 200
        sock.close()
    names = ("http_server_active_requests", "http_server_waiting_requests", "http_client_active_requests")
    wait_until(lambda: all(values(server)[name] == 0 for name in names))


def test_collector_pauses_are_recorded_one_by_one(start: Start) -> None:
    server = start("--threads", "2", "--gc", "default")
    sockets = [server.connect() for _ in range(150)]  # what lives on makes the collector run
    for sock in sockets:
        sock.sendall(request("/health"))
        read_response(sock)
        sock.sendall(request("/health"))
    pauses = gauges.gc_pauses(server.metrics)
    figures = values(server)
    assert len(pauses) > 0
    assert figures["process_runtime_gc_pause_seconds_count_total"] >= len(pauses)
    assert (pauses["pause_s"] > 0).all()


def test_no_pause_when_the_collector_is_off(start: Start) -> None:
    server = start("--threads", "2", "--gc", "off")
    server.get("/health")
    before = len(gauges.gc_pauses(server.metrics))
    for _ in range(100):
        server.get("/health")
    assert len(gauges.gc_pauses(server.metrics)) == before


def test_out_of_descriptors_every_client_is_told_and_it_recovers(start: Start) -> None:
    server = start("--threads", "2", prefix=("prlimit", "--nofile=48:48"))
    sockets = [server.connect() for _ in range(80)]
    statuses = []
    for sock in sockets:
        sock.sendall(request("/health"))
        statuses.append(parse(read_response(sock))[0])
    assert set(statuses) == {200, 503}
    for sock in sockets:
        sock.close()
    wait_until(lambda: server.get("/health")[0] == 200)
    assert server.log.read_text().count("descriptors exhausted") == 1


def test_sigterm_finishes_what_is_in_flight(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "2")
    upstream.delay_s = 0.6
    resting = server.connect()
    in_flight = [server.connect() for _ in range(3)]  # for two threads: one more waits for its turn
    for sock in in_flight:
        sock.sendall(request("/rag"))
    wait_until(lambda: len(upstream.prompts) >= 2)
    wait_until(lambda: server.model != "threadpool" or values(server)["http_server_waiting_requests"] == 1)
    server.process.send_signal(signal.SIGTERM)
    assert resting.recv(1) == b"", "a connection at rest is closed at once"
    for sock in in_flight:
        response = read_response(sock)
        assert parse(response)[0] == 200
        assert b"\r\nConnection: close\r\n" in response or server.model == "threadpool"
    assert server.process.wait(timeout=5) == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


def test_sigterm_gives_up_after_the_grace_time(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "2", "--grace", "0.2")
    upstream.delay_s = 5
    with server.connect() as sock:
        sock.sendall(request("/rag"))
        wait_until(lambda: len(upstream.prompts) == 1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=3) == 1
    assert "still in flight" in server.log.read_text()


@pytest.mark.parametrize("model", ["threadpool"])
def test_a_bounded_queue_refuses_with_503(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "1", "--queue", "2")
    upstream.delay_s = 0.4
    sockets = [server.connect() for _ in range(6)]
    for sock in sockets:
        sock.sendall(request("/rag"))
        time.sleep(0.03)  # in this order: one runs, two wait, three are refused
    statuses = [parse(read_response(sock))[0] for sock in sockets]
    assert statuses == [200, 200, 200, 503, 503, 503]
    assert values(server)['http_server_requests_total{outcome="refused"}'] == 3


def test_a_port_in_use_is_one_line_and_no_start(model: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for workers in ("1", "2"):
            command = [
                sys.executable,
                "-m",
                "servers",
                model.partition("-")[0],
                "--port",
                port,
                "--workers",
                workers,
            ]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
            assert ended.returncode == 2
            assert ended.stderr.count("\n") == 1
            assert f"127.0.0.1:{port}" in ended.stderr


def test_a_dead_worker_ends_the_pod(start: Start) -> None:
    server = start("--threads", "2", "--workers", "2")
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    assert len(children) == 2
    os.kill(int(children[0]), signal.SIGKILL)
    assert server.process.wait(timeout=5) != 0
    assert "the pod ends" in server.log.read_text()


def test_workers_share_the_port_and_none_survives_the_pod(start: Start) -> None:
    server = start("--threads", "2", "--workers", "2")
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    for _ in range(40):
        assert server.get("/rag")[0] == 200
    files = list(server.metrics.glob("summary_*.db"))
    assert len(files) == 2, "each worker counts for itself"
    wait_until(lambda: values(server)["http_server_request_duration_seconds_count"] == 40)
    server.process.kill()
    server.process.wait()
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
