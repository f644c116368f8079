"""A server of the controlled arm as a real process, and an upstream that can misbehave on demand."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness import postgres
from harness.errors import MeasurementError

MODELS = ("threadpool", "asyncio", "asyncio-uvloop", "trio", "gevent")  # name[-loop]
HITS = [{"id": "doc-1", "score": 0.9}, {"id": "doc-2", "score": 0.8}]


def _has_postgres() -> bool:
    try:
        postgres.find_binaries()
    except MeasurementError:
        return False
    return True


needs_postgres = pytest.mark.skipif(
    not _has_postgres(), reason="no PostgreSQL here: apt-get install postgresql, as CI does"
)


class FakeUpstream(ThreadingHTTPServer):
    """A thread a connection; `behaviour` says what the LLM route does."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _FakeHandler)
        self.behaviour = "answer"
        self.delay_s = 0.0
        self.prompts: list[object] = []
        self.active: set[object] = set()  # LLM calls in flight, and the most there have been
        self.peak = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """A server under test may well leave in the middle of an answer."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _FakeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeUpstream

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/search":
            self._json(200, {"results": HITS})
            return
        self.server.prompts.append(payload)
        self.server.active.add(self)
        self.server.peak = max(self.server.peak, len(self.server.active))
        time.sleep(self.server.delay_s)
        self.server.active.discard(self)
        match self.server.behaviour:
            case "answer":
                self._json(200, {"choices": [{"message": {"role": "assistant", "content": "two pods"}}]})
            case "error":
                self._json(500, {"error": "no GPU"})
            case "not a completion":
                self._json(200, {"choices": []})
            case "not json":
                self._bytes(200, b"<html>")
            case "not http":
                self.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n")
                self.close_connection = True
            case "close":
                self.close_connection = True
            case "cut short":
                self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
                self.close_connection = True

    def _json(self, status: int, body: object) -> None:
        self._bytes(status, json.dumps(body).encode())

    def _bytes(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


Start = Callable[..., "Server"]


@dataclass
class Server:
    """A running server process under test."""

    model: str
    port: int
    process: subprocess.Popen[bytes]
    metrics: Path
    log: Path

    def connect(self, timeout_s: float = 10.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)

    def exchange(self, data: bytes) -> bytes:
        """Send, then read until the server closes or one response with a content-length is complete."""
        with self.connect() as sock:
            sock.sendall(data)
            return read_response(sock)

    def get(self, target: str) -> tuple[int, bytes]:
        return parse(self.exchange(request(target)))

    def get_together(self, target: str, count: int) -> list[bytes]:
        """As many clients at once, each with one request; their responses."""
        with ExitStack() as stack:
            sockets = [stack.enter_context(self.connect(30)) for _ in range(count)]
            for sock in sockets:
                sock.sendall(request(target))
            return [read_response(sock) for sock in sockets]


def request(target: str, headers: str = "", method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nhost: test\r\n{headers}\r\n".encode()


def read_response(sock: socket.socket) -> bytes:
    """The bytes of exactly one response (b"" if the server closes without one)."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = sock.recv(1)
        if not chunk:
            return data
        data += chunk
    head, _, _ = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while length > 0:
        chunk = sock.recv(length)
        if not chunk:
            return data
        data += chunk
        length -= len(chunk)
    return data


def parse(response: bytes) -> tuple[int, bytes]:
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def free_port() -> int:
    """Below the ephemeral range: in it, somebody's outgoing connection may take the port meanwhile."""
    while True:
        port = random.randrange(10_000, 32_768)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


@contextmanager
def running(
    model: str,
    upstream: str,
    directory: Path,
    *options: str,
    prefix: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A server process, accepting, and gone afterwards."""
    name, _, loop = model.partition("-")
    port = free_port()
    metrics = directory / "metrics"
    metrics.mkdir(exist_ok=True)
    log = directory / "server.log"
    command = [*prefix, sys.executable, "-m", "servers", name, "--port", str(port), "--upstream", upstream]
    command += ["--metrics", str(metrics), *(["--loop", loop] if loop else []), *options]
    environment = {**os.environ, **(env or {})}
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process,
    ):
        try:
            server = Server(model, port, process, metrics, log)
            wait_until(lambda: process.poll() is not None or _accepts(port))
            assert process.poll() is None, log.read_text()
            yield server
        finally:
            process.kill()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
