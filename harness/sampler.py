"""Looks at the pod, the upstream, the generator and the kernel once a second, from a thread of its own.

Rules:

- Samples are due at t0 + k × period on the monotonic clock, and each says when it was taken (`t_s`). One that
  could not be taken before the next was due is counted in `missed`, and never made up.
- NaN where something was not measured, and only there.
- Cumulative columns stay cumulative: who reads a window takes differences.
- Nothing here may disturb what it measures: all of it from outside, and PSS only where it is cheap.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness import gauges, procfs
from harness.errors import MeasurementError

PSS_THREADS_MAX = 1000  # above, the walk over the stacks' mappings holds the memory lock for too long

# Column: the samples of the pod's metrics files that it adds up; "name{" is all of them, whatever their labels.
POD_GAUGES = {
    "in_flight": ("http_server_active_requests",),
    "waiting": ("http_server_waiting_requests",),
    "upstream_in_flight": ("http_client_active_requests",),
    "handled_total": ("http_server_request_duration_seconds_count",),
    "handled_seconds_total": ("http_server_request_duration_seconds_sum",),
    "permits": ("pod_permits",),
    "permits_in_use": ("pod_permits_in_use",),
    "pins_total": ("server_pins_total{",),
    "pinned_seconds_total": ("server_pinned_seconds_total{",),
    "connections_used": ("db_client_connection_used",),
    "connections_waiting": ("db_client_connection_pending_requests",),
    "upstream_errors_total": ('http_server_requests_total{outcome="upstream_error"}',),
}
UPSTREAM_GAUGES = {
    "upstream_search_total": ('upstream_requests_total{route="search"}',),
    "upstream_chat_total": ('upstream_requests_total{route="chat"}',),
    "upstream_active": (
        'upstream_active_requests{route="search"}',
        'upstream_active_requests{route="chat"}',
    ),
    "upstream_aborted_total": (
        'upstream_aborted_total{route="search"}',
        'upstream_aborted_total{route="chat"}',
    ),
}
# Column: the counter of /proc/net/netstat; they are the machine's, not the pod's.
KERNEL_COUNTERS = {
    "listen_overflows": "ListenOverflows",
    "syn_retransmits": "TCPSynRetrans",
    "paws_timewait": "PAWSTimewait",
    "tw_recycled": "TWRecycled",
}
POD_COLUMNS = (
    "rss_bytes",
    "pss_bytes",
    "cpu_s",
    "os_threads",
    "descriptors",
    "descriptors_fullest",
    "processes",
)
COLUMNS = (
    "t_s",
    *POD_COLUMNS,
    *POD_GAUGES,
    *UPSTREAM_GAUGES,
    *KERNEL_COUNTERS,
    "cpu_steal_s",
    "upstream_rss_bytes",
    "upstream_cpu_s",
    "generator_rss_bytes",
    "generator_cpu_s",
    "harness_cpu_s",  # of this very process
)

Columns = dict[str, npt.NDArray[np.float64]]


class Tree:
    """A process and all that descends from it, followed also when orphans are adopted outside of it.

    `cpu_s` is its CPU time, user and system, since its processes began. It never falls: what a process has
    used counts on after its end, once, be it in its parent's account of waited-for children or, where nobody
    waited, in ours. (Of a process that nobody waits for, what it used after the last update is lost.)
    """

    def __init__(self, root: procfs.Stat | None) -> None:
        """`root` None is a process that has ended already: an empty tree."""
        self._seen = {} if root is None else {(root.pid, root.start): root}
        self._lost_s = 0.0
        self.cpu_s = 0.0

    def members(self, processes: Mapping[int, procfs.Stat]) -> list[procfs.Stat]:
        """Its members among `processes` (all of the machine), zombies included."""
        return list(procfs.tree(list(self._seen), processes).values())

    def update(self, processes: Mapping[int, procfs.Stat]) -> list[procfs.Stat]:
        """Bring `cpu_s` up to date; its members that are alive."""
        now = {(stat.pid, stat.start): stat for stat in self.members(processes)}
        ended = [stat for key, stat in self._seen.items() if key not in now]
        stayed = [(self._seen[key], stat) for key, stat in now.items() if key in self._seen]
        gone_s = sum(stat.cpu_s + stat.children_cpu_s for stat in ended)
        inherited_s = sum(stat.children_cpu_s - before.children_cpu_s for before, stat in stayed)
        self._lost_s += max(0.0, gone_s - inherited_s)
        self._seen = now
        self.cpu_s = self._lost_s + sum(stat.cpu_s + stat.children_cpu_s for stat in now.values())
        return [stat for stat in now.values() if stat.state != "Z"]


def next_tick(tick: int, elapsed_s: float, period_s: float) -> int:
    """The first tick after `tick` that is not over yet, `elapsed_s` after tick 0."""
    return max(tick + 1, math.ceil(elapsed_s / period_s))


def total(samples: Mapping[str, float], names: tuple[str, ...]) -> float:
    """The sum of those samples that are there, NaN if none is."""
    whole = tuple(name for name in names if name.endswith("{"))
    present = [
        value for name, value in samples.items() if name in names or (whole and name.startswith(whole))
    ]
    return sum(present) if present else math.nan


def rss_bytes(members: list[procfs.Stat]) -> float:
    """Resident set sizes added up (shared pages count in each process), NaN without a process."""
    sizes = [status.rss_bytes for stat in members if (status := procfs.read_status(stat.pid))]
    return sum(sizes) if sizes else math.nan


def pss_bytes(members: list[procfs.Stat]) -> float:
    """Proportional set sizes added up, NaN without a process."""
    sizes = [size for stat in members if (size := procfs.read_pss_bytes(stat.pid)) is not None]
    return sum(sizes) if sizes else math.nan


def pod_row(members: list[procfs.Stat]) -> dict[str, float]:
    """The pod's columns but for `cpu_s`; PSS is left out where one process has too many threads."""
    cheap = all(stat.threads < PSS_THREADS_MAX for stat in members)
    descriptors = [procfs.read_descriptors(stat.pid) or 0 for stat in members]
    return {
        "rss_bytes": rss_bytes(members),
        "pss_bytes": pss_bytes(members) if cheap else math.nan,
        "os_threads": sum(stat.threads for stat in members),
        "descriptors": sum(descriptors),
        "descriptors_fullest": max(descriptors, default=math.nan),
        "processes": len(members),
    }


class Sampler:
    """Samples from `start` (or `with`) to `stop`, which returns the columns.

    `missed` counts the samples that were due and could not be taken.
    """

    def __init__(
        self,
        pod: int,
        *,
        upstream: int | None = None,
        generator: int | None = None,
        pod_metrics: Path | None = None,
        upstream_metrics: Path | None = None,
        period_s: float = 1.0,
    ) -> None:
        """Pids of the trees to follow, and the directories that their gauges are in; None for what is not."""
        self.missed = 0
        self._pod = Tree(procfs.read_stat(pod))
        parts = {"upstream": upstream, "generator": generator}
        self._parts = {name: Tree(procfs.read_stat(pid)) for name, pid in parts.items() if pid is not None}
        self._gauges = [
            (directory, table)
            for directory, table in ((pod_metrics, POD_GAUGES), (upstream_metrics, UPSTREAM_GAUGES))
            if directory is not None
        ]
        self._period_s = period_s
        self._values = array("d")
        self._latest: dict[str, float] = {}
        self._error: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def snapshot(self) -> Mapping[str, float]:
        """The latest sample by column, empty before the first. Raises MeasurementError if sampling failed."""
        if self._error is not None:
            raise MeasurementError(f"the sampler failed: {self._error!r}") from self._error
        return self._latest

    def stop(self) -> Columns:
        """End sampling; an array per name in COLUMNS, an item per sample. Raises as `snapshot` does.

        The last sample is taken now, off the grid, so that cumulative columns end with the whole run's totals.
        """
        self._stopping.set()
        self._thread.join()
        self.snapshot()
        self._keep(self.sample())
        rows = np.array(self._values, dtype=np.float64).reshape(-1, len(COLUMNS))
        return {name: rows[:, index].copy() for index, name in enumerate(COLUMNS)}

    def pod_pss_bytes(self) -> float:
        """The pod's PSS now, however many threads it has: for the start and the end of a window."""
        return pss_bytes(self._pod.members(procfs.read_processes()))

    def sample(self) -> dict[str, float]:
        """One row: what `start` does at each tick."""
        row = dict.fromkeys(COLUMNS, math.nan)
        row["t_s"] = time.monotonic()
        processes = procfs.read_processes()
        row |= pod_row(self._pod.update(processes))
        row["cpu_s"] = self._pod.cpu_s
        for name, part in self._parts.items():
            row[f"{name}_rss_bytes"] = rss_bytes(part.update(processes))
            row[f"{name}_cpu_s"] = part.cpu_s
        for directory, table in self._gauges:
            samples = gauges.read(directory)
            row |= {column: total(samples, names) for column, names in table.items()}
        counters = procfs.read_netstat()
        row |= {column: counters.get(name, math.nan) for column, name in KERNEL_COUNTERS.items()}
        row["cpu_steal_s"] = procfs.read_steal_s()
        row["harness_cpu_s"] = time.process_time()
        return row

    def _keep(self, row: Mapping[str, float]) -> None:
        self._values.extend(row[name] for name in COLUMNS)

    def _run(self) -> None:
        t0_s, tick = time.monotonic(), 0
        try:
            while not self._stopping.wait(max(0.0, t0_s + tick * self._period_s - time.monotonic())):
                self._latest = self.sample()
                self._keep(self._latest)
                following = next_tick(tick, time.monotonic() - t0_s, self._period_s)
                self.missed += following - tick - 1
                tick = following
        except Exception as error:  # noqa: BLE001  a thread's error is nobody's: stop() raises it
            self._error = error
