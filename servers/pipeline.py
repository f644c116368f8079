"""What the service asks of the upstream and reads from its answers: bytes in, bytes out, no waiting."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from servers.http11 import BadGateway, Reply, Request

DEFAULT_QUESTION = "How many pods does this rate need?"


def look_up(request: Request) -> bytes:
    """The vector query."""
    return json.dumps({"query": _question(request), "top_k": 4}).encode()


def prompt(request: Request, documents: bytes) -> bytes:
    """The chat request, with the documents in front of the question."""
    messages = [
        {"role": "system", "content": f"Answer from these documents: {documents.decode()}"},
        {"role": "user", "content": _question(request)},
    ]
    return json.dumps({"model": "simulated", "messages": messages}).encode()


def retrieved(reply: Reply) -> bytes:
    """The documents found, as JSON again: a tenth of the memory of the objects. Raises BadGateway."""
    return json.dumps(_found(reply, "results")).encode()


def answered(reply: Reply) -> bytes:
    """The model's answer, as a JSON string. Raises BadGateway."""
    return json.dumps(_found(reply, "choices", 0, "message", "content")).encode()


def _found(reply: Reply, *path: str | int) -> Any:
    if reply.status != HTTPStatus.OK:
        raise BadGateway(f"it answered with {reply.status}")
    try:
        value = json.loads(reply.body)
        for step in path:
            value = value[step]
    except ValueError as error:
        raise BadGateway("its answer is not JSON") from error
    except (LookupError, TypeError) as error:
        raise BadGateway(f"its answer lacks {'.'.join(map(str, path))}") from error
    return value


def _question(request: Request) -> str:
    return parse_qs(request.query).get("q", [DEFAULT_QUESTION])[0] if request.query else DEFAULT_QUESTION
