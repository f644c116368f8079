"""`GET /db`: hold a pooled connection to PostgreSQL for a while; optionally behind a semaphore.

What a client sees when there is too much of it:
- 503: it waited for a connection for as long as the pool lets anyone wait;
- 429 with Retry-After: the semaphore had no permit, and nobody was let in to wait for the pool;
- 503 also when the database went away meanwhile. The pools find it again when it is back.
"""

from __future__ import annotations

import logging

from servers.http11 import Request, Response, failure
from servers.io import IO, ConnectionLost, NoConnection
from servers.log import once
from servers.metrics import Metrics
from servers.settings import Settings

RETRY_AFTER = (b"retry-after", b"1")
# How long a pool tries to mend one connection before the next request for one starts over. Short, so that a
# database that comes back is found within about this time; psycopg's own 5 minutes back off to 64 s and more.
RECONNECT_S = 1.0

# One line a second for each connection that cannot be made is too many: `once` has said it, and 503s say it.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


class DatabaseRoute:
    """The handler of `/db`, its pool, and the limiter in front of it if there is one."""

    def __init__(self, io: IO, settings: Settings, metrics: Metrics) -> None:
        self.database = io.database(settings.dsn, settings.connections, settings.connection_wait_s)
        self.permits = io.limiter(settings.permits) if settings.permits else None
        self._permit_wait_s = settings.permit_wait_s
        self._hold_s = settings.db_hold_s
        self._metrics = metrics
        metrics.permits.set(settings.permits)

    async def __call__(self, request: Request) -> Response:
        if self.permits is None:
            return await self._query()
        try:
            await self.permits.acquire(self._permit_wait_s)
        except TimeoutError:
            refused = failure(429, "no permit was free in time", "refused")
            return refused._replace(headers=(*refused.headers, RETRY_AFTER))
        self._metrics.permits_in_use.inc()
        try:
            return await self._query()
        finally:
            self._metrics.permits_in_use.dec()
            self.permits.release()

    async def _query(self) -> Response:
        try:
            with self._metrics.connections_pending.track_inprogress():
                connection = await self.database.acquire()
        except NoConnection:
            return failure(503, "no database connection was free in time", "refused")
        try:
            with self._metrics.connections_used.track_inprogress():
                await self.database.sleep(connection, self._hold_s)
        except ConnectionLost as error:
            once("database", f"database lost: {error}: answered 503")
            return failure(503, "the database went away", "upstream_error")
        finally:
            await self.database.release(connection)
        return Response(200, b'{"rows":1}')
