"""All processes of the upstream on one port: binds, starts them, and ends when one of them does."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import FrameType

from harness.scenario import Delay
from harness.upstream import worker
from harness.upstream.app import App

STOP_S = 5.0


Listeners = tuple[socket.socket, ...]  # of one process, one an address


def bind(hosts: Sequence[str], port: int, processes: int) -> list[Listeners]:
    """Sockets for each process, on the same port of every host; port 0 picks a free one.

    Raises OSError if it is in use: with SO_REUSEPORT alone, a forgotten upstream on that port would go unnoticed
    and share the requests. So the port is tried without it first.
    """
    for host in hosts:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            port = probe.getsockname()[1]
    return [tuple(_listener(host, port) for host in hosts) for _ in range(processes)]


def _listener(host: str, port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((host, port))
    return listener


def supervise(processes: Sequence[Listeners], vector: Delay, llm: Delay, seed: int) -> int:
    """Run the processes until SIGTERM or SIGINT (exit status 0) or until one of them ends (1)."""
    host, port = processes[0][0].getsockname()[:2]
    context = get_context("fork")  # all is imported by now, and shared
    ready, ready_w = context.Pipe(duplex=False)
    children: list[ForkProcess] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    try:
        for index, listeners in enumerate(processes):
            child = context.Process(target=_child, args=(index, processes, vector, llm, seed, ready_w))
            child.start()
            children.append(child)
            _close(listeners)  # else connections would queue at a socket that nobody accepts from
        lost = _watch(ready, children, f"http://{host}:{port}")
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        _end(children)
    for child in lost:
        print(f"upstream: process {child.pid} ended with status {child.exitcode}", file=sys.stderr)
    return 1


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _child(
    index: int,
    processes: Sequence[Listeners],
    vector: Delay,
    llm: Delay,
    seed: int,
    ready: Connection,
) -> None:
    for others in processes[index + 1 :]:
        _close(others)
    worker.run(App(vector, llm, seed=seed, index=index), processes[index], ready)


def _close(listeners: Listeners) -> None:
    for listener in listeners:
        listener.close()


def _watch(ready: Connection, children: Sequence[ForkProcess], url: str) -> list[ForkProcess]:
    """Say so when every child accepts; return those that end, once one does."""
    by_sentinel = {child.sentinel: child for child in children}
    starting = len(children)
    while True:
        happened = wait([ready, *by_sentinel])
        ended = [child for sentinel, child in by_sentinel.items() if sentinel in happened]
        if ended:
            return ended
        ready.recv()
        starting -= 1
        if starting == 0:
            print(f"listening on {url}", flush=True)


def _end(children: Sequence[ForkProcess]) -> None:
    for child in children:
        child.terminate()
    for child in children:
        child.join(STOP_S)
        child.kill()
        child.join()
