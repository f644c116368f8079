"""Programs the harness starts: each on a leash, so that whatever happens here, nothing of them stays.

A program runs under `leash.py`, which confines it, reaps its orphans and kills its whole tree when told to or
when the control pipe closes. That pipe's only write end lives in this process; the kernel closes it however
this process ends, so no exit path has to be thought of. (A fork of this process that does not exec would
keep it open: the harness starts programs, it does not fork.)
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from harness.errors import HarnessError, MeasurementError

LEASH = Path(__file__).with_name("leash.py")
TAIL_BYTES = 1 << 16
KILL_S = 10.0  # a killed tree of thousands of threads is gone within this


class Program:
    """A running command and everything that it starts. Use it as a context manager; leaving kills the tree.

    `pid` is the command's own pid (session and process group leader). `stdin` and `stdout` are text pipes,
    if asked for, and None otherwise.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        name: str,
        env: Mapping[str, str] | None = None,
        cpus: Set[int] | None = None,
        descriptors: int | None = None,
        pipes: bool = False,
        fault: type[HarnessError] = MeasurementError,
    ) -> None:
        """Start `argv` and return once it has been executed.

        log: file for its output, written anew (with `pipes` only for what it says on stderr).
        name: how messages call it.  env: its whole environment, None for ours.
        cpus: the CPUs it may run on.  descriptors: its limit, hard limit included; None for all there are.
        fault: the error raised if it cannot be started or fails later: whose fault that is.
        """
        self.name = name
        self.log = log
        self._fault = fault
        status_r, status_w = os.pipe()
        control_r, self._control = os.pipe()
        options = {
            "status_fd": status_w,
            "control_fd": control_r,
            "cpus": None if cpus is None else sorted(cpus),
            "descriptors": descriptors,
        }
        try:
            with log.open("wb") as output:
                self._leash = subprocess.Popen(
                    [sys.executable, "-S", "-E", str(LEASH), json.dumps(options), "--", *argv],
                    stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if pipes else output,
                    stderr=output,
                    env=env,
                    pass_fds=(status_w, control_r),
                    start_new_session=True,  # a signal to our process group must not kill the leash
                    text=True,
                )
        except BaseException:
            os.close(self._control)
            os.close(status_r)
            raise
        finally:
            os.close(status_w)
            os.close(control_r)
        self.stdin: IO[str] | None = self._leash.stdin
        self.stdout: IO[str] | None = self._leash.stdout
        self.pid = 0
        self.pid = self._read_pid(status_r)

    def _read_pid(self, status_fd: int) -> int:
        try:
            with os.fdopen(status_fd) as status:
                word, _, rest = status.read().strip().partition(" ")
            if word == "pid":
                return int(rest)
        except BaseException:
            self.kill()
            raise
        self.kill()
        raise self._fault(f"{self.name} could not be started: {rest or self.log_tail(5) or 'its leash died'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def poll(self) -> int | None:
        """Exit status once the command and its tree are gone (128 + n for signal n), else None."""
        return self._leash.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the end; the exit status, or None if it still runs after `timeout_s`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._leash.wait(timeout_s)
        return None

    def stop(self, grace_s: float) -> int:
        """SIGTERM to the command, SIGKILL to the tree when it ends or the grace time is over; exit status."""
        with contextlib.suppress(OSError):  # it ended by itself
            os.write(self._control, f"stop {grace_s}\n".encode())
        self.wait(grace_s + KILL_S)
        return self.kill()

    def kill(self) -> int:
        """Kill the tree at once, if any of it is left; exit status.

        Raises the program's kind of error if the tree does not die: a process in an uninterruptible wait.
        """
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        code = self.wait(KILL_S)
        for pipe in (self.stdin, self.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unsent text, and nobody there to read it
                    pipe.close()
        if code is None:
            raise self._fault(f"{self.name} (pid {self.pid}) cannot be killed; look at its state in ps")
        return code

    def failure(self, happened: str) -> HarnessError:
        """An error of the program's kind that says what happened, how it ended, and its last words."""
        code = self.poll()
        ended = "" if code is None else f" ({describe(code)})"
        tail = self.log_tail(15)
        return self._fault(f"{self.name} {happened}{ended}; log: {self.log}" + (f"\n{tail}" if tail else ""))

    def log_tail(self, lines: int) -> str:
        """The last lines of its log."""
        with self.log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - TAIL_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])


def describe(code: int) -> str:
    """An exit status in words: `exit status 3`, `killed by SIGKILL`."""
    try:
        return f"killed by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"exit status {code}"
