"""Servers and generators, gone when a test is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from generator_support import Generate, Generator, Serve, Server


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[Server] = []

    def make(*args: Any, **options: Any) -> Server:
        servers.append(Server(*args, **options))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def generate(tmp_path: Path) -> Iterator[Generate]:
    generators: list[Generator] = []
    plan = {
        "host": "127.0.0.1",
        "path": "/rag",
        "arrivals": "constant",
        "rate_rps": 20,
        "window_s": 1,
        "drain_s": 2,
        "timeout_s": 5,
        "lead_s": 0.05,
        "directory": str(tmp_path / "columns"),
    }

    def start(port: int, *, prefix: Sequence[str] = (), **fields: Any) -> Generator:
        generators.append(Generator(tmp_path, plan | fields | {"port": port}, prefix))
        return generators[-1]

    yield start
    for generator in generators:
        generator.close()
