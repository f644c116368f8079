"""The upstream's routes: `POST /search`, `POST /v1/chat/completions`, `GET /health`.

Rules:

- The wait starts when the request has been read and found well-formed; that is when it counts as a request.
- What was counted in flight is counted out again, however it ends; a client that leaves ends the wait.
- A byte is parsed only if the answer depends on it: this process shares the harness's CPU.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from harness.scenario import Delay
from harness.upstream.delays import draws, whole_ticks_s

JSON = "application/json"
COMPLETION = "This answer took as long as it was told to."
BYTES_PER_TOKEN = 4  # a rule of thumb; the usage of an answer only has to look like one


class Search(msgspec.Struct):
    """A query of the vector database; other fields (the vector, filters) do not change the answer."""

    top_k: Annotated[int, msgspec.Meta(ge=1, le=100)] = 4


class Chat(msgspec.Struct):
    """A chat completion request, as far as it is looked at; the messages stay unparsed."""

    model: str
    messages: list[msgspec.Raw]
    stream: bool = False

    def __post_init__(self) -> None:
        if self.stream:
            raise ValueError("stream is not supported: leave it out or false")


@lru_cache
def search_answer(top_k: int) -> bytes:
    results = [{"id": f"doc-{rank:03}", "score": round(0.97 - 0.009 * rank, 3)} for rank in range(top_k)]
    return msgspec.json.encode({"results": results})


def chat_answer(chat: Chat, number: str) -> bytes:
    """A `chat.completion` object as OpenAI's API reference describes it."""
    prompt = sum(len(bytes(message)) for message in chat.messages) // BYTES_PER_TOKEN
    completion = len(COMPLETION) // BYTES_PER_TOKEN
    return msgspec.json.encode(
        {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": chat.model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": COMPLETION},
                    "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }
    )


def error(status: int, message: str) -> web.Response:
    """An error as OpenAI's API spells it."""
    detail = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return web.Response(status=status, body=msgspec.json.encode({"error": detail}), content_type=JSON)


class Counts:
    """What the harness reads from outside, per route; see harness/gauges.py."""

    def __init__(self) -> None:
        registry = CollectorRegistry()  # its own: nobody scrapes this process
        labels = ["route"]
        self.requests = Counter("upstream_requests", "Requests read.", labels, registry=registry)
        self.aborted = Counter("upstream_aborted", "Waits that the client ended.", labels, registry=registry)
        self.active = Gauge(
            "upstream_active_requests", "Waiting.", labels, registry=registry, multiprocess_mode="livesum"
        )


class Route(NamedTuple):
    method: str
    decode: Callable[[bytes], Any]
    answer: Callable[[Any], bytes]
    delay_s: Callable[[], float]
    requests: Counter
    aborted: Counter
    active: Gauge


class App:
    """The handler of a `web.Server`; `index` and `seed` make its delays and ids those of one worker."""

    def __init__(self, vector: Delay, llm: Delay, *, seed: int, index: int) -> None:
        self.stopping = False  # waits that end from now on were not ended by their clients
        numbers = (f"{index}-{number}" for number in itertools.count())
        search = msgspec.json.Decoder(Search).decode
        chat = msgspec.json.Decoder(Chat).decode
        counts = Counts()

        def route(
            label: str,
            delay: Delay,
            decode: Callable[[bytes], Any],
            answer: Callable[[Any], bytes],
            method: str = "POST",
        ) -> Route:
            return Route(
                method=method,
                decode=decode,
                answer=answer,
                delay_s=draws(delay, f"{seed}/{index}/{label}"),
                requests=counts.requests.labels(label),
                aborted=counts.aborted.labels(label),
                active=counts.active.labels(label),
            )

        self._routes = {
            "/search": route("search", vector, search, lambda query: search_answer(query.top_k)),
            "/v1/chat/completions": route("chat", llm, chat, lambda query: chat_answer(query, next(numbers))),
            # The LLM's delay and nothing else: to measure a load generator alone.
            "/wait": route("wait", llm, lambda _: None, lambda _: b"{}", method="GET"),
        }

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/health":
            return web.Response(body=b'{"status":"ok"}', content_type=JSON)
        route = self._routes.get(request.path)
        if route is None:
            return error(404, f"no such path: {request.path}; there are {', '.join(self._routes)}")
        if request.method != route.method:
            return error(405, f"{request.path} takes {route.method}")
        try:
            query = route.decode(await request.read())
        except (msgspec.MsgspecError, UnicodeDecodeError) as reason:
            return error(400, f"the body cannot be used: {reason}")
        with self._counted(route):
            if delay_s := route.delay_s():
                await asyncio.sleep(whole_ticks_s(delay_s, time.monotonic()))
        return web.Response(body=route.answer(query), content_type=JSON)

    @contextmanager
    def _counted(self, route: Route) -> Iterator[None]:
        route.requests.inc()
        route.active.inc()
        try:
            yield
        except asyncio.CancelledError:
            if not self.stopping:
                route.aborted.inc()
            raise
        finally:
            route.active.dec()
