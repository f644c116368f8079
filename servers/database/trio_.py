"""psycopg under trio, which its connections and pools do not know: its protocol generators, driven by trio.

A generator yields what it waits for (a socket to be readable, writable or either) and is sent what came true.
The pool is a memory channel of slots: a connection at rest, or None where one has yet to be made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import psycopg
import trio
from psycopg import generators, pq
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

from servers.io import ConnectionLost, NoConnection

T = TypeVar("T")
RETRY_S = 0.1


class TrioDatabase:
    """Connections of trio tasks."""

    def __init__(self, dsn: str, size: int, wait_s: float) -> None:
        self._dsn = dsn
        self._wait_s = wait_s
        self._put, self._slots = trio.open_memory_channel[PGconn | None](size)
        for _ in range(size):
            self._put.send_nowait(None)

    async def open(self) -> None:
        """Nothing: the first request for each slot connects."""

    async def acquire(self) -> PGconn:
        with trio.move_on_after(self._wait_s):
            connection = await self._slots.receive()
            return await self._connect() if connection is None else connection
        raise NoConnection

    async def sleep(self, connection: PGconn, seconds: float) -> None:
        try:
            connection.send_query_params(b"SELECT pg_sleep($1)", [b"%f" % seconds])
            (result,) = await _drive(generators.execute(connection), connection.socket)
        except psycopg.OperationalError as error:
            raise ConnectionLost(str(error).strip()) from error
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise ConnectionLost(result.get_error_message().strip())

    async def release(self, connection: PGconn) -> None:
        if connection.transaction_status == pq.TransactionStatus.IDLE:
            self._put.send_nowait(connection)
        else:  # broken, or left in the middle of a statement
            connection.finish()
            self._put.send_nowait(None)

    async def close(self) -> None:
        while self._slots.statistics().current_buffer_used:
            connection = self._slots.receive_nowait()
            if connection is not None:
                connection.finish()

    async def _connect(self) -> PGconn:
        """Until it works or the waiting time is over; the slot is not lost in either case."""
        try:
            while True:
                try:
                    return await _drive(generators.connect(self._dsn))
                except psycopg.OperationalError:
                    await trio.sleep(RETRY_S)
        except BaseException:
            self._put.send_nowait(None)
            raise


async def _drive(generator: Generator[Any, Any, T], descriptor: int | None = None) -> T:
    """Run a generator to its end. One that connects yields the socket too, which changes between attempts."""
    try:
        wanted = next(generator)
        while True:
            sock, event = wanted if descriptor is None else (descriptor, wanted)
            wanted = generator.send(await _ready(sock, event))
    except StopIteration as stop:
        value: T = stop.value
        return value


async def _ready(descriptor: int, wanted: int) -> Ready:
    if wanted == Wait.R:
        await trio.lowlevel.wait_readable(descriptor)
        return Ready.R
    if wanted == Wait.W:
        await trio.lowlevel.wait_writable(descriptor)
        return Ready.W
    return await _either_ready(descriptor)


async def _either_ready(descriptor: int) -> Ready:
    ready = 0

    async def until(state: Ready, wait: Callable[[int], Awaitable[None]]) -> None:
        nonlocal ready
        await wait(descriptor)
        ready |= state
        both.cancel_scope.cancel()

    async with trio.open_nursery() as both:
        both.start_soon(until, Ready.R, trio.lowlevel.wait_readable)
        both.start_soon(until, Ready.W, trio.lowlevel.wait_writable)
    return Ready(ready)
