"""The harness as a process of its own, and targets that are broken in known ways."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]

SHORT = """
[load]
rate = "60/s"
warmup = "1.3 s"
window = "2.4 s"
drain = "2 s"
timeout = "4 s"

[upstream]
vector = "1 ms"
llm = "1.2 s"

[limits]
send_lag_p99 = "200 ms"
little_share = 0.3
drift_share_of_w = 0.2
throughput_share = 0.2
saturation_share = 0.8
samples_missed_share = 0.5
cpu_shared_share = 1.0
cpu_steal_share = 1.0
kernel_events = 50
"""

# A server that never asks its upstream anything.
TARGETS = """
[instant]
model = "instant"
command = ["{python}", "-c", '''
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("{host}", int("{port}")), Handler).serve_forever()
''']

[lost]
model = "asyncio"
command = ["{python}", "-m", "servers", "asyncio", "--host", "{host}", "--port", "{port}",
           "--upstream", "127.0.0.1:9", "--metrics", "{metrics}"]
gauges = true

[absent]
model = "absent"
command = ["/nonexistent/server", "--port", "{port}"]

[crash]
model = "crash"
command = ["{python}", "-c", "import sys; sys.exit('no module named weights')"]
"""


@dataclass
class Harness:
    """One `harness` command under way; everything it starts is remembered."""

    process: subprocess.Popen[str]
    results: Path
    log: Path
    family: dict[int, psutil.Process] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)

    def look(self) -> None:
        """Remember the processes and listening ports that there are now."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                self.family[process.pid] = process
                self.ports |= {c.laddr.port for c in process.net_connections() if c.status == "LISTEN"}
            except psutil.Error:
                continue

    def wait_for(self, text: str, seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        self.look()

    def find(self, *words: str) -> psutil.Process:
        """The first descendant whose command line has all of `words`, leashes apart."""
        self.look()
        for process in self.family.values():
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if "leash.py" not in line and all(word in line for word in words):
                return process
        raise AssertionError(f"no process with {words}")

    def end(self, seconds: float = 60) -> tuple[int, str]:
        """The exit code, and what it said on stderr."""
        return self.process.wait(seconds), self.log.read_text()

    def leftovers(self, seconds: float = 8) -> list[psutil.Process]:
        """Processes of the family that still run after a while."""
        _, alive = psutil.wait_procs([p for p in self.family.values() if p.is_running()], timeout=seconds)
        return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


Begin = Callable[..., Harness]
