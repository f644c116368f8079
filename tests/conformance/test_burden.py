"""A request can be made to compute, and to hold memory, in every model; its answer stays the same."""

from __future__ import annotations

from contextlib import ExitStack

import psutil
import pytest
from support import MODELS, FakeUpstream, Server, Start, parse, read_response, request, wait_until

REQUESTS = 8
CPU_US = 40_000
BALLAST_BYTES = 1 << 20


@pytest.fixture(params=[name for name in MODELS if name != "asyncio-uvloop"])
def model(request: pytest.FixtureRequest) -> str:
    """Without uvloop, which changes nothing here."""
    name: str = request.param
    return name


def cpu_s(server: Server) -> float:
    """CPU time that REQUESTS requests take, one after the other."""
    times = psutil.Process(server.process.pid).cpu_times
    before = times()
    for _ in range(REQUESTS):
        assert server.get("/rag")[0] == 200
    after = times()
    return after.user + after.system - before.user - before.system


def grown_bytes(server: Server, upstream: FakeUpstream) -> int:
    """By how much REQUESTS requests in flight make the server grow."""
    process = psutil.Process(server.process.pid)
    upstream.delay_s = 1.0
    with ExitStack() as stack:
        sockets = [stack.enter_context(server.connect()) for _ in range(REQUESTS)]
        before: int = process.memory_info().rss
        for sock in sockets:
            sock.sendall(request("/rag"))
        wait_until(lambda: len(upstream.active) == REQUESTS)
        after: int = process.memory_info().rss
        assert {parse(read_response(sock))[0] for sock in sockets} == {200}
    return after - before


def test_cpu_work_is_as_much_as_was_asked_for(start: Start) -> None:
    server = start("--threads", "4", "--cpu-us", str(CPU_US))
    assert 0.9 <= cpu_s(server) / (REQUESTS * CPU_US * 1e-6) <= 1.5


def test_ballast_is_held_while_a_request_is_in_flight(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", str(REQUESTS), "--ballast-bytes", str(BALLAST_BYTES))
    assert server.get("/rag")[0] == 200
    assert 0.85 <= grown_bytes(server, upstream) / (REQUESTS * BALLAST_BYTES) <= 1.5


def test_none_unless_it_is_asked_for(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", str(REQUESTS))
    assert server.get("/rag")[0] == 200
    assert cpu_s(server) <= 0.5 * REQUESTS * CPU_US * 1e-6
    assert grown_bytes(server, upstream) <= 0.5 * REQUESTS * BALLAST_BYTES


@pytest.mark.parametrize("options", [(), ("--cpu-us", "2000", "--ballast-bytes", "100000")])
def test_the_answer_is_the_same(start: Start, options: tuple[str, ...]) -> None:
    status, body = start("--threads", "2", *options).get("/rag")
    assert status == 200
    assert body.startswith(b'{"answer": "two pods", "documents": [{"id": "doc-1"')
