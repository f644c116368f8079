"""psycopg's `AsyncConnectionPool`."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from servers.database import RECONNECT_S
from servers.io import ConnectionLost, NoConnection

Connection = psycopg.AsyncConnection[Any]


class AsyncioDatabase:
    """Connections of asyncio tasks."""

    def __init__(self, dsn: str, size: int, wait_s: float) -> None:
        self._pool = AsyncConnectionPool(
            dsn,
            min_size=size,
            max_size=size,
            timeout=wait_s,
            reconnect_timeout=RECONNECT_S,
            kwargs={"autocommit": True},
            open=False,
        )

    async def open(self) -> None:
        await self._pool.open()

    async def acquire(self) -> Connection:
        try:
            return await self._pool.getconn()
        except PoolTimeout as error:
            raise NoConnection from error

    async def sleep(self, connection: Connection, seconds: float) -> None:
        try:
            await connection.execute("SELECT pg_sleep(%s)", (seconds,))
        except psycopg.OperationalError as error:
            raise ConnectionLost(str(error).strip()) from error

    async def release(self, connection: Connection) -> None:
        await self._pool.putconn(connection)

    async def close(self) -> None:
        await self._pool.close()
