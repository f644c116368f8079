"""A server that does as it is told, and the generator as a process of its own (Locust would patch this one)."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.generator.ledger import OUTCOMES, REASONS, Columns, count, unpack

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Answer = Callable[[socket.socket], None]


class Server:
    """Answers with `data` after `wait_s`, or by `answer`; a thread per connection, for a few requests."""

    def __init__(
        self, data: bytes = OK, wait_s: float = 0.0, leave: bool = False, answer: Answer | None = None
    ) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[str] = []  # where each came from
        self.heads: list[bytes] = []
        self.connections = 0
        self._data = data
        self._wait_s = wait_s
        self._leave = leave  # after an answer, without having said so
        self._answer = answer or self._reply
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, (address, _) = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock, address), daemon=True).start()

    def _serve(self, sock: socket.socket, address: str) -> None:
        try:
            with sock:
                while head := sock.recv(4096):
                    self.requests.append(address)
                    self.heads.append(head)
                    self._answer(sock)
                    if self._leave:
                        return
        except OSError:
            return  # the client gave up

    def _reply(self, sock: socket.socket) -> None:
        time.sleep(self._wait_s)
        sock.sendall(self._data)


class Generator:
    """A generator process and what it says."""

    def __init__(self, directory: Path, plan: dict[str, Any], prefix: Sequence[str]) -> None:
        file = directory / "plan.json"
        file.write_text(json.dumps(plan))
        command = [*prefix, sys.executable, "-m", "harness.generator", str(file)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.events: list[dict[str, Any]] = []

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, event: str) -> dict[str, Any]:
        """Reads up to an event of that name."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == event:
                return self.events[-1]
        pytest.fail(f"no {event!r} event in {self.events}")

    def go(self) -> list[int]:
        """Gives the signal once all are ready; the workers' process ids."""
        pids: list[int] = self.until("ready")["pids"]
        self.say("go")
        self.until("start")
        return pids

    def columns(self) -> list[Columns]:
        """What each worker wrote, once done."""
        done = self.until("done")
        assert self.process.wait(timeout=20) == 0
        columns = [unpack(Path(file).read_bytes()) for file in done["files"]]
        for worker, rows in zip(done["workers"], columns, strict=True):
            counts = count(rows.outcome)
            assert counts.undecided == 0
            assert (worker["planned"], worker["sent"], worker["unsent"]) == (
                len(rows.sequence),
                counts.sent,
                counts.unsent,
            )
            assert counts.planned == counts.sent + counts.unsent
            assert sum(math.isnan(sent_s) for sent_s in rows.sent_s) == counts.unsent
        return columns

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


Serve = Callable[..., Server]
Generate = Callable[..., Generator]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tally(rows: Columns) -> dict[tuple[str, str], int]:
    """How many rows have which outcome and reason, by name."""
    pairs = [(OUTCOMES[o], REASONS[r]) for o, r in zip(rows.outcome, rows.reason, strict=True)]
    return {pair: pairs.count(pair) for pair in pairs}
