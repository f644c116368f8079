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


def bind(host: str, port: int, processes: int) -> list[socket.socket]:
    """One socket per process on the same port; port 0 picks a free one. Raises OSError if it is in use.

    With SO_REUSEPORT alone, a forgotten upstream on that port would go unnoticed and share the requests.
    So the port is tried without it first.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        address = probe.getsockname()
    sockets = [socket.socket() for _ in range(processes)]
    for listener in sockets:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    return sockets


def supervise(listeners: Sequence[socket.socket], vector: Delay, llm: Delay, seed: int) -> int:
    """Run a process per listener until SIGTERM or SIGINT (exit status 0) or one of them ends (1)."""
    host, port = listeners[0].getsockname()[:2]
    context = get_context("fork")  # all is imported by now, and shared
    ready, ready_w = context.Pipe(duplex=False)
    children: list[ForkProcess] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    try:
        for index, listener in enumerate(listeners):
            child = context.Process(target=_child, args=(index, listeners, vector, llm, seed, ready_w))
            child.start()
            children.append(child)
            listener.close()  # else connections would queue at a socket that nobody accepts from
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
    listeners: Sequence[socket.socket],
    vector: Delay,
    llm: Delay,
    seed: int,
    ready: Connection,
) -> None:
    for other in listeners[index + 1 :]:
        other.close()
    worker.run(App(vector, llm, seed=seed, index=index), listeners[index], ready)


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
