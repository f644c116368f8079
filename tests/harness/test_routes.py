"""What a route asks of the upstream; everything unknown is the pipeline."""

from __future__ import annotations

import pytest

from harness.routes import calls


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("/rag", ("vector", "llm")),
        ("/my/own", ("vector", "llm")),
        ("/", ("vector", "llm")),
        ("/hold/plain", ("llm",)),
        ("/hold/sync-shared?q=1", ("llm",)),
        ("/holder", ("vector", "llm")),
        ("/db", ()),
        ("/db?seconds=1", ()),
        ("/health", ()),
    ],
)
def test_calls_of_one_request(route: str, expected: tuple[str, ...]) -> None:
    assert calls(route) == expected
