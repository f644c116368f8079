"""The closed model: as many requests under way as there are clients, none due before it is sent."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from generator_support import OK, Generate, Generator, Serve, tally, unused_port

from harness.generator.ledger import Columns

Load = Callable[..., Generator]


@pytest.fixture
def closed(generate: Generate) -> Load:
    """`closed(port, clients=…)`: the generator with a closed load of one second."""

    def start(port: int, **fields: Any) -> Generator:
        return generate(port, arrivals="closed", **{"clients": 4, "rate_rps": 40} | fields)

    return start


def most_at_once(rows: Columns) -> int:
    """Requests under way at once, at most; one that ends as another begins has made room for it."""
    edges = [(at_s, 1) for at_s in rows.sent_s] + [(at_s, -1) for at_s in rows.done_s if not math.isnan(at_s)]
    under_way = most = 0
    for _, step in sorted(edges):
        under_way += step
        most = max(most, under_way)
    return most


def test_each_client_sends_its_next_request_when_its_last_was_answered(serve: Serve, closed: Load) -> None:
    server = serve(wait_s=0.1)
    generator = closed(server.port, sources=["127.0.0.2", "127.0.0.3"])
    generator.go()
    (rows,) = generator.columns()
    assert set(tally(rows)) == {("ok", "")}
    assert most_at_once(rows) == 4
    assert 4 * 4 <= len(rows.due_s) <= 4 * 10, "four clients for a second, a tenth of one for each answer"
    assert len(server.requests) == len(rows.due_s)
    assert set(server.requests) <= {"127.0.0.2", "127.0.0.3"}
    assert list(rows.sequence) == list(range(len(rows.due_s)))
    assert rows.due_s == rows.sent_s
    assert list(rows.due_s) == sorted(rows.due_s)
    assert set(rows.status) == {200}
    assert set(rows.bytes) == {len(OK)}
    assert all(
        0 <= sent < first <= done
        for sent, first, done in zip(rows.sent_s, rows.first_byte_s, rows.done_s, strict=True)
    )


def test_a_slower_server_is_asked_less(serve: Serve, closed: Load) -> None:
    counts = []
    for wait_s in (0.05, 0.3):
        generator = closed(serve(wait_s=wait_s).port)
        generator.go()
        counts.append(len(generator.columns()[0].due_s))
    assert counts[0] > 2 * counts[1]


def test_nobody_sends_after_the_end_and_what_is_in_flight_is_waited_for(serve: Serve, closed: Load) -> None:
    generator = closed(serve(wait_s=0.7).port, drain_s=30)
    generator.go()
    began = time.monotonic()
    (rows,) = generator.columns()
    assert tally(rows) == {("ok", ""): 8}, "the second answer comes after the end, and is the last"
    assert max(rows.sent_s) < 1 < max(rows.done_s)
    assert time.monotonic() - began < 15, "a drain ends when nothing is in flight"


def test_what_is_still_in_flight_after_the_drain_is_unfinished(serve: Serve, closed: Load) -> None:
    generator = closed(serve(wait_s=20).port, window_s=0.5, drain_s=0.1, timeout_s=30)
    generator.go()
    (rows,) = generator.columns()
    assert tally(rows) == {("unfinished", ""): 4}


def test_a_deadline_counts_from_the_send_and_ends_one_request_only(serve: Serve, closed: Load) -> None:
    generator = closed(serve(wait_s=20).port, timeout_s=0.3, drain_s=5)
    generator.go()
    (rows,) = generator.columns()
    outcomes = tally(rows)
    assert set(outcomes) == {("timed_out", "")}
    assert outcomes["timed_out", ""] in (8, 12), "each client tries again after a moment"
    assert all(done_s - sent_s >= 0.3 for sent_s, done_s in zip(rows.sent_s, rows.done_s, strict=True))


@pytest.mark.parametrize(
    ("data", "outcome"),
    [
        (b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", ("refused", "")),
        (b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", ("failed", "status")),
    ],
)
def test_a_server_that_refuses_at_once_is_not_hammered(
    serve: Serve, closed: Load, data: bytes, outcome: tuple[str, str]
) -> None:
    generator = closed(serve(data).port)
    generator.go()
    (rows,) = generator.columns()
    ((found, times),) = tally(rows).items()
    assert found == outcome
    assert 4 < times <= 4 * 11


def test_where_nothing_listens_all_fail(closed: Load) -> None:
    generator = closed(unused_port(), window_s=0.5)
    generator.go()
    (rows,) = generator.columns()
    ((found, times),) = tally(rows).items()
    assert found == ("failed", "connect")
    assert 4 <= times <= 4 * 6


def test_progress_adds_up(serve: Serve, closed: Load) -> None:
    generator = closed(serve(wait_s=0.1).port, window_s=1.2)
    generator.go()
    generator.columns()
    (line,) = (event for event in generator.events if event["event"] == "progress")
    assert line["planned"] == line["sent"] == line["completed"] + line["in_flight"]
    assert line["in_flight"] == 4


@pytest.mark.parametrize("how", ["stop", signal.SIGTERM])
def test_stopped_it_writes_what_there_is(serve: Serve, closed: Load, how: str | int) -> None:
    generator = closed(serve(wait_s=0.3).port, window_s=60)
    generator.go()
    generator.until("progress")
    if isinstance(how, str):
        generator.say(how)
    else:
        generator.process.send_signal(how)
    (rows,) = generator.columns()
    outcomes = tally(rows)
    assert outcomes.pop(("ok", "")) >= 4
    assert outcomes == {("unfinished", ""): 4}


def test_stopped_before_it_went_nothing_was_planned(serve: Serve, closed: Load) -> None:
    server = serve()
    generator = closed(server.port)
    generator.until("ready")
    generator.say("stop")
    (rows,) = generator.columns()
    assert (tally(rows), server.requests) == ({}, [])
