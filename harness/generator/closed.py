"""The closed model: so many clients, and each sends its next request when its last one was answered.

- Nobody is late, because nobody has a time to keep: a request is due when it is sent. So a server that is slow
  is asked less, and its latencies are those of the clients that it left waiting: see docs/decisions/0008.
- A request is one greenlet, as in the open model, and the next one of its client is another: a deadline that
  is thrown into the first cannot reach the second.
- A client that got no good answer waits for a moment: a server that refuses at once is not to be hammered.
- After the window's end nobody sends.
"""

from __future__ import annotations

import gevent

from harness.generator.client import Client
from harness.generator.ledger import OK, Columns
from harness.generator.sender import Deadline, Observer, Sender

PAUSE_S = 0.1


class ClosedSender(Sender):
    """Keeps `clients` requests under way until `end_s`, and appends a row to its columns for each."""

    def __init__(
        self,
        columns: Columns,
        client: Client,
        timeout_s: float,
        clients: int,
        end_s: float,
        observe: Observer | None = None,
    ) -> None:
        super().__init__(columns, client, timeout_s, clients, observe)
        self._clients = clients
        self._end_s = end_s

    def _send_all(self) -> None:
        """The first request of each client; answers send the others, until the end."""
        self._wait_until(0.0)
        for _ in range(self._clients):
            self._send_next()
        self._wait_until(self._end_s)

    def _wait_until(self, offset_s: float) -> None:
        while (wait_s := offset_s - self._now()) > 0:
            gevent.sleep(wait_s)

    def _send_next(self) -> None:
        if self._may_send():
            i = self._columns.append(self._now())
            self._next = i + 1
            self._in_flight[i] = gevent.spawn_raw(self._request, i)

    def _may_send(self) -> bool:
        return not self._stopped and self._now() < self._end_s

    def _depart(self, i: int) -> float:
        self._columns.due_s[i] = sent_s = super()._depart(i)
        return sent_s

    def _ended(self, i: int) -> None:
        if self._may_send():
            if self._columns.outcome[i] == OK:
                self._send_next()
            else:
                gevent.spawn_later(PAUSE_S, self._send_next)
        elif not self._in_flight:
            self._idle.set()

    def _reap(self) -> None:
        """As in the open model; while nothing is in flight, what is sent next ends no earlier than this wait."""
        while True:
            oldest = next(iter(self._in_flight), None)
            due_s = self._now() if oldest is None else self._columns.due_s[oldest]
            if (wait_s := due_s + self._timeout_s - self._now()) > 0:
                gevent.sleep(wait_s)
            elif oldest is not None:
                self._end(oldest, Deadline)
