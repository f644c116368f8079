"""The generator against a server that misbehaves."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest
from generator_support import OK, Generate, Serve, tally, unused_port


def test_every_request_of_the_schedule_is_sent_once_and_on_time(serve: Serve, generate: Generate) -> None:
    server = serve()
    generator = generate(
        server.port, warmup_s=0.6, window_s=1, rate_rps=5, sources=["127.0.0.2", "127.0.0.3"]
    )
    (pid,) = generator.go()
    (rows,) = generator.columns()
    assert pid == generator.process.pid
    assert tally(rows) == {("ok", ""): 8}
    assert list(rows.sequence) == list(range(8))
    assert list(rows.due_s) == [i / 5 for i in range(8)]
    assert len(server.requests) == 8
    assert set(server.requests) <= {"127.0.0.2", "127.0.0.3"}
    assert set(rows.status) == {200}
    assert set(rows.bytes) == {len(OK)}
    for due_s, sent_s, first_byte_s, done_s in zip(
        rows.due_s, rows.sent_s, rows.first_byte_s, rows.done_s, strict=True
    ):
        assert due_s <= sent_s < first_byte_s <= done_s


def test_progress_adds_up_each_second(serve: Serve, generate: Generate) -> None:
    generator = generate(serve(wait_s=0.1).port, warmup_s=1, window_s=1.2)
    generator.go()
    generator.columns()
    lines = [event for event in generator.events if event["event"] == "progress"]
    assert [line["t_s"] for line in lines] == [1, 2]
    assert {line["phase"] for line in lines} == {"window"}
    for line in lines:
        assert line["planned"] == line["sent"] + line["unsent"]
        assert line["sent"] == line["completed"] + line["failed"] + line["in_flight"]
        assert line["latency_p50_s"] >= 0.1
    assert lines[0]["planned"] < lines[1]["planned"]


def test_the_done_event_tells_what_a_worker_cost(serve: Serve, generate: Generate) -> None:
    generator = generate(serve().port, window_s=0.5)
    generator.go()
    generator.columns()
    (worker,) = generator.events[-1]["workers"]
    assert worker["index"] == 0
    assert worker["pid"] == generator.process.pid
    assert worker["cpu_s"] > worker["cpu_window_s"] > 0
    assert worker["rss_peak_bytes"] > 10e6
    assert worker["descriptors_peak"] > 3
    assert worker["gc_pause_max_s"] == 0


def test_beyond_the_cap_a_request_is_unsent_not_queued(serve: Serve, generate: Generate) -> None:
    server = serve(wait_s=3)
    generator = generate(server.port, window_s=0.5, in_flight_max=3, timeout_s=30, drain_s=0.1)
    generator.go()
    (rows,) = generator.columns()
    assert tally(rows) == {("unfinished", ""): 3, ("unsent", "cap"): 7}
    assert len(server.requests) == 3
    assert all(math.isnan(done_s) for done_s in rows.done_s)


def test_without_descriptors_a_request_is_unsent(serve: Serve, generate: Generate) -> None:
    # 40 leave some for requests after what the process itself has open.
    limited = ("bash", "-c", 'ulimit -n 40; exec "$@"', "bash")
    generator = generate(serve(wait_s=1).port, rate_rps=90, window_s=0.6, prefix=limited)
    generator.go()
    (rows,) = generator.columns()
    outcomes = tally(rows)
    assert set(outcomes) == {("ok", ""), ("unsent", "descriptors")}
    assert generator.events[-1]["workers"][0]["descriptors_peak"] == 40


def test_where_nothing_listens_all_fail(generate: Generate) -> None:
    generator = generate(unused_port(), window_s=0.5)
    generator.go()
    (rows,) = generator.columns()
    assert tally(rows) == {("failed", "connect"): 10}
    assert not any(math.isnan(done_s) for done_s in rows.done_s)


def test_a_time_out_counts_from_due(serve: Serve, generate: Generate) -> None:
    generator = generate(serve(wait_s=20).port, window_s=0.5, timeout_s=0.3, drain_s=5)
    generator.go()
    (rows,) = generator.columns()
    assert tally(rows) == {("timed_out", ""): 10}
    assert all(done_s - due_s >= 0.3 for due_s, done_s in zip(rows.due_s, rows.done_s, strict=True))
    assert set(rows.status) == {0}


def test_a_generator_that_was_held_up_sends_late_and_says_so(serve: Serve, generate: Generate) -> None:
    generator = generate(serve(wait_s=20).port, window_s=1.6, timeout_s=0.4)
    generator.go()
    time.sleep(0.3)
    generator.process.send_signal(signal.SIGSTOP)
    time.sleep(1)
    generator.process.send_signal(signal.SIGCONT)
    (rows,) = generator.columns()
    assert set(tally(rows)) == {("timed_out", ""), ("unsent", "too late")}
    sent = [row for row in zip(rows.due_s, rows.sent_s, rows.done_s, strict=True) if not math.isnan(row[1])]
    assert all(done_s - due_s >= 0.4 for due_s, _, done_s in sent)
    late = [(sent_s, done_s) for due_s, sent_s, done_s in sent if sent_s - due_s > 0.1]
    assert late
    # The deadline stays where it was: what is sent late has less time left.
    assert all(done_s - sent_s < 0.4 for sent_s, done_s in late)


@pytest.mark.parametrize(
    ("data", "leave", "outcome"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", False, ("ok", "")),
        (OK, True, ("ok", "")),
        (b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", False, ("refused", "")),
        (b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", False, ("failed", "status")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", True, ("failed", "truncated")),
    ],
    ids=["chunked", "closes keep-alive", "refuses", "fails", "truncates"],
)
def test_an_answer_decides(
    serve: Serve, generate: Generate, data: bytes, leave: bool, outcome: tuple[str, str]
) -> None:
    server = serve(data, leave=leave)
    generator = generate(server.port, window_s=0.5)
    generator.go()
    (rows,) = generator.columns()
    assert tally(rows) == {outcome: 10}
    assert len(server.requests) == 10


@pytest.mark.parametrize("how", ["stop", signal.SIGTERM, signal.SIGINT])
def test_stopped_it_writes_what_there_is(serve: Serve, generate: Generate, how: str | int) -> None:
    generator = generate(serve(wait_s=0.8).port, window_s=60)
    generator.go()
    generator.until("progress")
    if isinstance(how, str):
        generator.say(how)
    else:
        generator.process.send_signal(how)
    (rows,) = generator.columns()
    outcomes = tally(rows)
    assert set(outcomes) == {("ok", ""), ("unfinished", ""), ("unsent", "stopped")}
    assert sum(outcomes.values()) == 1200


def test_stopped_before_it_went_nothing_was_sent(serve: Serve, generate: Generate) -> None:
    server = serve()
    generator = generate(server.port)
    generator.until("ready")
    generator.say("stop")
    (rows,) = generator.columns()
    assert tally(rows) == {("unsent", "stopped"): 20}
    assert server.requests == []


def test_two_processes_share_the_schedule_exactly(serve: Serve, generate: Generate) -> None:
    server = serve()
    generator = generate(server.port, processes=2, arrivals="poisson", seed=7)
    pids = generator.go()
    one, two = generator.columns()
    assert len({generator.process.pid, *pids}) == 3
    assert set(one.sequence).isdisjoint(two.sequence)
    assert sorted([*one.sequence, *two.sequence]) == list(range(len(server.requests)))
    due_s = dict(zip([*one.sequence, *two.sequence], [*one.due_s, *two.due_s], strict=True))
    assert sorted(due_s.values()) == [due_s[i] for i in sorted(due_s)]
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_killed_worker_is_an_error_and_leaves_no_orphan(serve: Serve, generate: Generate) -> None:
    generator = generate(serve().port, processes=2, window_s=60)
    pids = generator.go()
    os.kill(pids[0], signal.SIGKILL)
    error = generator.until("error")
    assert error["reason"] == "worker_lost"
    assert str(pids[0]) in error["detail"]
    assert generator.process.wait(timeout=20) == 1
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_workers_do_not_survive_their_conductor(serve: Serve, generate: Generate) -> None:
    generator = generate(serve().port, processes=2, window_s=60)
    workers = [psutil.Process(pid) for pid in generator.go()]
    generator.process.kill()
    gone, alive = psutil.wait_procs(workers, timeout=10)
    assert len(gone) == 2
    assert alive == []


def test_a_wrong_plan_is_an_error_event(generate: Generate) -> None:
    generator = generate(80, rate_rps=0)
    error = generator.until("error")
    assert error["reason"] == "plan"
    assert "rate_rps" in error["detail"]
    assert generator.process.wait(timeout=20) == 1


def test_columns_that_cannot_be_written_are_an_error_event(
    serve: Serve, generate: Generate, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    generator = generate(serve().port, window_s=0.1, directory=str(tmp_path / "file"))
    generator.go()
    assert generator.until("error")["reason"] == "system"
    assert generator.process.wait(timeout=20) == 1


def test_the_page_shows_the_requests(serve: Serve, generate: Generate) -> None:
    page = unused_port()
    generator = generate(serve(wait_s=0.05).port, window_s=1.3, web_port=page)
    generator.go()
    generator.until("progress")
    with socket.create_connection(("127.0.0.1", page)) as sock:
        sock.sendall(b"GET /stats/requests HTTP/1.0\r\n\r\n")
        body = b"".join(iter(lambda: sock.recv(65536), b"")).partition(b"\r\n\r\n")[2]
    (row,) = [row for row in json.loads(body)["stats"] if row["name"] == "/rag"]
    assert row["num_requests"] > 0
    assert row["min_response_time"] >= 50
    (rows,) = generator.columns()
    assert tally(rows) == {("ok", ""): 26}
