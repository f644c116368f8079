"""Programs on a leash, with real processes: confinement arrives, and nothing ever stays."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import leash
from harness.errors import GeneratorError, MeasurementError
from harness.program import Program, describe

REPORT = """
import os, resource
print(sorted(os.sched_getaffinity(0)), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)
"""
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("up", flush=True)
time.sleep(60)
"""
# Leaves a grandchild in a session of its own, whose parent has ended: a daemon, as only a subreaper finds it.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(60)
    os._exit(0)
os.wait()
time.sleep(float(sys.argv[1]))
"""
# A harness: starts the daemon on a leash, passes its lines on, and waits to be killed.
HARNESS = """
import sys, time
from pathlib import Path
from harness.program import Program
program = Program([sys.executable, "-c", sys.argv[1], "60"], log=Path(sys.argv[2]), name="daemon", pipes=True)
print(program.pid, program.stdout.readline(), flush=True)
time.sleep(60)
"""


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-S", "-c", code, *arguments]


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # an orphan of a container's idle init stays a zombie


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return met


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def line(program: Program) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def test_affinity_and_descriptor_limit_arrive(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    with Program(python(REPORT), log=tmp_path / "log", name="report", cpus={cpu}, descriptors=321) as program:
        assert program.wait(10) == 0
        assert program.log_tail(1) == f"[{cpu}] 321 321"


def test_without_limits_it_gets_all_descriptors(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with Program(python(REPORT), log=tmp_path / "log", name="report") as program:
        assert program.wait(10) == 0
        assert program.log_tail(1) == f"{sorted(os.sched_getaffinity(0))} {hard} {hard}"


def test_it_leads_a_session_of_its_own(tmp_path: Path) -> None:
    """So that Ctrl-C in the harness's terminal is the harness's alone to act on."""
    with Program(python(DEAF), log=tmp_path / "log", name="deaf", pipes=True) as program:
        assert line(program) == "deaf"
        assert os.getsid(program.pid) == program.pid != os.getsid(parent(program.pid)) != os.getsid(0)


def test_signals_arrive_with_their_default_action(tmp_path: Path) -> None:
    with Program(
        ["/bin/sh", "-c", "grep SigIgn /proc/self/status"], log=tmp_path / "log", name="sh"
    ) as program:
        program.wait(10)
        # Signals 1 to 31; the real-time ones are the C library's, and come as our own parent left them.
        assert int(program.log_tail(1).split()[1], 16) & 0x7FFF_FFFF == 0


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("", 0, "exit status 0"),
        ("raise SystemExit(3)", 3, "exit status 3"),
        ("import os; os.kill(os.getpid(), 15)", 143, "killed by SIGTERM"),
        ("import os; os.kill(os.getpid(), 9)", 137, "killed by SIGKILL"),
    ],
)
def test_exit_status_passes_on(tmp_path: Path, code: str, status: int, words: str) -> None:
    with Program(python(code), log=tmp_path / "log", name="it") as program:
        assert program.wait(10) == status == program.poll()
    assert describe(status) == words


def test_what_cannot_start_is_the_fault_of_whom_the_caller_says(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match=r"load could not be started: /no/such: .*No such file"):
        Program(["/no/such"], log=tmp_path / "log", name="load", fault=GeneratorError)
    with pytest.raises(MeasurementError, match="maximum limit"):
        Program(python(""), log=tmp_path / "log", name="greedy", descriptors=1 << 30)


def test_stop_lets_it_finish_within_its_grace(tmp_path: Path) -> None:
    with Program(python(POLITE), log=tmp_path / "log", name="polite", pipes=True) as program:
        assert line(program) == "up"
        assert program.poll() is None
        assert program.stop(grace_s=30) == 7


def test_stop_kills_what_ignores_its_grace(tmp_path: Path) -> None:
    with Program(python(DEAF), log=tmp_path / "log", name="deaf", pipes=True) as program:
        assert line(program) == "deaf"
        assert program.stop(grace_s=0.2) == 128 + signal.SIGKILL
        assert not alive(program.pid)


def test_stop_after_the_end_is_the_end(tmp_path: Path) -> None:
    with Program(python("raise SystemExit(5)"), log=tmp_path / "log", name="brief") as program:
        program.wait(10)
        assert program.stop(1) == program.stop(1) == program.kill() == 5


def test_a_daemon_does_not_outlive_its_command(tmp_path: Path) -> None:
    with Program(python(DAEMON, "0.1"), log=tmp_path / "log", name="daemon", pipes=True) as program:
        daemon = int(line(program))
        assert program.wait(10) == 0
        assert not alive(daemon)


def test_leaving_by_an_exception_leaves_nothing(tmp_path: Path) -> None:
    pids: list[int] = []

    def interrupted() -> None:
        with Program(python(DAEMON, "60"), log=tmp_path / "log", name="daemon", pipes=True) as program:
            pids.extend([program.pid, int(line(program))])
            assert all(map(alive, pids))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not any(map(alive, pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_harness(tmp_path: Path, number: signal.Signals) -> None:
    """Also when the whole process group of the harness is killed, as a CI system does."""
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, DAEMON, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with harness:
        assert harness.stdout is not None
        pids = [int(word) for word in harness.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        os.killpg(harness.pid, number)
    assert within(10, lambda: not any(map(alive, pids)))


def test_nothing_outlives_a_harness_that_died_before_it_knew_the_pid() -> None:
    status_r, status_w = os.pipe()
    control_r, control_w = os.pipe()
    options = {"status_fd": status_w, "control_fd": control_r, "cpus": None, "descriptors": None}
    os.close(status_r)
    argv = [sys.executable, "-S", "-E", leash.__file__, json.dumps(options), "--", *python(DAEMON, "60")]
    with subprocess.Popen(
        argv, pass_fds=(status_w, control_r), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as it:
        it.communicate(timeout=10)  # returns when nobody holds the pipes any more
    assert it.returncode != 0
    for fd in (status_w, control_r, control_w):
        os.close(fd)


def test_the_command_does_not_outlive_its_leash(tmp_path: Path) -> None:
    with Program(python(DEAF), log=tmp_path / "log", name="deaf", pipes=True) as program:
        assert line(program) == "deaf"
        os.kill(parent(program.pid), signal.SIGKILL)
        assert within(10, lambda: not alive(program.pid))
        assert program.poll() is not None


def test_the_leash_ignores_signals_meant_for_the_harness(tmp_path: Path) -> None:
    with Program(python(DEAF), log=tmp_path / "log", name="deaf", pipes=True) as program:
        assert line(program) == "deaf"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(parent(program.pid), number)
        assert program.wait(0.3) is None
        assert alive(program.pid)


def test_text_goes_both_ways_and_stderr_to_the_log(tmp_path: Path) -> None:
    echo = "import sys; print(input()[::-1], flush=True); print('gone wrong', file=sys.stderr); sys.exit(1)"
    with Program(python(echo), log=tmp_path / "log", name="echo", pipes=True) as program:
        assert program.stdin is not None
        print("go", file=program.stdin, flush=True)
        assert line(program) == "og"
        program.wait(10)
        message = str(program.failure("left"))
    assert message.startswith("echo left (exit status 1); log: ")
    assert message.endswith("\ngone wrong")


def test_log_tail_is_the_last_lines(tmp_path: Path) -> None:
    with Program(python("for i in range(30_000): print(i)"), log=tmp_path / "log", name="talker") as program:
        program.wait(10)
        assert program.log_tail(3) == "29997\n29998\n29999"


def test_descendants_are_found_by_parent_ids(tmp_path: Path) -> None:
    with Program(python(DEAF), log=tmp_path / "log", name="deaf", pipes=True) as program:
        assert line(program) == "deaf"
        assert program.pid in leash.descendants(os.getpid())
        assert leash.descendants(program.pid) == set()
