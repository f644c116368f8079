"""Where and from what a run was made: machine, versions, commit, and a hash of the source at both ends."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from harness.run import Machine
from harness.spelling import ROOT

PACKAGES = (
    "aiohttp",
    "gevent",
    "h11",
    "httptools",
    "locust",
    "prometheus-client",
    "psycopg",
    "trio",
    "uvloop",
)
SOURCES = ("harness", "servers", "scenarios")
SUFFIXES = (".py", ".toml")
READERS = ROOT / "harness" / "report"  # reads runs, and has no part in them


def machine() -> Machine:
    """This machine; its class names what absolute figures depend on, and nothing that changes at a reboot."""
    cpus = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    model = _cpu_model()
    python = platform.python_version()
    return Machine(
        cpus=cpus,
        model_name=model,
        memory_bytes=memory,
        kernel=platform.release(),
        python=f"{platform.python_implementation()} {python}",
        class_name=f"{platform.machine()}, {model}, {cpus} CPUs, {round(memory / 2**30)} GiB",
    )


def versions() -> dict[str, str]:
    """The installed versions that figures depend on."""
    return {name: metadata.version(name) for name in PACKAGES}


def commit() -> tuple[str | None, bool | None]:
    """The commit and whether files differ from it; None outside git."""
    head = _git("rev-parse", "HEAD")
    if head is None:
        return None, None
    # Results are what runs make, not what makes them.
    return head, bool(_git("status", "--porcelain", "--untracked-files=no", "--", ":!results"))


def source_hash(root: Path = ROOT) -> str:
    """SHA-256 over the names and contents of the code and the scenarios."""
    digest = hashlib.sha256()
    for path in _files(root):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _files(root: Path) -> Iterable[Path]:
    found = (path for name in SOURCES for path in (root / name).rglob("*") if path.suffix in SUFFIXES)
    return sorted(path for path in found if READERS not in path.parents)


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ("git", "-C", str(ROOT), *arguments), capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown CPU"
