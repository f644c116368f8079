"""psycopg's `ConnectionPool`: for threads, and for greenlets, whose patches its waits go through."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from servers.database import RECONNECT_S
from servers.io import ConnectionLost, NoConnection

Connection = psycopg.Connection[Any]


class BlockingDatabase:
    """Connections of threads or greenlets."""

    def __init__(self, dsn: str, size: int, wait_s: float) -> None:
        self._pool = ConnectionPool(
            dsn,
            min_size=size,
            max_size=size,
            timeout=wait_s,
            reconnect_timeout=RECONNECT_S,
            kwargs={"autocommit": True},
            open=False,
        )

    async def open(self) -> None:
        self._pool.open()

    async def acquire(self) -> Connection:
        try:
            return self._pool.getconn()
        except PoolTimeout as error:
            raise NoConnection from error

    async def sleep(self, connection: Connection, seconds: float) -> None:
        try:
            connection.execute("SELECT pg_sleep(%s)", (seconds,))
        except psycopg.OperationalError as error:
            raise ConnectionLost(str(error).strip()) from error

    async def release(self, connection: Connection) -> None:
        self._pool.putconn(connection)

    async def close(self) -> None:
        self._pool.close()
