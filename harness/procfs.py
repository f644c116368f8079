"""What Linux tells of processes, sockets and CPUs in /proc: parsers of its text, and readers above them.

Rules:

- Parsers are pure functions of one file's text; readers open the file and call them.
- A process may end between two reads: a reader of one returns None when nothing is left to read.
- Units are the file's, turned into ours here and nowhere else: seconds and bytes.

psutil is not used, although the project has it: it opens a file per attribute, builds an object per process
and sample, and counts descriptors by listing them: 16 ms for 10,000.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
KIB = 1024


class Stat(NamedTuple):
    """/proc/PID/stat. `start` (ticks since boot) tells two processes of the same pid apart."""

    pid: int
    name: str
    state: str
    ppid: int
    cpu_s: float  # user + system, of all its threads, also those that have ended
    children_cpu_s: float  # of the children it has waited for, and of theirs
    threads: int
    start: int


class Status(NamedTuple):
    """/proc/PID/status. A zombie has no memory: `rss_bytes` is 0 then."""

    threads: int
    rss_bytes: int


def parse_stat(text: str) -> Stat:
    """Fields by proc(5); the name may hold spaces and parentheses, so the last one closes it."""
    pid, _, rest = text.partition(" (")
    name, _, rest = rest.rpartition(") ")
    fields = rest.split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return Stat(
        pid=int(pid),
        name=name,
        state=fields[0],
        ppid=int(fields[1]),
        cpu_s=(user + system) * TICK_S,
        children_cpu_s=(children_user + children_system) * TICK_S,
        threads=int(fields[17]),
        start=int(fields[19]),
    )


def _values(text: str) -> dict[str, str]:
    """`Key:   12 kB` lines as a mapping; lines of another form are left out."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, colon, value in pairs if colon}


def _kib(value: str | None) -> int:
    return 0 if value is None else int(value.removesuffix(" kB")) * KIB


def parse_status(text: str) -> Status:
    """Recent kernels sum VmRSS exactly for this file; `stat` leaves out what a CPU has not added up yet."""
    values = _values(text)
    return Status(threads=int(values["Threads"]), rss_bytes=_kib(values.get("VmRSS")))


def parse_pss(text: str) -> int:
    """Proportional set size in bytes, from /proc/PID/smaps_rollup: shared pages are split among users."""
    return _kib(_values(text).get("Pss"))


def parse_netstat(text: str) -> dict[str, int]:
    """TcpExt counters of /proc/net/netstat, which has a line of names above each line of values."""
    lines = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    if len(lines) != 2:
        return {}
    names, values = lines
    return dict(zip(names[1:], map(int, values[1:]), strict=True))


def parse_steal_s(text: str) -> float:
    """Seconds that a hypervisor took from all CPUs together, from the first line of /proc/stat."""
    return int(text.split(maxsplit=9)[8]) * TICK_S


def tree(roots: Iterable[tuple[int, int]], processes: Mapping[int, Stat]) -> dict[int, Stat]:
    """The processes with these (pid, start) that are still there, and all below them, by pid.

    By parent ids, because the kernel's own lists (/proc/PID/task/*/children) are a build option.
    """
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found: dict[int, Stat] = {}
    queue = [pid for pid, start in roots if pid in processes and processes[pid].start == start]
    while queue:
        pid = queue.pop()
        if pid not in found:
            found[pid] = processes[pid]
            queue += children.get(pid, ())
    return found


def _read(path: Path | str) -> str | None:
    """Its text, None if the process is gone. Latin-1: a process may call itself by any bytes."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode("latin-1")
    except (FileNotFoundError, ProcessLookupError):
        return None


def read_stat(pid: int) -> Stat | None:
    text = _read(f"{PROC}/{pid}/stat")
    return parse_stat(text) if text else None


def read_processes() -> dict[int, Stat]:
    """Every process of the machine, by pid."""
    stats = (read_stat(int(name)) for name in os.listdir(PROC) if name.isdecimal())
    return {stat.pid: stat for stat in stats if stat is not None}


def read_status(pid: int) -> Status | None:
    text = _read(f"{PROC}/{pid}/status")
    return parse_status(text) if text else None


def read_pss_bytes(pid: int) -> int | None:
    """Walks every mapping under the process's memory lock: dear with thousands of thread stacks."""
    text = _read(f"{PROC}/{pid}/smaps_rollup")
    return None if text is None else parse_pss(text)


def read_descriptors(pid: int) -> int | None:
    """How many descriptors are open: the size of the folder since Linux 6.2, before that by listing it."""
    folder = f"{PROC}/{pid}/fd"
    try:
        return os.stat(folder).st_size or len(os.listdir(folder))
    except (FileNotFoundError, ProcessLookupError):
        return None


def read_netstat() -> dict[str, int]:
    """TcpExt counters of this network namespace."""
    return parse_netstat(_read(PROC / "net/netstat") or "")


def read_steal_s() -> float:
    return parse_steal_s(_read(PROC / "stat") or "")
