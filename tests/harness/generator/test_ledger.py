from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.arrivals import Share
from harness.generator.ledger import (
    FAILED,
    OK,
    OUTCOMES,
    REASONS,
    REFUSED,
    TIMED_OUT,
    UNDECIDED,
    UNFINISHED,
    UNSENT,
    Columns,
    Verdict,
    because,
    count,
    judge,
    pack,
    unpack,
)


@pytest.mark.parametrize(
    ("status", "latency_s", "verdict"),
    [
        (200, 1.0, Verdict(OK)),
        (204, 1.0, Verdict(OK)),
        (299, 2.0, Verdict(OK)),  # at the deadline is in time
        (200, 2.001, Verdict(TIMED_OUT)),
        (503, 2.001, Verdict(TIMED_OUT)),
        (429, 0.1, Verdict(REFUSED)),
        (503, 0.1, Verdict(REFUSED)),
        (301, 0.1, because(FAILED, "status")),
        (404, 0.1, because(FAILED, "status")),
        (500, 0.1, because(FAILED, "status")),
    ],
)
def test_a_verdict_follows_from_status_and_latency_since_due(
    status: int, latency_s: float, verdict: Verdict
) -> None:
    assert judge(status, latency_s, timeout_s=2.0) == verdict


def columns(n: int) -> Columns:
    return Columns.of(Share(range(1, 3 * n, 3), array("d", (i / 10 for i in range(n)))))


rows = st.lists(st.tuples(st.integers(UNDECIDED, len(OUTCOMES) - 1), st.booleans()))


@given(rows)
def test_a_closed_ledger_adds_up(rows: list[tuple[int, bool]]) -> None:
    ledger = columns(len(rows))
    for i, (outcome, left) in enumerate(rows):
        if outcome != UNDECIDED:
            ledger.decide(i, Verdict(outcome))
        if left:
            ledger.sent_s[i] = 0.0
    counts = ledger.close()
    assert counts.undecided == 0
    assert counts.planned == counts.sent + counts.unsent == len(rows)
    assert counts.sent == (counts.ok + counts.refused + counts.failed + counts.timed_out + counts.unfinished)


def test_closing_decides_by_whether_a_request_had_left() -> None:
    ledger = columns(3)
    ledger.decide(0, Verdict(OK))
    ledger.sent_s[1] = 0.1
    ledger.close()
    assert list(ledger.outcome) == [OK, UNFINISHED, UNSENT]
    assert [REASONS[reason] for reason in ledger.reason] == ["", "", "stopped"]


@given(st.lists(st.floats(0, 100)))
def test_rows_that_are_appended_are_as_those_that_were_planned(due_s: list[float]) -> None:
    grown = Columns.of(Share(range(0), array("d")))
    assert [grown.append(at_s) for at_s in due_s] == list(range(len(due_s)))
    assert pack(grown) == pack(Columns.of(Share(range(len(due_s)), array("d", due_s))))


@given(rows)
def test_columns_survive_packing(rows: list[tuple[int, bool]]) -> None:
    ledger = columns(len(rows))
    for i, (outcome, _) in enumerate(rows):
        ledger.decide(i, Verdict(outcome))
    again = unpack(pack(ledger))
    assert again.outcome == ledger.outcome
    assert again.sequence == ledger.sequence
    assert again.due_s == ledger.due_s
    assert all(math.isnan(sent_s) for sent_s in again.sent_s)


def test_counts_are_by_name() -> None:
    assert count([OK, OK, UNSENT, UNDECIDED])._asdict() == {
        "ok": 2,
        "refused": 0,
        "failed": 0,
        "timed_out": 0,
        "unsent": 1,
        "unfinished": 0,
        "undecided": 1,
    }


def test_an_unknown_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        because(FAILED, "bad weather")
