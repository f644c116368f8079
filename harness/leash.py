"""A leash: runs one command and never outlives it, nor lets anything of it outlive the harness.

    python -S -E leash.py '{"status_fd": 5, "control_fd": 6, "cpus": [1], "descriptors": null}' -- command …

- Run by path, on the standard library alone: it starts in 20 ms, and imports no fault of ours.
- It is the subreaper of all that the command starts, daemons included: no child left is no descendant left.
- The control pipe is the harness's pulse. Its end, also by SIGKILL of the harness, kills the whole tree.
- Signals are the harness's to decide on: SIGINT, SIGTERM and SIGHUP do nothing here.

Status pipe, one line: `pid N` once the command has been executed, or `failed REASON`.
Control pipe: the line `stop GRACE_S` sends SIGTERM to the command and kills the tree after the grace time.
The exit status is the command's own; 128 + signal when a signal ended it, 127 when it could not start.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_STARTED = 127
FOREVER_S = 1e7  # as long as select() takes


def prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


def become(argv: list[str], options: dict[str, Any], leash_pid: int, failure_fd: int) -> NoReturn:
    """The child's side: confine this process and turn it into the command."""
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != leash_pid:  # the leash died before it could be watched
            os._exit(NOT_STARTED)
        # The hard limit too: a server that raises its soft one would undo a pod's limit.
        descriptors = options["descriptors"] or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        if options["cpus"] is not None:
            os.sched_setaffinity(0, options["cpus"])
        # Python ignores the first two, a shell's background job the last; the command would inherit it.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    except (OSError, ValueError) as error:
        os.write(failure_fd, f"{argv[0]}: {error}".encode())
    finally:
        os._exit(NOT_STARTED)


def launch(argv: list[str], options: dict[str, Any]) -> tuple[int, str]:
    """Start the command; its pid and, unless exec succeeded, the reason why not."""
    leash_pid = os.getpid()
    failure_r, failure_w = os.pipe()  # closed by a successful exec: no news is good news
    pid = os.fork()
    if pid == 0:
        become(argv, options, leash_pid, failure_w)
    os.close(failure_w)
    with os.fdopen(failure_r, "rb") as failure:
        return pid, failure.read().decode()


def descendants(root: int) -> set[int]:
    """Everything below `root`, by parent ids: a kernel need not have the `children` files of /proc."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            parent = int(stat.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    new = children.get(root, [])
    while new:
        found.update(new)
        new = [child for pid in new for child in children.get(pid, [])]
    return found


def reap(ended: dict[int, int], flags: int = 0) -> bool:
    """Take one ended child's wait status into `ended`; whether there was one to take."""
    try:
        pid, status = os.waitpid(-1, flags)
    except ChildProcessError:
        return False
    if pid:
        ended[pid] = status
    return pid != 0


def kill_tree(ended: dict[int, int]) -> None:
    """Kill and reap until no child is left. A fork that outran its parent's kill is met on the next round."""
    left = True
    while left:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        left = reap(ended)


def hold(pid: int, control_fd: int, wakeup_fd: int, ended: dict[int, int]) -> None:
    """Wait for the command's end, for the end of its grace time, or for the end of the harness."""
    deadline_s = time.monotonic() + FOREVER_S
    while pid not in ended and (left_s := deadline_s - time.monotonic()) > 0:
        readable, _, _ = select.select([control_fd, wakeup_fd], [], [], left_s)
        if wakeup_fd in readable:
            os.read(wakeup_fd, 4096)
        if control_fd in readable:
            words = os.read(control_fd, 4096).split()
            if not words:  # end of file: the harness is gone
                return
            os.kill(pid, signal.SIGTERM)  # not reaped yet, so the pid is still the command's
            deadline_s = time.monotonic() + float(words[-1])
        while reap(ended, os.WNOHANG):
            pass


def main() -> int:
    options = json.loads(sys.argv[1])
    argv = sys.argv[sys.argv.index("--") + 1 :]
    wakeup_r, wakeup_w = os.pipe()
    os.set_blocking(wakeup_w, False)
    signal.set_wakeup_fd(wakeup_w, warn_on_full_buffer=False)
    # Handlers, not SIG_IGN: exec resets a handler, while an ignored signal the command would inherit.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    os.set_inheritable(options["status_fd"], False)
    os.set_inheritable(options["control_fd"], False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    ended: dict[int, int] = {}
    pid, failure = launch(argv, options)
    try:
        os.write(options["status_fd"], f"failed {failure}".encode() if failure else b"pid %d\n" % pid)
        os.close(options["status_fd"])
        hold(pid, options["control_fd"], wakeup_r, ended)
    finally:  # also when the harness died before it could read the pid
        kill_tree(ended)
    code = os.waitstatus_to_exitcode(ended[pid])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
