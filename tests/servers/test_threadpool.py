"""The pool's bookkeeping, which the poller and its workers share without a lock."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, cast

import pytest

from servers.http11 import ServerConnection
from servers.threadpool import Pool


@pytest.fixture
def eager_collector() -> Iterator[None]:
    """A collection at nearly every allocation."""
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*thresholds)


def test_a_connection_may_be_parked_while_the_poller_looks_for_old_ones(eager_collector: None) -> None:
    """A collection's callback is Python: other threads get their turn in it."""
    parked = cast(Any, object())
    pool = cast(Any, object.__new__(Pool))
    pool._parked = dict.fromkeys(range(200), (parked, 10.0))

    def park(phase: str, info: dict[str, int]) -> None:
        pool._parked[1000 + len(pool._parked)] = (cast(ServerConnection, parked), 10.0)

    gc.callbacks.append(park)
    try:
        for _ in range(50):
            pool._expire(before=5.0)
    finally:
        gc.callbacks.remove(park)
    assert len(pool._parked) >= 200
