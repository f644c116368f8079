"""The generator alone against the upstream, and stock Locust at the same rate: CPU and memory, side by side."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness import loadgen, pod, statistics
from harness.errors import GeneratorError
from harness.preflight import Host
from harness.program import Program

RATE_RPS = 450
LLM_S = 20.0
SPACING_S = 20.5  # of a stock user's requests: a little above W, or it falls behind
RAMP_S, WINDOW_S = 25.0, 40.0
STOCK = Path(__file__).with_name("stock_locust.py")


class Cost(msgspec.Struct, frozen=True):
    """What a generator took for one request, and what it said of the latency (truth: LLM_S)."""

    requests: int
    failures: int
    cpu_s_per_request: float
    rss_peak_bytes: int
    p99_s: float
    send_lag_p99_s: float | None = None


def ours() -> Cost:
    """Our generator, as an experiment runs it."""
    with _upstream() as (port, directory, cpu):
        plan = {
            "host": pod.HOST, "port": port, "path": "/wait", "arrivals": "constant", "rate_rps": RATE_RPS,
            "warmup_s": RAMP_S, "window_s": WINDOW_S, "drain_s": 25.0, "timeout_s": 60.0,
            "directory": str(directory), "sources": pod.sources(4),
        }  # fmt: skip
        file = directory / "plan.json"
        file.write_text(json.dumps(plan))
        argv = [sys.executable, "-m", "harness.generator", str(file)]
        log = directory / "generator.log"
        with Program(
            argv, log=log, name="the generator", cpus={cpu}, pipes=True, fault=GeneratorError
        ) as program:
            events = loadgen.Events(program)
            events.expect("ready", 60)
            events.go()
            while (event := events.next(60)) is None or event["event"] != "done":
                continue
        requests = loadgen.read_columns([Path(name) for name in event["files"]])
        return _cost(event["workers"][0], requests)


def _cost(account: dict[str, Any], requests: dict[str, Any]) -> Cost:
    inside = requests["due_s"] >= RAMP_S
    ok = inside & (requests["outcome"] == "ok")
    latency = statistics.percentile((requests["done_s"] - requests["sent_s"])[ok], 99)
    lag = statistics.percentile((requests["sent_s"] - requests["due_s"])[inside], 99)
    return Cost(
        requests=int(np.sum(inside)),
        failures=int(np.sum(inside & ~ok)),
        cpu_s_per_request=account["cpu_window_s"] / int(np.sum(inside)),
        rss_peak_bytes=account["rss_peak_bytes"],
        p99_s=latency.value or 0.0,
        send_lag_p99_s=lag.value,
    )


def stock() -> Cost:
    """Locust's own FastHttpUser, at the same rate and in the same time."""
    with _upstream() as (port, directory, cpu):
        users = int(RATE_RPS * SPACING_S)
        argv = [
            sys.executable,
            "-m",
            "locust",
            "-f",
            str(STOCK),
            "--headless",
            "--only-summary",
            "--reset-stats",
        ]
        argv += ["--host", f"http://{pod.HOST}:{port}", "--users", str(users), "--spawn-rate", str(RATE_RPS)]
        argv += ["--run-time", f"{RAMP_S + WINDOW_S:.0f}s", "--stop-timeout", "25"]
        log = directory / "stock.log"
        env = {**os.environ, "SPACING_S": str(SPACING_S)}
        with Program(argv, log=log, name="locust", cpus={cpu}, env=env, fault=GeneratorError) as program:
            program.wait(RAMP_S + WINDOW_S + 60)
            found = [line for line in program.log_tail(200).splitlines() if line.startswith('{"requests"')]
            if not found:
                raise program.failure("said nothing of its cost")
            return msgspec.json.decode(found[-1], type=Cost)


@contextmanager
def _upstream() -> Iterator[tuple[int, Path, int]]:
    """An upstream on the first CPU; its port, a scratch directory, and the CPU that is left for a generator."""
    cpus = Host.here().cpus
    with tempfile.TemporaryDirectory(prefix="pods-per-lambda-") as scratch:
        directory = Path(scratch)
        port = pod.free_port()
        argv = [sys.executable, "-m", "harness.upstream", "--port", str(port), "--llm", f"{LLM_S} s"]
        argv += ["--metrics", str(directory / "metrics")]
        with Program(argv, log=directory / "upstream.log", name="the upstream", cpus={cpus[0]}) as program:
            pod.await_port(program, port)
            yield port, directory, cpus[-1]
