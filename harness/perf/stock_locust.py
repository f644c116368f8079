"""Stock Locust as its users run it: FastHttpUser with constant_throughput. What our generator is compared with.

A closed model: each user asks at most once every SPACING_S, and that must exceed W, so rate × SPACING_S users are
needed; they start `rate` a second, which spreads their phases evenly. On quitting, one JSON line on stderr tells
what it cost from the moment when all users had started.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from locust import FastHttpUser, constant_throughput, events, task

SPACING_S = float(os.environ["SPACING_S"])


class Stock(FastHttpUser):
    """One user; the time-outs only have to be out of the way."""

    wait_time = constant_throughput(1 / SPACING_S)
    network_timeout = connection_timeout = 60.0

    @task
    def ask(self) -> None:
        self.client.get("/wait")


_began_cpu_s = 0.0


@events.spawning_complete.add_listener
def begin(**_: object) -> None:
    """`--reset-stats` counts requests from here on, so CPU is counted from here as well."""
    global _began_cpu_s
    _began_cpu_s = time.process_time()


@events.quitting.add_listener
def tell(environment: Any, **_: object) -> None:
    total = environment.stats.total
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    requests = total.num_requests
    line = {
        "requests": requests,
        "failures": total.num_failures,
        "cpu_s_per_request": (time.process_time() - _began_cpu_s) / requests if requests else None,
        "rss_peak_bytes": int(peak[1]) * 1024 if peak else None,
        "p99_s": total.get_response_time_percentile(0.99) / 1000,
    }
    print(json.dumps(line), file=sys.stderr)
