"""How long a report of 40 full-length runs takes: `PYTHONPATH=tests python tests/harness/report/time_report.py`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from synthetic_runs import GEVENT, THREADS, TRIO, Pod, published

from harness.report import generate


def forty() -> Iterator[Pod]:
    """Conditions as a full bench with its sweeps leaves them."""
    for repeat in range(3):
        pool = replace(THREADS, repeat=repeat, cpu_s_per_request=1.2e-3)
        yield replace(pool, rate_rps=9.7)
        yield replace(pool, rate_rps=12, regime="saturated")
        for pod in (Pod(), TRIO, GEVENT):
            yield replace(pod, repeat=repeat, rate_rps=450, pause_s=0.4)
            yield replace(pod, repeat=repeat, rate_rps=450, options={**pod.options, "gc": "off"})
        yield replace(Pod(), repeat=repeat, rate_rps=450, options={**Pod().options, "loop": "uvloop"})
    for threads in (50, 1_000, 9_500):
        swept = replace(THREADS, options={**THREADS.options, "threads": threads}, pool=threads)
        yield replace(swept, rate_rps=round(0.97 * threads / 20.02, 2))
        yield replace(swept, rate_rps=round(1.1 * threads / 20.02, 2), regime="saturated")
    for w_s in (0.04, 2.0, 60.0):
        yield replace(Pod(), w_s=w_s, rate_rps=450)
    for workers in (2, 3, 4, 6):
        yield replace(Pod(), rate_rps=450, workers=workers, workers_asked=workers)


def main() -> None:
    """Write the runs into a scratch directory (or the one given) and time the report."""
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)
        pods = list(forty())
        for pod in pods:
            published(results, pod)
        started = time.perf_counter()
        files = generate(results)
        print(f"{len(pods)} runs, {len(files)} files: {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
