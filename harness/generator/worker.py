"""One process's part of the load: a Locust user that sends its share and reports what became of it."""

from __future__ import annotations

import gc
import os
import re
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import gevent
import msgspec
from gevent.event import AsyncResult
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import Runner

from harness.generator import messages
from harness.generator.client import Client
from harness.generator.closed import ClosedSender
from harness.generator.ledger import OK, OUTCOMES, UNFINISHED, Columns, Counts, pack
from harness.generator.messages import Account, Broken, Progress, Ready, Report, Start, dump
from harness.generator.plan import Plan
from harness.generator.sender import Observer, Sender


def scheduler_user(run: Callable[[], None]) -> type[User]:
    """The Locust user class of a load. There is one user per worker: it schedules, requests are greenlets."""

    class Scheduler(User):
        @task
        def send_share(self) -> None:
            run()
            raise StopUser

    return Scheduler


class Worker:
    """Waits for the start signal, sends its share, reports each second and at the end."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._t0 = AsyncResult()  # float, or None if there will be no start
        self._sender: Sender | None = None
        self._runner: Runner | None = None

    def attach(self, runner: Runner) -> None:
        """Listens on a runner, which must be done before the user is spawned."""
        self._runner = runner
        runner.register_message(messages.START, self._on_start)
        runner.register_message(messages.HALT, self._on_halt)

    def run(self) -> None:
        """The user's whole life; a second user, which only Locust's page can ask for, has nothing to send."""
        if self._sender is not None or self._runner is None:
            return
        try:
            self._work(self._runner)
        except Exception as error:  # noqa: BLE001 - Locust would log it and run the task again
            self._runner.send_message(messages.BROKEN, dump(Broken(_index(self._runner), repr(error))))

    def _work(self, runner: Runner) -> None:
        plan, index = self._plan, _index(runner)
        columns = Columns.of(plan.share(index))
        client = Client(plan.host, plan.port, plan.request(), plan.sources)
        # Locust's own statistics are seen on its page only: without it, 4 µs a request for nobody.
        observe = _statistics(runner.environment, plan, columns) if plan.web_port else None
        self._sender = _sender(plan, index, columns, client, observe)
        pauses = _still_collector()
        runner.send_message(messages.READY, dump(Ready(index, os.getpid())))
        cpu = _WindowCpu(plan)
        # Locust ends the user when its page is told to stop: what there is, is still reported.
        with suppress(gevent.GreenletExit):
            if (t0 := self._t0.get()) is not None:
                helpers = (gevent.spawn(cpu.watch, t0), gevent.spawn(self._report_progress, runner, t0))
                try:
                    self._sender.run(t0, plan.end_s + plan.drain_s)
                finally:
                    gevent.killall(helpers)
        account = _account(index, columns.close(), cpu, client, pauses)
        runner.send_message(messages.REPORT, dump(Report(account, pack(columns))))

    def _on_start(self, msg: Any, **_: Any) -> None:
        start = msgspec.convert(msg.data, Start)
        self._t0.set(start.t0(time.monotonic(), messages.boot_id()))

    def _on_halt(self, **_: Any) -> None:
        if not self._t0.ready():
            self._t0.set(None)
        if self._sender is not None:
            self._sender.stop()

    def _report_progress(self, runner: Runner, t0: float) -> None:
        assert self._sender is not None
        for second in count(1):
            gevent.sleep(max(0.0, t0 + second - time.monotonic()))
            now = self._sender.snapshot()._asdict()
            now["latencies_s"] = now["latencies_s"].tobytes()
            runner.send_message(messages.PROGRESS, dump(Progress(_index(runner), **now)))


def _sender(plan: Plan, index: int, columns: Columns, client: Client, observe: Observer | None) -> Sender:
    if plan.clients is None:
        return Sender(columns, client, plan.timeout_s, plan.cap(index), observe)
    return ClosedSender(columns, client, plan.timeout_s, plan.clients, plan.end_s, observe)


class _WindowCpu:
    """CPU seconds of this process between the window's start and end (or the moment at which it is asked)."""

    def __init__(self, plan: Plan) -> None:
        self._marks_s = (plan.warmup_s, plan.end_s)
        self._readings = array("d")

    def watch(self, t0: float) -> None:
        for mark_s in self._marks_s:
            gevent.sleep(max(0.0, t0 + mark_s - time.monotonic()))
            self._readings.append(time.process_time())

    @property
    def total_s(self) -> float:
        readings = [*self._readings, time.process_time()]
        return readings[1] - readings[0] if len(readings) > 1 else 0.0


def _still_collector() -> list[float]:
    """Freezes and stops the collector; returns the pauses of whoever runs it all the same, in seconds."""
    gc.collect()
    gc.freeze()
    gc.disable()
    pauses = [0.0]
    began = 0.0

    def watch(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.monotonic()
        else:
            pauses.append(time.monotonic() - began)

    gc.callbacks.append(watch)
    return pauses


def _statistics(environment: Environment, plan: Plan, columns: Columns) -> Observer:
    """Tells Locust of each request sent, for its page."""
    errors = {i: None if i == OK else RuntimeError(outcome) for i, outcome in enumerate(OUTCOMES)}

    def observe(i: int) -> None:
        outcome = columns.outcome[i]
        environment.events.request.fire(
            request_type=plan.method,
            name=plan.path,
            response_time=None if outcome == UNFINISHED else 1000 * (columns.done_s[i] - columns.due_s[i]),
            response_length=columns.bytes[i],
            exception=errors[outcome],
            context={},
        )

    return observe


def _account(index: int, counts: Counts, cpu: _WindowCpu, client: Client, pauses: list[float]) -> Account:
    return Account(
        index=index,
        pid=os.getpid(),
        cpu_s=time.process_time(),
        cpu_window_s=cpu.total_s,
        rss_peak_bytes=_rss_peak_bytes(),
        descriptors_peak=client.descriptors_peak,
        gc_pause_max_s=max(pauses),
        planned=counts.planned,
        sent=counts.sent,
        unsent=counts.unsent,
    )


def _rss_peak_bytes() -> int:
    """This program's own peak. Not getrusage's, which survives exec, so that a large parent shows in it."""
    match = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _index(runner: Runner) -> int:
    index: int = runner.worker_index  # type: ignore[attr-defined] # on local and worker runners
    return index
