"""Routes: which calls of the upstream a request waits for."""

from __future__ import annotations

import pytest

from harness.routes import upstream_calls


@pytest.mark.parametrize(
    ("route", "calls"),
    [
        ("/rag", ("vector", "llm")),
        ("/", ("vector", "llm")),
        ("/rag?q=x", ("vector", "llm")),
        ("/hold/plain", ("llm",)),
        ("/hold/sync-shared", ("llm",)),
        ("/db", ()),
    ],
)
def test_calls(route: str, calls: tuple[str, ...]) -> None:
    assert upstream_calls(route) == calls
