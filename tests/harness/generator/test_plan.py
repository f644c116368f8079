from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.generator.plan import Plan, load

LEAST: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 80,
    "path": "/rag",
    "arrivals": "constant",
    "rate_rps": 5.0,
    "window_s": 60.0,
    "timeout_s": 1.0,
    "drain_s": 1.0,
    "directory": "columns",
}


def plan(**fields: Any) -> Plan:
    return msgspec.convert(LEAST | fields, Plan)


def test_a_plan_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(LEAST | {"processes": 2}))
    assert load(file) == plan(processes=2)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"rate_rps": 0}, "rate_rps"),
        ({"window_s": 0}, "window_s"),
        ({"port": 65536}, "port"),
        ({"path": "/a b"}, "path"),
        ({"path": "/a\r\nX: y"}, "path"),
        ({"host": ""}, "host"),
        ({"method": "POST"}, "method"),
        ({"arrivals": "bursts"}, "arrivals"),
        ({"arrivals": "stages"}, "at least one stage"),
        ({"arrivals": "closed"}, "need each other"),
        ({"clients": 3}, "need each other"),
        ({"arrivals": "closed", "clients": 0}, "clients"),
        ({"arrivals": "closed", "clients": 3, "processes": 2}, "by one process"),
        ({"in_flight_max": 1, "processes": 2}, "leaves some of 2 processes without"),
        ({"sources": ["127.0.0.1"] * 128}, "at most 127 sources"),
        ({"speed": 1}, "speed"),
    ],
)
def test_a_wrong_plan_is_refused_by_name(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        plan(**fields)


@given(st.integers(1, 64), st.integers(1, 1000))
def test_caps_add_up_and_are_even(processes: int, cap: int) -> None:
    caps = [plan(processes=processes, in_flight_max=cap + processes).cap(k) or 0 for k in range(processes)]
    assert sum(caps) == cap + processes
    assert max(caps) - min(caps) <= 1


def test_without_a_cap_there_is_none_for_anybody() -> None:
    assert plan(processes=3).cap(2) is None


@given(st.integers(1, 64))
def test_shares_are_disjoint_and_complete(processes: int) -> None:
    sequences = [i for k in range(processes) for i in plan(processes=processes).share(k).sequence]
    assert sorted(sequences) == list(range(300))  # 5/s x 60 s


def test_a_closed_load_has_no_schedule() -> None:
    sequence, due_s = plan(arrivals="closed", clients=3).share(0)
    assert (len(sequence), len(due_s)) == (0, 0)


@pytest.mark.parametrize(
    ("offset_s", "phase"),
    [
        (0.0, "warmup"),
        (9.999, "warmup"),
        (10.0, "window"),
        (69.9, "window"),
        (70.0, "drain"),
        (99.0, "drain"),
    ],
)
def test_a_phase_includes_its_start_only(offset_s: float, phase: str) -> None:
    assert plan(warmup_s=10.0).phase(offset_s) == phase


def test_a_request_is_one_head_with_its_host() -> None:
    assert plan().request().startswith(b"GET /rag HTTP/1.1\r\nHost: 127.0.0.1:80\r\n")
    assert plan().request().endswith(b"\r\n\r\n")
    assert b"Host: [::1]:80\r\n" in plan(host="::1").request()
