"""The service: its routes and handlers, written once for every execution model.

`GET /rag` runs the pipeline (vector look-up, then LLM answer), `GET /health` answers at once; `hold` and
`database` add theirs where they are asked for. A handler returns a `Response`; whose fault an error is
decides its status: the client's 4xx, the upstream's 502 and 504, ours 500 and 503 (descriptors exhausted).
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from servers import pins
from servers.burden import shoulder
from servers.client import Client
from servers.database import DatabaseRoute
from servers.hold import hold_routes
from servers.http11 import READ_BYTES, BadGateway, Refusal, Request, Response, ServerConnection, failure
from servers.io import IO
from servers.log import once
from servers.metrics import Metrics
from servers.pipeline import answered, look_up, prompt, retrieved
from servers.settings import Settings

Handler = Callable[[Request], Awaitable[Response]]


class Service:
    """One server process: handlers, upstream client, counters, and the connections at rest."""

    def __init__(self, io: IO, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics(settings.metrics)
        self.client = Client(io, settings.upstream, self.metrics)
        self.resting: set[ServerConnection] = set()
        self.draining = False
        self._routes: dict[str, Handler] = {"/rag": self._rag, "/health": self._health}
        if settings.hold:
            self._routes |= hold_routes(io, self.client, settings, self.metrics)
        self._database = DatabaseRoute(io, settings, self.metrics) if settings.connections else None
        if self._database is not None:
            self._routes["/db"] = self._database

    async def open(self) -> None:
        """What has to happen inside the running model, before the first request."""
        if self.settings.pins and self.settings.model != "threadpool":  # threads have nothing to pin
            pins.watch(self.metrics.count_pin)
        if self._database is not None:
            await self._database.database.open()

    async def close(self) -> None:
        """Leave the database as one who says goodbye."""
        if self._database is not None:
            await self._database.database.close()

    # Connections

    async def serve(self, connection: ServerConnection) -> None:
        """A connection's whole life, for the models that give each connection a task of its own."""
        try:
            while await self.rest(connection):
                if not await self.serve_one(connection):
                    return
        except OSError:
            return  # the client is gone; nobody is left to tell
        finally:
            connection.stream.close()

    async def rest(self, connection: ServerConnection) -> bool:
        """Wait for the next request's first bytes; False when there will be none."""
        if connection.has_data:
            return True
        self.resting.add(connection)
        if self.draining:  # asked after the line above: a thread may drain meanwhile
            _end_reading(connection)
        try:
            data = await connection.stream.recv(READ_BYTES, self.settings.keep_alive_s)
        finally:
            self.resting.discard(connection)
        connection.feed(data)
        return data != b""

    async def serve_one(self, connection: ServerConnection) -> bool:
        """Read one request whose first bytes are here, and answer it; True to go on with the connection."""
        settings, metrics = self.settings, self.metrics
        try:
            request = await connection.read_request(settings.request_s, settings.body_bytes)
        except Refusal as refusal:
            await self._refuse(connection, refusal)
            return False
        started = time.monotonic()
        metrics.active.inc()
        try:
            route = self._route(request)
            try:
                with pins.handler(request.path):
                    response = route if isinstance(route, Response) else await route(request)
            except Exception as error:  # noqa: BLE001  a bug in one handler must not take other requests along
                response = self._explain(error)
            metrics.outcome[response.outcome].inc()
            return await connection.respond(response, self.draining, settings.send_s)
        finally:
            metrics.active.dec()
            metrics.duration.observe(time.monotonic() - started)

    def drain(self) -> None:
        """Take no new request: end the connections at rest, let those in flight finish."""
        self.draining = True
        for connection in tuple(self.resting):
            _end_reading(connection)

    async def _refuse(self, connection: ServerConnection, refusal: Refusal) -> None:
        self.metrics.outcome["client_error"].inc()
        once(f"{refusal.status}", f"refused a request with {refusal.status}: {refusal}")
        response = failure(refusal.status, str(refusal), "client_error")
        await connection.respond(response, True, self.settings.send_s)
        await connection.linger()

    def _route(self, request: Request) -> Handler | Response:
        handler = self._routes.get(request.path)
        if handler is None:
            return failure(404, f"no such route; there are {', '.join(self._routes)}", "client_error")
        if request.method != "GET":
            response = failure(405, "this route takes GET", "client_error")
            return response._replace(headers=(*response.headers, (b"allow", b"GET")))
        return handler

    def _explain(self, error: Exception) -> Response:
        """The answer that an error calls for, by whose fault it is."""
        match error:
            case TimeoutError():
                once(
                    "504", f"the upstream gave no answer within {self.settings.upstream_s:g} s: answered 504"
                )
                return failure(504, "the upstream did not answer in time", "timed_out")
            case OSError(errno=errno.EMFILE | errno.ENFILE):
                once("EMFILE", "descriptors exhausted on the way to the upstream: answered 503")
                return failure(503, "descriptors exhausted", "refused")
            case OSError() | BadGateway():
                once("502", f"the upstream failed: {error}: answered 502")
                return failure(502, f"the upstream failed: {error}", "upstream_error")
        once("500", f"a handler failed: {error!r}: answered 500")
        return failure(500, "internal error", "failed")

    # Handlers. What a handler still holds while it waits for the model is what a request in flight costs.

    async def _health(self, request: Request) -> Response:
        return Response(200, b'{"status":"ok"}')

    async def _rag(self, request: Request) -> Response:
        ask, settings = self.client.post, self.settings
        documents = retrieved(await ask(b"/search", look_up(request), settings.upstream_s))
        # Here a service of this kind computes: it ranks what it found and builds the prompt. Before the long wait, so
        # that the ballast is held throughout it.
        _ballast = shoulder(settings.cpu_us, settings.ballast_bytes)
        completion = await ask(b"/v1/chat/completions", prompt(request, documents), settings.upstream_s)
        return Response(200, b'{"answer": %s, "documents": %s}' % (answered(completion), documents))


def _end_reading(connection: ServerConnection) -> None:
    """Wake a reader with an end of file, after what has already come in: in every model the same."""
    with suppress(OSError):  # it may have gone by itself
        connection.stream.sock.shutdown(socket.SHUT_RD)
