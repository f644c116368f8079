"""The limiter: its ledger against a plain model of it, and all four models in storms of waiters."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from servers.limiter import QueueLimiter

MODELS = ("threadpool", "asyncio", "trio", "gevent")


class Cancelled(BaseException):
    pass


class FakeGate:
    """Suspends whoever waits, until the test sends it on: only one whose turn it is."""

    def __init__(self) -> None:
        self.is_open = False

    async def wait(self, timeout_s: float) -> None:
        await park()
        assert self.is_open

    def open(self) -> None:
        self.is_open = True


@types.coroutine
def park() -> Generator[None, None, None]:
    yield


class Ledger(RuleBasedStateMachine):
    """What should be: `holders` have a permit, `queue` waits in order, whatever comes and goes."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.total = 2
        self.limiter = QueueLimiter(2, FakeGate)
        self.queue: list[Coroutine[Any, Any, None]] = []
        self.granted: list[Coroutine[Any, Any, None]] = []  # has a permit, and has not run since
        self.holders = 0

    def grant(self) -> None:
        while self.queue and self.holders + len(self.granted) < self.total:
            self.granted.append(self.queue.pop(0))

    @rule(target=clients)
    def come(self) -> Any:
        client = self.limiter.acquire(1)
        free = not self.queue and self.holders + len(self.granted) < self.total
        try:
            client.send(None)
        except StopIteration:
            assert free
            self.holders += 1
            return multiple()
        assert not free
        self.queue.append(client)
        return client

    @rule(client=clients)
    def go_on(self, client: Any) -> None:
        """The model runs whoever was granted a permit."""
        if client in self.granted:
            self.granted.remove(client)
            with pytest.raises(StopIteration):
                client.send(None)
            self.holders += 1

    @rule(client=clients, error=st.sampled_from([TimeoutError, Cancelled]))
    def give_up(self, client: Any, error: type[BaseException]) -> None:
        """Time over, or cancelled: also one to whom a permit was granted a moment ago."""
        if client in self.queue or client in self.granted:
            (self.queue if client in self.queue else self.granted).remove(client)
            with pytest.raises(error):
                client.throw(error())
            self.grant()

    @rule()
    def release(self) -> None:
        if self.holders:
            self.holders -= 1
            self.limiter.release()
            self.grant()

    @rule(total=st.integers(0, 4))
    def resize(self, total: int) -> None:
        self.total = self.limiter.total = total
        self.grant()

    @invariant()
    def agrees(self) -> None:
        assert self.limiter.borrowed == self.holders + len(self.granted)
        assert self.limiter.waiting == len(self.queue)

    def teardown(self) -> None:
        for client in [*self.queue, *self.granted]:
            with pytest.raises(Cancelled):
                client.throw(Cancelled())
        for _ in range(self.holders):
            self.limiter.release()
        assert (self.limiter.borrowed, self.limiter.waiting) == (0, 0)


TestLedger = Ledger.TestCase


def test_what_nobody_borrowed_cannot_be_given_back() -> None:
    with pytest.raises(RuntimeError, match="nobody had"):
        QueueLimiter(1, FakeGate).release()
    with pytest.raises(ValueError, match="at least 0"):
        QueueLimiter(-1, FakeGate)


def crowd(model: str, program: str) -> dict[str, Any]:
    script = Path(__file__).with_name("crowd.py")
    ended = subprocess.run(
        [sys.executable, script, model, program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


@pytest.mark.parametrize("model", MODELS)
def test_after_a_storm_every_permit_is_back(model: str) -> None:
    seen = crowd(model, "storm")
    assert seen["left"] == {"inside": 0, "borrowed": 0, "waiting": 0}
    assert 0 < seen["peak"] <= 7
    assert seen["got"] > 0
    assert seen["late"] > 0


@pytest.mark.parametrize("model", MODELS)
def test_first_come_first_served(model: str) -> None:
    assert crowd(model, "queue") == {"order": list(range(10)), "waiting": 10}


@pytest.mark.parametrize("model", MODELS)
def test_a_smaller_limit_lets_nobody_in_until_enough_are_out(model: str) -> None:
    assert crowd(model, "shrink") == {"over": 2, "with_me": 1, "borrowed": 0}
