"""The worker processes: started by the conductor, and never left behind by it.

A worker ends when it is told to, when its standard input closes (the conductor is gone, and the kernel
tells), and by the parent-death signal, which also reaches one that is too busy or stopped to read.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from select import select
from typing import Final

import gevent

PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>
LEAVE_S: Final = 3.0
LOWEST_PORT: Final = 10_000
_STDIN: Final = 0


class Crew:
    """`size` worker processes that join a conductor on a loopback port."""

    def __init__(self, plan_file: Path, port: int, size: int) -> None:
        command = [sys.executable, "-m", "harness.generator", str(plan_file), "--join", str(port)]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(size)
        ]

    def dead(self) -> str:
        """Names a process that has ended, or nothing."""
        for process in self._processes:
            if (status := process.poll()) is not None:
                return f"pid {process.pid} ended with status {status}"
        return ""

    def dismiss(self, wait_s: float = LEAVE_S) -> None:
        """Waits for all to end, and ends the rest."""
        with gevent.Timeout(wait_s, False):
            for process in self._processes:
                process.wait()
        for process in self._processes:
            process.kill()
            process.wait()


def end_with_conductor() -> None:
    """In a worker: see to its end. A Ctrl-C of the terminal's is the conductor's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    gevent.spawn(_end_at_eof)


def _end_at_eof() -> None:
    select([_STDIN], [], [])  # nothing is ever written there
    os._exit(1)


def free_port() -> int:
    """A free loopback port below the ephemeral range, where no connection of a load can take it."""
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    while True:
        port = random.randrange(LOWEST_PORT, low)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
