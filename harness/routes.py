"""What one request to each route asks of the upstream, so that hits can be held against requests.

A server of a user's own is taken to run the pipeline, unless its route is one of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Call = Literal["vector", "llm"]

PIPELINE: tuple[Call, ...] = ("vector", "llm")
# A route's first part; what follows it does not matter.
CALLS: Mapping[str, tuple[Call, ...]] = {
    "/hold": ("llm",),
    "/db": (),
    "/health": (),
}


def calls(route: str) -> tuple[Call, ...]:
    """The upstream calls of one request, in their order; `route` may have further parts and a query."""
    first = "/" + route.partition("?")[0].strip("/").partition("/")[0]
    return CALLS.get(first, PIPELINE)
