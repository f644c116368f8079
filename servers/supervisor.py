"""Several processes on one port (SO_REUSEPORT): start them, pass SIGTERM on, end when one ends.

A worker that dies ends the pod: a pod that goes on with less than it was given would be measured as something
that it is not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable

from servers.settings import Settings

PR_SET_PDEATHSIG = 1


def supervise(settings: Settings, serve: Callable[[Settings], int]) -> int:
    """Fork `settings.workers` processes and wait for all; the worst exit status is returned."""
    if not _port_is_free(settings):
        return 2
    children = {_fork(settings, serve) for _ in range(settings.workers)}
    stopping = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True
        for child in children:
            os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worst = 0
    while children:
        child, status = os.wait()
        children.discard(child)
        code = os.waitstatus_to_exitcode(status)
        worst = max(worst, abs(code))
        if not stopping:
            print(f"worker {child} ended with status {code}: the pod ends", file=sys.stderr, flush=True)
            stop(signal.SIGTERM, None)
            worst = worst or 1
    return worst


def _fork(settings: Settings, serve: Callable[[Settings], int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died between the fork and the line above
        os._exit(1)
    os._exit(serve(settings))


def _port_is_free(settings: Settings) -> bool:
    """With SO_REUSEPORT a foreign listener on the port would go unnoticed, and take half of the load."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(settings.address)
        except OSError as error:
            host, port = settings.address
            print(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port", file=sys.stderr)
            return False
    return True
