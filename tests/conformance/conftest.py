"""The conformance suite runs each test over every model."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from support import MODELS, FakeUpstream, Server, Start, running


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def start(model: str, upstream: FakeUpstream, tmp_path: Path) -> Iterator[Start]:
    """`start(*options)` runs the model under test with these options."""
    with ExitStack() as stack:

        def begin(
            *options: str,
            prefix: tuple[str, ...] = (),
            upstream_url: str = upstream.url,
            env: Mapping[str, str] | None = None,
        ) -> Server:
            server = running(model, upstream_url, tmp_path, *options, prefix=prefix, env=env)
            return stack.enter_context(server)

        yield begin
