"""What a request is made to take on purpose: CPU work, and memory. For experiments; off unless asked for.

- The work is counted in CPU time of the thread, not on the clock: a thread that loses the interpreter's lock, or
  a pod that loses its CPU, still does all of it.
- It does not yield, as a computation in a handler does not: it holds a loop or hub for as long as it takes.
- The memory is written to, so that it is resident: what is only reserved costs nothing.
"""

from __future__ import annotations

import time


def shoulder(cpu_us: int, ballast_bytes: int) -> bytes:
    """Burn `cpu_us` µs of this thread's CPU time; the bytes returned are for the caller to hold on to."""
    if cpu_us:
        until_ns = time.thread_time_ns() + 1000 * cpu_us
        while time.thread_time_ns() < until_ns:
            pass
    return b"\1" * ballast_bytes
