"""What became of each planned request: columns, outcomes and the two equations that always hold. Pure.

    planned = sent + unsent
    sent    = ok + refused + failed + timed_out + unfinished

They hold because a row has one outcome, written once, and `Columns.close` decides every row that is still
open. Rows are allocated before the run as plain arrays (a closed load, whose length nobody knows, appends them):
recording is an assignment, and adds nothing for the collector.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import msgspec

from harness.arrivals import Share

OUTCOMES: Final = ("ok", "refused", "failed", "timed_out", "unsent", "unfinished")
OK, REFUSED, FAILED, TIMED_OUT, UNSENT, UNFINISHED = range(len(OUTCOMES))
UNDECIDED: Final = -1  # while running only, never in a file

REASONS: Final = (
    "",
    # unsent: no byte of the request left this process
    "cap",  # in_flight_max reached
    "descriptors",  # no more sockets for this process or machine
    "ports",  # no ephemeral port left from this source address
    "memory",  # the kernel had no buffer for a socket
    "too late",  # its deadline had passed before its turn came
    "stopped",  # the run was stopped before it was due
    # failed: it left, or tried to
    "connect",  # no connection: refused, unreachable
    "reset",  # the connection broke before the answer was whole
    "stale connection",  # a kept-alive connection was closed under the request, which may have arrived
    "truncated",  # the server closed before the answer was whole
    "protocol",  # not HTTP, or a head without end
    "status",  # a whole answer, neither 2xx nor a refusal
)
NO_REASON: Final = 0

STATUS_REFUSED: Final = frozenset((429, 503))
INT_MAX: Final = 2**31 - 1


class Verdict(NamedTuple):
    """Indices into OUTCOMES and REASONS."""

    outcome: int
    reason: int = NO_REASON


def because(outcome: int, reason: str) -> Verdict:
    """A verdict by the name of its reason. Raises ValueError for a reason that is none of REASONS."""
    return Verdict(outcome, REASONS.index(reason))


def judge(status: int, latency_s: float, timeout_s: float) -> Verdict:
    """The verdict on a whole answer `latency_s` after its request was due; after the deadline it is none."""
    if latency_s > timeout_s:
        return Verdict(TIMED_OUT)
    if 200 <= status < 300:
        return Verdict(OK)
    if status in STATUS_REFUSED:
        return Verdict(REFUSED)
    return because(FAILED, "status")


class Counts(NamedTuple):
    """How many rows have which outcome; `undecided` ones are not yet due or still in flight."""

    ok: int = 0
    refused: int = 0
    failed: int = 0
    timed_out: int = 0
    unsent: int = 0
    unfinished: int = 0
    undecided: int = 0

    @property
    def planned(self) -> int:
        return sum(self)

    @property
    def sent(self) -> int:
        """Of a closed ledger."""
        return self.planned - self.unsent


def count(outcomes: Iterable[int]) -> Counts:
    """Counts outcomes by name."""
    tally = [0] * len(Counts._fields)
    for outcome in outcomes:
        tally[outcome] += 1  # UNDECIDED is -1, the last field
    return Counts(*tally)


@dataclass(frozen=True, slots=True)
class Columns:
    """One row per planned request, one array per column; times are offsets from the start signal, in seconds.

    A time that did not happen is NaN, a status that did not come is 0, a source that was not chosen is -1.
    `bytes` counts what was received, head included, and saturates at 2³¹ − 1.
    """

    sequence: array[int]
    due_s: array[float]
    sent_s: array[float]
    first_byte_s: array[float]
    done_s: array[float]
    status: array[int]
    outcome: array[int]
    reason: array[int]
    bytes: array[int]
    source: array[int]

    @classmethod
    def of(cls, share: Share) -> Columns:
        """Empty rows for a worker's share."""
        n = len(share.due_s)
        blank = array("d", [math.nan]) * n
        return cls(
            sequence=array("q", share.sequence),
            due_s=share.due_s,
            sent_s=blank[:],
            first_byte_s=blank[:],
            done_s=blank,
            status=array("h", bytes(2 * n)),
            outcome=array("b", [UNDECIDED]) * n,
            reason=array("b", bytes(n)),
            bytes=array("i", bytes(4 * n)),
            source=array("b", [-1]) * n,
        )

    def append(self, due_s: float) -> int:
        """One more empty row, due at `due_s`; its number, which is its place in the sequence too."""
        i = len(self.due_s)
        self.sequence.append(i)
        self.due_s.append(due_s)
        for times in (self.sent_s, self.first_byte_s, self.done_s):
            times.append(math.nan)
        for zeros in (self.status, self.reason, self.bytes):
            zeros.append(0)
        self.outcome.append(UNDECIDED)
        self.source.append(-1)
        return i

    def decide(self, i: int, verdict: Verdict) -> None:
        """Writes row `i`'s outcome."""
        self.outcome[i], self.reason[i] = verdict

    def close(self) -> Counts:
        """Ends the run: what never left is unsent, what is still out is unfinished."""
        stopped = because(UNSENT, "stopped")
        for i, outcome in enumerate(self.outcome):
            if outcome == UNDECIDED:
                self.decide(i, stopped if math.isnan(self.sent_s[i]) else Verdict(UNFINISHED))
        return count(self.outcome)


def pack(columns: Columns) -> bytes:
    """The columns as MessagePack: {name: {"typecode": …, "bytes": …}} in this machine's byte order."""
    arrays = {field.name: getattr(columns, field.name) for field in fields(columns)}
    return msgspec.msgpack.encode(
        {name: {"typecode": column.typecode, "bytes": column.tobytes()} for name, column in arrays.items()}
    )


def unpack(data: bytes) -> Columns:
    """The inverse of `pack`. Raises msgspec.DecodeError, or KeyError, TypeError or ValueError."""
    packed = msgspec.msgpack.decode(data, type=dict[str, dict[str, Any]])
    columns: dict[str, Any] = {
        name: array(column["typecode"], column["bytes"]) for name, column in packed.items()
    }
    return Columns(**columns)
