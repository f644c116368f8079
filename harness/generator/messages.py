"""What workers and conductor say to each other, carried by Locust's own messages. Pure.

    worker -> conductor   READY     Ready
    conductor -> worker   START     Start
    worker -> conductor   PROGRESS  Progress, each second
    conductor -> worker   HALT      (nothing): send no more, report
    worker -> conductor   REPORT    Report, the last word
    worker -> conductor   BROKEN    Broken, instead of it

With one process both ends are on one runner, which hands a message to its listener at once; hence distinct
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

READY: Final = "harness-ready"
START: Final = "harness-start"
PROGRESS: Final = "harness-progress"
HALT: Final = "harness-halt"
REPORT: Final = "harness-report"
BROKEN: Final = "harness-broken"


class Ready(msgspec.Struct, frozen=True):
    """Schedule computed, collector frozen: only the start signal is missing."""

    index: int
    pid: int


class Start(msgspec.Struct, frozen=True):
    """The start signal: offset 0 is `t0_s` on the monotonic clock of the machine booted as `boot_id`."""

    t0_s: float
    lead_s: float
    boot_id: str

    def t0(self, now_s: float, boot_id: str) -> float:
        """Offset 0 on the receiver's clock, now at `now_s`; on another machine it counts from receipt."""
        return self.t0_s if boot_id == self.boot_id else now_s + self.lead_s


class Progress(msgspec.Struct, frozen=True):
    """One worker's counts up to now; planned is what has been due so far. `latencies_s` packs doubles."""

    index: int
    planned: int
    unsent: int
    completed: int
    failed: int
    in_flight: int
    latencies_s: bytes


class Account(msgspec.Struct, frozen=True):
    """What one worker did and what it cost: `cpu_window_s` lies between the window's start and end."""

    index: int
    pid: int
    cpu_s: float
    cpu_window_s: float
    rss_peak_bytes: int
    descriptors_peak: int
    gc_pause_max_s: float
    planned: int
    sent: int
    unsent: int


class Report(msgspec.Struct, frozen=True):
    """A worker's account and its packed columns."""

    account: Account
    columns: bytes


class Broken(msgspec.Struct, frozen=True):
    """A worker failed, by our own fault."""

    index: int
    detail: str


def dump(message: msgspec.Struct) -> Any:
    """A message as Locust carries it: builtins only."""
    return msgspec.to_builtins(message, builtin_types=(bytes,))


def boot_id() -> str:
    """Names the current boot of this machine: clocks that agree on it are the same monotonic clock."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def summed(reports: Sequence[Progress]) -> dict[str, int]:
    """The counts of all workers together; planned = sent + unsent, as in each of them."""
    names = ("planned", "unsent", "completed", "failed", "in_flight")
    total = {name: sum(getattr(report, name) for report in reports) for name in names}
    return total | {"sent": total["planned"] - total["unsent"]}


def median(values: Sequence[float]) -> float | None:
    """The nearest-rank median, None of nothing."""
    return sorted(values)[(len(values) - 1) // 2] if values else None
