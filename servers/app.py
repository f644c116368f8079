"""The service: its routes and handlers, written once for every execution model.

`GET /rag` runs the pipeline (vector look-up, then LLM answer), `GET /health` answers at once. A handler
returns a `Response`; whose fault an error is decides its status: the client's 4xx, the upstream's 502 and
504, ours 500 and 503 (descriptors exhausted).
"""

from __future__ import annotations

import errno
import json
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from servers.client import Client
from servers.http11 import READ_BYTES, BadGateway, Refusal, Request, Response, ServerConnection
from servers.io import IO
from servers.log import once
from servers.metrics import Metrics
from servers.settings import Settings

Handler = Callable[[Request], Awaitable[Response]]
DEFAULT_QUESTION = "How many pods does this rate need?"


class Service:
    """One server process: handlers, upstream client, counters, and the connections at rest."""

    def __init__(self, io: IO, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics(settings.metrics)
        self.client = Client(io, settings.upstream, self.metrics)
        self.resting: set[ServerConnection] = set()
        self.draining = False
        self._routes: dict[str, Handler] = {"/rag": self._rag, "/health": self._health}

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
        settings = self.settings
        try:
            request = await connection.read_request(settings.request_s, settings.body_bytes)
        except Refusal as refusal:
            await self._refuse(connection, refusal)
            return False
        metrics = self.metrics
        started = time.monotonic()
        metrics.active.inc()
        try:
            response = await self._answer(request)
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

    # Handlers

    async def _answer(self, request: Request) -> Response:
        handler = self._routes.get(request.path)
        if handler is None:
            return failure(404, f"no such route; there are {', '.join(self._routes)}", "client_error")
        if request.method != "GET":
            response = failure(405, "this route takes GET", "client_error")
            return response._replace(headers=(*response.headers, (b"allow", b"GET")))
        try:
            return await handler(request)
        except TimeoutError:
            once("504", f"upstream gave no answer within {self.settings.upstream_s:g} s: answered 504")
            return failure(504, "the upstream did not answer in time", "timed_out")
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                once("EMFILE", "descriptors exhausted on the way to the upstream: answered 503")
                return failure(503, "descriptors exhausted", "refused")
            once("502", f"upstream failed: {error}: answered 502")
            return failure(502, "the upstream cannot be reached", "upstream_error")
        except BadGateway as error:
            once("502", f"upstream failed: {error}: answered 502")
            return failure(502, str(error), "upstream_error")
        except Exception as error:  # noqa: BLE001  a handler's bug must not take its connection's peers along
            once("500", f"handler failed: {error!r}: answered 500")
            return failure(500, "internal error", "failed")

    async def _health(self, request: Request) -> Response:
        return Response(200, b'{"status":"ok"}')

    async def _rag(self, request: Request) -> Response:
        question = parse_qs(request.query).get("q", [DEFAULT_QUESTION])[0]
        try:
            documents = (await self._upstream("/search", {"query": question, "k": 4}))["results"]
            context = " ".join(document["id"] for document in documents)
            messages = [
                {"role": "system", "content": f"Answer from these documents: {context}"},
                {"role": "user", "content": question},
            ]
            chat = {"model": "simulated", "messages": messages}
            completion = await self._upstream("/v1/chat/completions", chat)
            answer = completion["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError) as error:
            raise BadGateway(f"the upstream's answer lacks {error}") from error
        return Response(200, json.dumps({"answer": answer, "documents": documents}).encode())

    async def _upstream(self, path: str, payload: object) -> dict[str, Any]:
        reply = await self.client.post(path.encode(), json.dumps(payload).encode(), self.settings.upstream_s)
        if reply.status != 200:
            raise BadGateway(f"the upstream answered {path} with {reply.status}")
        try:
            answer: dict[str, Any] = json.loads(reply.body)
        except ValueError as error:
            raise BadGateway(f"the upstream answered {path} with something that is not JSON") from error
        return answer


def failure(status: int, message: str, outcome: str) -> Response:
    """An error as a JSON body."""
    return Response(status, json.dumps({"error": message}).encode(), outcome=outcome)


def _end_reading(connection: ServerConnection) -> None:
    """Wake a reader with an end of file, after what has already come in: in every model the same."""
    with suppress(OSError):  # it may have gone by itself
        connection.stream.sock.shutdown(socket.SHUT_RD)
