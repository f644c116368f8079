"""The open model: every request leaves when it is due, whatever became of the ones before.

- The schedule is absolute. A late wake-up sends all that is due, at once, and each row shows its lag.
- One greenlet per request in flight, and no queue: beyond the cap a request is unsent, not waiting. Raw ones:
  nobody waits for them, and each is 0.7 KB smaller than a gevent.Greenlet.
- One greenlet ends what passed its deadline. Deadlines are due times plus a constant and the requests in
  flight stand in the order of their due times, so only the oldest has to be looked at: no timer per request.
- The collector is not needed here: what a request leaves behind is freed by reference counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from math import nan
from time import monotonic
from typing import NamedTuple

import gevent
from gevent.event import Event
from greenlet import greenlet

from harness.generator.client import Answer, Client, Failed, Unsent
from harness.generator.ledger import (
    FAILED,
    INT_MAX,
    OK,
    OUTCOMES,
    REFUSED,
    TIMED_OUT,
    UNFINISHED,
    UNSENT,
    Columns,
    Verdict,
    because,
    judge,
)

# Called after each request that was sent, with its row: Locust's own statistics hang on it.
Observer = Callable[[int], None]


class Deadline(gevent.GreenletExit):  # type: ignore[misc] # gevent is untyped
    """Thrown into a request whose deadline has passed."""


class Snapshot(NamedTuple):
    """Counts up to now: planned is what has been due so far, so planned = sent + unsent at every moment.

    `latencies_s` are those of the ok answers since the last snapshot.
    """

    planned: int
    unsent: int
    completed: int
    failed: int
    in_flight: int
    latencies_s: array[float]


class Sender:
    """Sends a worker's share and fills its columns."""

    def __init__(
        self,
        columns: Columns,
        client: Client,
        timeout_s: float,
        cap: int | None,
        observe: Observer | None = None,
    ) -> None:
        self._columns = columns
        self._client = client
        self._timeout_s = timeout_s
        self._cap = len(columns.due_s) if cap is None else cap
        self._observe = observe
        self._t0 = 0.0
        self._next = 0  # row of the next request to become due
        self._in_flight: dict[int, greenlet] = {}
        self._schedule: gevent.Greenlet | None = None
        self._stopped = False
        self._idle = Event()
        self._tally = [0] * len(OUTCOMES)
        self._latencies_s = array("d")

    def run(self, t0: float, drain_until_s: float) -> None:
        """Sends everything, then waits for answers until an offset from `t0`; abandons what is left then."""
        self._t0 = t0
        self._schedule = gevent.spawn(self._send_all)
        reaper = gevent.spawn(self._reap)
        try:
            if self._stopped:
                return
            self._schedule.join()
            if self._in_flight:
                self._idle.wait(max(0.0, drain_until_s - self._now()))
        finally:
            self.stop()
            reaper.kill()
            for i in list(self._in_flight):
                self._end(i, gevent.GreenletExit)
            gevent.sleep(0)  # one turn of the loop: nothing that they do on their way out waits
            self._client.close()

    def stop(self) -> None:
        """Sends nothing more and waits for nothing more."""
        self._stopped = True
        if self._schedule is not None:
            self._schedule.kill()
        self._idle.set()

    def snapshot(self) -> Snapshot:
        """The counts up to now."""
        latencies_s, self._latencies_s = self._latencies_s, array("d")
        failed = sum(self._tally[outcome] for outcome in (REFUSED, FAILED, TIMED_OUT))
        return Snapshot(
            self._next, self._tally[UNSENT], self._tally[OK], failed, len(self._in_flight), latencies_s
        )

    def _now(self) -> float:
        return monotonic() - self._t0

    def _send_all(self) -> None:
        for i, due_s in enumerate(self._columns.due_s):
            while (wait_s := due_s - self._now()) > 0:
                gevent.sleep(wait_s)
            self._next = i + 1
            self._dispatch(i, -wait_s)

    def _dispatch(self, i: int, lag_s: float) -> None:
        if lag_s >= self._timeout_s:
            self._decide(i, because(UNSENT, "too late"))
        elif len(self._in_flight) >= self._cap:
            self._decide(i, because(UNSENT, "cap"))
        else:
            self._in_flight[i] = gevent.spawn_raw(self._request, i)

    def _reap(self) -> None:
        due_s = self._columns.due_s
        while (oldest := next(iter(self._in_flight), self._next)) < len(due_s):
            wait_s = due_s[oldest] + self._timeout_s - self._now()
            if wait_s > 0 or oldest not in self._in_flight:
                gevent.sleep(max(0.0, wait_s))
            else:
                self._end(oldest, Deadline)

    def _end(self, i: int, reason: type[BaseException]) -> None:
        gevent.kill(self._in_flight.pop(i), reason)

    def _depart(self, i: int) -> float:
        """Row `i` leaves now; the offset."""
        self._columns.sent_s[i] = sent_s = self._now()
        return sent_s

    def _request(self, i: int) -> None:
        columns, answer = self._columns, Answer()
        sent_s = self._depart(i)
        try:
            verdict = self._attempt(answer)
            done_s = self._now()
            verdict = verdict or judge(answer.status, done_s - columns.due_s[i], self._timeout_s)
        finally:
            self._in_flight.pop(i, None)
        columns.sent_s[i] = nan if verdict.outcome == UNSENT else sent_s
        columns.done_s[i] = nan if verdict.outcome in (UNSENT, UNFINISHED) else done_s
        columns.first_byte_s[i] = answer.first_byte_at - self._t0
        columns.status[i] = answer.status
        columns.bytes[i] = min(answer.received_bytes, INT_MAX)
        columns.source[i] = answer.source
        self._decide(i, verdict)
        self._ended(i)

    def _ended(self, i: int) -> None:
        if not self._in_flight and self._next == len(self._columns.due_s):
            self._idle.set()

    def _attempt(self, answer: Answer) -> Verdict | None:
        """The verdict if there is no whole answer."""
        try:
            self._client.fetch(answer)
        except Unsent as unsent:
            return because(UNSENT, str(unsent))
        except Failed as failed:
            return because(FAILED, str(failed))
        except Deadline:
            return Verdict(TIMED_OUT)
        except gevent.GreenletExit:
            return Verdict(UNFINISHED)
        return None

    def _decide(self, i: int, verdict: Verdict) -> None:
        self._columns.decide(i, verdict)
        self._tally[verdict.outcome] += 1
        if verdict.outcome == OK:
            self._latencies_s.append(self._columns.done_s[i] - self._columns.due_s[i])
        if self._observe is not None and verdict.outcome != UNSENT:
            self._observe(i)
