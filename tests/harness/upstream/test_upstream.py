"""The upstream as a program: what it answers, how long it waits, what it counts, how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import gauges
from harness.procfs import read_processes
from harness.program import Program

CHAT = {"model": "small", "messages": [{"role": "user", "content": "why?"}]}
CHAT_PATH = "/v1/chat/completions"


class Upstream:
    """A running upstream, the port it took, and where it counts."""

    def __init__(self, program: Program, port: int, metrics: Path) -> None:
        self.program = program
        self.port = port
        self.metrics = metrics

    def send(self, method: str, path: str, body: bytes) -> tuple[int, Any, float]:
        """Status, decoded body and seconds it took."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.connect()
        began_s = time.monotonic()
        connection.request(method, path, body)
        response = connection.getresponse()
        answer = json.loads(response.read())
        took_s = time.monotonic() - began_s
        connection.close()
        return response.status, answer, took_s

    def post(self, path: str, body: object) -> tuple[int, Any, float]:
        return self.send("POST", path, json.dumps(body).encode())

    def count(self, name: str, route: str) -> float:
        return gauges.read(self.metrics).get(f'{name}{{route="{route}"}}', 0.0)


@contextlib.contextmanager
def running(directory: Path, *options: str) -> Iterator[Upstream]:
    metrics = directory / "metrics"
    argv = [sys.executable, "-m", "harness.upstream", "--port", "0", "--metrics", str(metrics), *options]
    with Program(argv, log=directory / "log", name="upstream", pipes=True) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), program.failure("did not start")
        yield Upstream(program, int(line.rpartition(":")[2]), metrics)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with running(tmp_path_factory.mktemp("upstream"), "--vector", "20.3 ms", "--llm", "0.1 s") as it:
        yield it


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """One whose completions never come within a test."""
    with running(tmp_path_factory.mktemp("patient"), "--vector", "1 ms", "--llm", "1 h") as it:
        yield it


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return met


def open_chat(upstream: Upstream) -> socket.socket:
    body = json.dumps(CHAT).encode()
    client = socket.create_connection(("127.0.0.1", upstream.port))
    client.sendall(
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (CHAT_PATH.encode(), len(body))
    )
    client.sendall(body)
    return client


def test_search_answers_ids_with_falling_scores(upstream: Upstream) -> None:
    status, answer, _ = upstream.post("/search", {"vector": [0.1, 0.2], "top_k": 3})
    assert status == 200
    assert [result["id"] for result in answer["results"]] == ["doc-000", "doc-001", "doc-002"]
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)


def test_chat_answers_as_openai_does(upstream: Upstream) -> None:
    status, answer, _ = upstream.post(CHAT_PATH, {**CHAT, "temperature": 0.2})
    assert status == 200
    assert set(answer) == {"id", "object", "created", "model", "choices", "usage"}
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "small"
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["choices"][0]["finish_reason"] == "stop"
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_health(upstream: Upstream) -> None:
    assert upstream.send("GET", "/health", b"")[:2] == (200, {"status": "ok"})


@pytest.mark.parametrize(("path", "body", "least_s"), [("/search", {}, 0.0203), (CHAT_PATH, CHAT, 0.1)])
def test_no_answer_comes_early(upstream: Upstream, path: str, body: object, least_s: float) -> None:
    with ThreadPoolExecutor(10) as pool:
        took = list(pool.map(lambda _: upstream.post(path, body)[2], range(100)))
    assert min(took) >= least_s


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/search", b"{", 400, "truncated"),
        ("POST", "/search", b"\xff", 400, "cannot be used"),
        ("POST", "/search", b'{"top_k": 0}', 400, "top_k"),
        ("POST", "/search", b"[]", 400, "object"),
        ("POST", CHAT_PATH, b"", 400, "truncated"),
        ("POST", CHAT_PATH, b'{"messages": []}', 400, "model"),
        ("POST", CHAT_PATH, b'{"model": "m", "messages": [{]}', 400, "malformed"),
        ("POST", CHAT_PATH, b'{"model": "m", "messages": [], "stream": true}', 400, "stream"),
        ("GET", "/search", b"", 405, "POST"),
        ("POST", "/v1/completions", b"{}", 404, "no such path"),
    ],
)
def test_what_cannot_be_answered_is_refused_and_not_counted(
    upstream: Upstream, method: str, path: str, body: bytes, status: int, words: str
) -> None:
    before = gauges.read(upstream.metrics)
    found, answer, _ = upstream.send(method, path, body)
    assert (found, answer["error"]["type"]) == (status, "invalid_request_error")
    assert words in answer["error"]["message"]
    assert gauges.read(upstream.metrics) == before


def test_requests_are_counted_once_each(upstream: Upstream) -> None:
    before = {route: upstream.count("upstream_requests_total", route) for route in ("search", "chat")}
    for _ in range(3):
        upstream.post("/search", {})
    upstream.post(CHAT_PATH, CHAT)
    assert upstream.count("upstream_requests_total", "search") == before["search"] + 3
    assert upstream.count("upstream_requests_total", "chat") == before["chat"] + 1
    assert upstream.count("upstream_active_requests", "search") == 0
    assert upstream.count("upstream_active_requests", "chat") == 0


def test_a_client_that_leaves_ends_the_wait_and_is_counted(patient: Upstream) -> None:
    clients = [open_chat(patient) for _ in range(20)]
    assert within(10, lambda: patient.count("upstream_active_requests", "chat") == 20)
    assert patient.count("upstream_aborted_total", "chat") == 0
    for client in clients[:5]:
        client.close()
    assert within(10, lambda: patient.count("upstream_active_requests", "chat") == 15)
    assert patient.count("upstream_aborted_total", "chat") == 5
    for client in clients[5:]:
        client.close()
    assert within(10, lambda: patient.count("upstream_active_requests", "chat") == 0)
    assert patient.count("upstream_aborted_total", "chat") == 20
    assert patient.count("upstream_requests_total", "chat") == 20


def test_a_client_that_leaves_half_way_through_its_body_is_no_request(patient: Upstream) -> None:
    with socket.create_connection(("127.0.0.1", patient.port)) as client:
        client.sendall(b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
    assert patient.post("/search", {})[0] == 200
    assert patient.count("upstream_requests_total", "search") == 1


def test_stopping_waits_for_nobody_and_blames_nobody(tmp_path: Path) -> None:
    with running(tmp_path, "--llm", "1 h", "--processes", "2") as it:
        clients = [open_chat(it) for _ in range(20)]
        assert within(10, lambda: it.count("upstream_active_requests", "chat") == 20)
        assert it.program.stop(grace_s=10) == 0
        assert it.count("upstream_active_requests", "chat") == 0
        assert it.count("upstream_aborted_total", "chat") == 0
        assert it.program.log_tail(10) == ""
        for client in clients:
            client.close()


def workers_of(program: Program) -> list[int]:
    return [stat.pid for stat in read_processes().values() if stat.ppid == program.pid]


def test_several_processes_share_the_port(tmp_path: Path) -> None:
    with running(tmp_path, "--vector", "1 ms", "--processes", "2") as it:
        assert len(workers_of(it.program)) == 2
        for _ in range(40):
            it.post("/search", {})
        counters = list(it.metrics.glob("counter_*.db"))
        assert len(counters) == 2
        assert it.count("upstream_requests_total", "search") == 40


def test_a_lost_process_ends_them_all(tmp_path: Path) -> None:
    with running(tmp_path, "--processes", "2") as it:
        os.kill(workers_of(it.program)[0], signal.SIGKILL)
        assert it.program.wait(10) == 1
        assert "ended with status -9" in it.program.log_tail(3)


def test_a_port_in_use_is_one_line(upstream: Upstream, tmp_path: Path) -> None:
    """Also when an upstream has it, whose SO_REUSEPORT would let another one in."""
    argv = [
        sys.executable,
        "-m",
        "harness.upstream",
        "--port",
        str(upstream.port),
        "--metrics",
        str(tmp_path),
    ]
    with Program(argv, log=tmp_path / "log", name="second") as second:
        assert second.wait(20) == 2
        assert second.log_tail(10) == (
            f"upstream: 127.0.0.1:{upstream.port} is in use; stop what listens there, or take another --port"
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--llm", "20"], "has no unit"),
        (["--llm", "-1 s"], "--llm: Expected `float` >= 0"),
        (["--vector-kind", "pareto"], "constant"),
        (["--processes", "0"], "at least 1"),
        (["--sigma", "0", "--llm-kind", "lognormal"], "Expected `float` > 0"),
    ],
)
def test_wrong_options_are_refused(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from harness.upstream.__main__ import main

    with pytest.raises(SystemExit) as refused:
        main(["--port", "0", "--metrics", str(tmp_path), *options])
    assert refused.value.code == 2
    assert words in capsys.readouterr().err
