"""The whole load from outside: waits for the workers, gives the start signal, and collects what they report.

On standard input come the lines `go` and `stop` (its end is a `stop`: nobody is left to read what we write);
on standard output go events, one JSON object a line: ready, start, progress each second, then done or error.
"""

from __future__ import annotations

import os
import sys
import time
from array import array
from collections.abc import Callable
from itertools import count
from pathlib import Path
from select import select
from typing import Any, Final

import gevent
import msgspec
from gevent.event import Event
from locust.runners import MasterRunner, Runner

from harness.generator import messages
from harness.generator.crew import Crew
from harness.generator.messages import Broken, Progress, Ready, Report, Start, dump, median, summed
from harness.generator.plan import Plan

READY_WITHIN_S: Final = 60.0
LOOK_S: Final = 0.2
# Progress lines follow the workers' own reports, which leave on the second.
BEHIND_S: Final = 0.1
_STDIN: Final = 0


class Abort(Exception):
    """The load cannot go on; `reason` is a word for programs, `detail` is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def emit(event: str, **fields: Any) -> None:
    """Writes one event."""
    sys.stdout.buffer.write(msgspec.json.encode({"event": event, **fields}) + b"\n")
    sys.stdout.buffer.flush()


class Conductor:
    """Conducts one load on a local runner, or on a master with a crew."""

    def __init__(self, plan: Plan, runner: Runner, crew: Crew | None) -> None:
        self._plan = plan
        self._runner = runner
        self._crew = crew
        self._news = Event()
        self._ready: dict[int, Ready] = {}
        self._progress: dict[int, Progress] = {}
        self._latencies_s = array("d")
        self._reports: dict[int, Report] = {}
        self._broken: Broken | None = None
        self._going = False
        self._halted = False
        runner.register_message(messages.READY, self._on_ready)
        runner.register_message(messages.PROGRESS, self._on_progress)
        runner.register_message(messages.REPORT, self._on_report)
        runner.register_message(messages.BROKEN, self._on_broken)

    def conduct(self) -> None:
        """Runs the load to its end. Raises Abort, and OSError when the columns cannot be written."""
        listening = gevent.spawn(self._listen)
        self._gather()
        emit("ready", pids=[self._ready[index].pid for index in sorted(self._ready)])
        self._until(lambda: self._going or self._halted)
        helpers = [listening]
        if self._halted:
            self._runner.send_message(messages.HALT)
        else:
            helpers.append(gevent.spawn(self._report_progress, self._start()))
        self._until(lambda: len(self._reports) == self._plan.processes)
        gevent.killall(helpers)
        files = self._write()
        emit("done", workers=[self._reports[index].account for index in sorted(self._reports)], files=files)

    def halt(self) -> None:
        """Sends nothing more; what there is will be reported."""
        self._halted = True
        self._news.set()
        if len(self._ready) == self._plan.processes:
            self._runner.send_message(messages.HALT)

    def _gather(self) -> None:
        processes, within_s = self._plan.processes, time.monotonic() + READY_WITHIN_S
        if isinstance(self._runner, MasterRunner):
            clients = self._runner.clients
            self._until(lambda: len(clients.ready) == processes, within_s)
        # As many users as workers: Locust's dispatcher gives one to each.
        self._runner.start(processes, spawn_rate=processes)
        self._until(lambda: len(self._ready) == processes, within_s)

    def _start(self) -> float:
        t0 = time.monotonic() + self._plan.lead_s
        self._runner.send_message(messages.START, dump(Start(t0, self._plan.lead_s, messages.boot_id())))
        emit("start", t0_s=t0)
        return t0

    def _until(self, condition: Callable[[], bool], within_s: float = float("inf")) -> None:
        while not condition():
            self._check()
            if time.monotonic() > within_s:
                raise Abort("not_ready", f"the workers were not ready within {READY_WITHIN_S:.0f} s")
            self._news.wait(LOOK_S)
            self._news.clear()

    def _check(self) -> None:
        if self._broken is not None:
            raise Abort("worker_failed", f"worker {self._broken.index}: {self._broken.detail}")
        if self._crew is not None and (detail := self._crew.dead()):
            raise Abort("worker_lost", detail)
        # One that lives but no longer answers: Locust misses its heartbeats after some 4 s.
        if isinstance(self._runner, MasterRunner) and (missing := self._runner.clients.missing):
            raise Abort("worker_lost", f"no heartbeat from {', '.join(client.id for client in missing)}")

    def _report_progress(self, t0: float) -> None:
        for second in count(1):
            gevent.sleep(max(0.0, t0 + second + BEHIND_S - time.monotonic()))
            latencies_s, self._latencies_s = self._latencies_s, array("d")
            emit(
                "progress",
                t_s=second,
                phase=self._plan.phase(second),
                **summed(list(self._progress.values())),
                latency_p50_s=median(latencies_s),
            )

    def _write(self) -> list[str]:
        directory = Path(self._plan.directory)
        directory.mkdir(parents=True, exist_ok=True)
        files = []
        for index, report in sorted(self._reports.items()):
            file = directory / f"requests-{index}.msgpack"
            file.write_bytes(report.columns)
            files.append(str(file))
        return files

    def _listen(self) -> None:
        pending = b""
        while True:
            select([_STDIN], [], [])
            data = os.read(_STDIN, 4096)
            if not data:
                return self.halt()
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._obey(line.strip())

    def _obey(self, line: bytes) -> None:
        if line == b"go":
            self._going = True
            self._news.set()
        elif line == b"stop":
            self.halt()

    def _on_ready(self, msg: Any, **_: Any) -> None:
        ready = msgspec.convert(msg.data, Ready)
        self._ready[ready.index] = ready
        self._news.set()

    def _on_progress(self, msg: Any, **_: Any) -> None:
        progress = msgspec.convert(msg.data, Progress)
        self._progress[progress.index] = progress
        self._latencies_s.frombytes(progress.latencies_s)

    def _on_report(self, msg: Any, **_: Any) -> None:
        report = msgspec.convert(msg.data, Report)
        self._reports[report.account.index] = report
        self._news.set()

    def _on_broken(self, msg: Any, **_: Any) -> None:
        self._broken = msgspec.convert(msg.data, Broken)
        self._news.set()
