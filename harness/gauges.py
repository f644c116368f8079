"""Reads the gauges of servers and of the upstream from outside, so that a loop that is pinned still reports.

They are written by prometheus_client's multiprocess mode (environment variable PROMETHEUS_MULTIPROC_DIR): a
memory-mapped file per process and kind of metric, appended to, its used length written last. So a file can be
read while it grows; one that is just being created has no length yet, and reads as empty.

Beside them stand `gc_PID.log` files: one record per garbage collection, `GC_RECORD`.
"""

from __future__ import annotations

import contextlib
import json
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client.mmap_dict import MmapedDict

# struct "<ddB": end on the monotonic clock, seconds it took, generation.
GC_RECORD = np.dtype([("end_s", "<f8"), ("pause_s", "<f8"), ("generation", "u1")])

GcPauses = npt.NDArray[np.void]


@lru_cache(maxsize=4096)
def sample_name(key: str) -> str:
    """`name` or `name{label="value"}` of a key in a metrics file, a JSON [metric, sample, labels, help]."""
    _, sample, labels, _ = json.loads(key)
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{sample}{{{inside}}}" if inside else str(sample)


def read(directory: Path) -> dict[str, float]:
    """All samples in a directory, summed over its processes, those that have ended included.

    A directory that does not exist is that of a target without gauges: no samples.
    """
    totals: dict[str, float] = {}
    for path in directory.glob("*.db"):
        with contextlib.suppress(FileNotFoundError, struct.error):  # removed, or just being created
            for key, value, _, _ in MmapedDict.read_all_values_from_file(path):
                name = sample_name(key)
                totals[name] = totals.get(name, 0.0) + value
    return totals


def gc_pauses(directory: Path) -> GcPauses:
    """The garbage collections of all processes, an array of `GC_RECORD` in the order in which they ended."""
    records: list[np.ndarray[Any, Any]] = []
    for path in directory.glob("gc_*.log"):
        data = path.read_bytes()
        whole = len(data) // GC_RECORD.itemsize  # the last one may be half written
        records.append(np.frombuffer(data, GC_RECORD, count=whole))
    pauses = np.concatenate(records) if records else np.empty(0, GC_RECORD)
    return pauses[np.argsort(pauses["end_s"], kind="stable")]
