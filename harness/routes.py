"""What a request of a route asks of the upstream; the handlers' side of it is servers/."""

from __future__ import annotations

from collections.abc import Mapping

# Prefix of a route: the upstream's delays that it waits for, one after the other.
CALLS: Mapping[str, tuple[str, ...]] = {"/hold/": ("llm",), "/db": ()}
PIPELINE = ("vector", "llm")  # of every other route


def upstream_calls(route: str) -> tuple[str, ...]:
    """Names of the calls that each request of `route` makes: "vector", "llm"."""
    return next((calls for prefix, calls in CALLS.items() if route.startswith(prefix)), PIPELINE)
