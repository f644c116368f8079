"""The lab's sixth endpoint: a native lock held over a suspension, in a pod of its own that does not survive it.

On a loop or hub the second request stops the thread on which the first one would have to go on: nothing of that
pod moves again, and only a thread beside it (servers/guard.py) can tell and end it. Threads only wait for
each other. What was seen is kept in results/deadlock/SCENARIO.json, by target: a dead pod leaves no run.
"""

from __future__ import annotations

import json
import re
import select
import socket
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from harness import locks, pod, provenance
from harness.errors import MeasurementError
from harness.expected import CARRIERS, PREFIX
from harness.pins import place
from harness.preflight import Host, Layout, plan
from harness.program import Program
from harness.scenario import Scenario
from harness.targets import Target

ROUTE = f"{PREFIX}deadlock"
EXIT_DEADLOCK = 70  # of servers/guard.py
GUARD_S = 1
REQUESTS = 8
SPARE_S = 10.0


class Party(msgspec.Struct, frozen=True):
    """Who holds the lock or waits for it: its handler, where it stands, for how long, and the thread's stack."""

    handler: str
    at: str
    for_s: float
    stack: tuple[str, ...] = ()


class Deadlock(msgspec.Struct, frozen=True, kw_only=True):
    """What became of REQUESTS requests at once; `exit_code` is None of a pod that went on."""

    target: str
    model: str
    created: str
    commit: str | None
    requests: int
    answered: int
    took_s: float
    exit_code: int | None = None
    holder: Party | None = None
    waiters: tuple[Party, ...] = ()

    @property
    def is_deadlock(self) -> bool:
        """Whether the guard found one and ended the pod."""
        return self.exit_code == EXIT_DEADLOCK and self.holder is not None and bool(self.waiters)

    @property
    def as_expected(self) -> bool:
        """A deadlock on a loop or hub; on threads none, and every request answered."""
        if self.model in CARRIERS:
            return self.is_deadlock
        return self.exit_code is None and self.answered == self.requests

    @property
    def outcome(self) -> str:
        """What became of the pod and its requests, in words."""
        if self.is_deadlock:
            return (
                f"deadlock: the guard ended the pod after {self.took_s:.1f} s, exit status {self.exit_code}"
            )
        served = f"{self.answered} of {self.requests} requests answered in {self.took_s:.1f} s"
        if self.exit_code is not None:
            return f"{served}; the pod ended with exit status {self.exit_code}"
        return f"{served}, one after the other: no deadlock" if self.answered == self.requests else served


def provoke(scenario: Scenario, target: Target) -> Deadlock:
    """Start a pod with a guard, and send it REQUESTS requests at once. Raises TargetError, MeasurementError."""
    options = {**scenario.pod.options, "guard": GUARD_S}
    scenario = msgspec.structs.replace(
        scenario, pod=msgspec.structs.replace(scenario.pod, options=options, workers=1)
    )
    layout = plan(scenario, target, Host.here())
    with (
        locks.machine(),
        tempfile.TemporaryDirectory(prefix="pods-per-lambda-") as scratch,
        ExitStack() as stack,
    ):
        server, port = _started(stack, scenario, target, layout, Path(scratch))
        began_s = time.monotonic()
        answered = _ask(port, began_s + GUARD_S + REQUESTS * scenario.w_s + SPARE_S)
        code = server.wait(0.0 if answered == REQUESTS else SPARE_S)
        took_s = time.monotonic() - began_s
        found = _report(server.log_tail(200))
    return Deadlock(
        target=target.name,
        model=target.model,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=provenance.commit()[0],
        requests=REQUESTS,
        answered=answered,
        took_s=round(took_s, 3),
        exit_code=code,
        holder=_party(found["holder"]) if found else None,
        waiters=tuple(map(_party, found["waiters"])) if found else (),
    )


def keep(results: Path, scenario: str, found: Deadlock) -> Path:
    """Write it beside those of the other targets; the file. Raises MeasurementError."""
    file = _file(results, scenario)
    known = load(results, scenario) | {found.target: found}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n")
        partial.replace(file)
    except OSError as error:
        raise MeasurementError(f"{file}: could not be written: {error}; free some space?") from error
    return file


def load(results: Path, scenario: str) -> dict[str, Deadlock]:
    """What was found with a scenario, by target; nothing if nothing was. Raises MeasurementError."""
    file = _file(results, scenario)
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Deadlock])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise MeasurementError(f"{file}: not readable: {error}; remove it, and run the lab again") from None


def _file(results: Path, scenario: str) -> Path:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", scenario)
    return results / "deadlock" / f"{name}.json"


def _started(
    stack: ExitStack, scenario: Scenario, target: Target, layout: Layout, scratch: Path
) -> tuple[Program, int]:
    port, upstream_port = pod.free_port(), pod.free_port()
    pod_metrics, upstream_metrics = scratch / "pod", scratch / "upstream"
    for directory in (pod_metrics, upstream_metrics):
        directory.mkdir()
    stack.enter_context(
        pod.upstream(scenario, layout, upstream_port, upstream_metrics, scratch / "upstream.log")
    )
    argv = pod.argv(target, scenario, layout, port, upstream_port, pod_metrics)
    return stack.enter_context(pod.pod(target, layout, argv, port, scratch / "pod.log", {})), port


def _ask(port: int, until_s: float) -> int:
    """Send REQUESTS requests, each on a connection of its own; how many were answered well by then."""
    request = f"GET {ROUTE} HTTP/1.1\r\nHost: {pod.HOST}:{port}\r\n\r\n".encode("ascii")
    with ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection((pod.HOST, port))) for _ in range(REQUESTS)]
        for sock in waiting:
            sock.sendall(request)
        answered = 0
        while waiting and (left_s := until_s - time.monotonic()) > 0:
            ready, _, _ = select.select(waiting, [], [], left_s)
            for sock in ready:
                waiting.remove(sock)
                answered += _is_good(sock)
    return answered


def _is_good(sock: socket.socket) -> bool:
    try:
        return sock.recv(4096).startswith(b"HTTP/1.1 200 ")
    except OSError:  # the pod was ended
        return False


def _report(log: str) -> dict[str, Any] | None:
    """The guard's, the last line of the pod's log; None if it said nothing."""
    for line in reversed(log.splitlines()):
        if line.startswith('{"deadlock"'):
            found: dict[str, Any] = json.loads(line)
            return found
    return None


def _party(found: dict[str, Any]) -> Party:
    return Party(
        handler=found["handler"],
        at=place(found["at"]),
        for_s=found["for_s"],
        stack=tuple(map(place, found.get("stack", ()))),
    )
