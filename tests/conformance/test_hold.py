"""The five ways to hold a lock over a call, and the sixth: what runs at once, and who is to blame."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support import FakeUpstream, Server, Start, parse, read_response, request, wait_until

from harness import gauges

CLIENTS = 8
CALL_S = 0.1

# route: calls at once on a loop or hub, on threads; whether it pins a loop or hub
EXPECTED = {
    "/hold/plain": (CLIENTS, CLIENTS, False),
    "/hold/sync-striped": (1, CLIENTS, True),
    "/hold/lock-striped": (CLIENTS, CLIENTS, False),
    "/hold/sync-shared": (1, 1, True),
    "/hold/lock-shared": (1, 1, False),
}
LOCKS = {
    "threadpool": "_thread.lock",
    "asyncio": "asyncio.locks.Lock",
    "asyncio-uvloop": "asyncio.locks.Lock",
    "trio": "trio.Lock",
    "gevent": "gevent.thread.LockType",
}


def pins(server: Server) -> dict[str, tuple[float, float]]:
    """By handler: how many, and seconds in all."""
    figures = gauges.read(server.metrics)

    def of(name: str, route: str) -> float:
        return figures.get(f'{name}{{handler="{route}"}}', 0.0)

    return {
        route: (of("server_pins_total", route), of("server_pinned_seconds_total", route))
        for route in EXPECTED
    }


def evidence(server: Server) -> dict[str, list[str]]:
    """By handler, a stack that was caught in a pin."""
    lines = [line for path in server.metrics.glob("pins_*.jsonl") for line in path.read_text().splitlines()]
    return {found["handler"]: found["stack"] for found in map(json.loads, lines)}


def test_what_is_held_decides_how_many_calls_there_are_at_once(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "16", "--hold", "--pins")
    threads = server.model == "threadpool"
    upstream.delay_s = CALL_S
    for route, (on_loops, on_threads, _) in EXPECTED.items():
        upstream.peak = 0
        responses = server.get_together(route, CLIENTS)
        assert {parse(response) for response in responses} == {(200, b'{"held":true}')}, route
        assert upstream.peak == (on_threads if threads else on_loops), route
    found = pins(server)
    for route, (_, _, pinning) in EXPECTED.items():
        count, seconds = found[route]
        if pinning and not threads:
            assert count == CLIENTS, route
            assert seconds >= CLIENTS * CALL_S, route
        else:
            assert count <= 1, f"{route}: a noisy machine may look like one pin, not like more"
    stacks = evidence(server)
    for route in () if threads else ("/hold/sync-striped", "/hold/sync-shared"):
        assert any("hold.py" in at for at in stacks[route]), "down to the line that blocks"
        assert "blocking.py" in stacks[route][-1]


def test_the_kinds_of_lock_are_those_that_the_routes_are_named_for(start: Start) -> None:
    server = start("--threads", "2", "--hold")
    assert server.get("/hold/plain")[0] == 200
    assert f"native _thread.lock, runtime {LOCKS[server.model]}\n" in server.log.read_text()


def test_no_route_unless_it_is_asked_for(start: Start) -> None:
    server = start("--threads", "2")
    assert {server.get(route)[0] for route in (*EXPECTED, "/hold/deadlock", "/db")} == {404}


def test_a_failing_upstream_gives_the_lock_back(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "2", "--hold")
    for route in EXPECTED:
        upstream.behaviour = "close"
        assert server.get(route)[0] == 502, route
        upstream.behaviour = "answer"
        assert server.get(route)[0] == 200, route


@pytest.fixture
def deadlocked(start: Start, upstream: FakeUpstream) -> Iterator[Server]:
    """A server with one request that holds the lock and one that wants it."""
    server = start("--threads", "4", "--hold", "--guard", "0.3")
    upstream.delay_s = 0.7  # between threads a wait for longer than the guard's time is still no deadlock
    with server.connect() as holder, server.connect() as waiter:
        holder.sendall(request("/hold/deadlock"))
        wait_until(lambda: len(upstream.prompts) == 1)
        waiter.sendall(request("/hold/deadlock"))
        yield server
        if server.model == "threadpool":
            assert [parse(read_response(sock))[0] for sock in (holder, waiter)] == [200, 200]


def test_a_native_lock_over_a_suspension_is_reported_and_ended(deadlocked: Server) -> None:
    if deadlocked.model == "threadpool":
        assert deadlocked.get("/health")[0] == 200, "the holder's thread runs on: a wait is only a wait"
        return
    assert deadlocked.process.wait(timeout=10) == 70
    report = json.loads(deadlocked.log.read_text().splitlines()[-1])
    holder, (waiter,) = report["holder"], report["waiters"]
    assert holder["handler"] == waiter["handler"] == "/hold/deadlock"
    assert holder["thread"] == waiter["thread"]
    assert holder["for_s"] >= waiter["for_s"] >= 0.3
    assert "hold.py" in holder["at"]
    assert "__aenter__" in waiter["stack"][-1]
    assert any("hold.py" in at for at in waiter["stack"])


def test_a_holder_alone_is_no_deadlock(start: Start, upstream: FakeUpstream) -> None:
    server = start("--threads", "2", "--hold", "--guard", "0.1")
    upstream.delay_s = 0.4
    assert server.get("/hold/deadlock")[0] == 200
    assert server.get("/hold/deadlock")[0] == 200
