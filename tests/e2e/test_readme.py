"""The README stays true: its commands run, its files work, its table of exit codes is the code's."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from harness_support import ROOT, SHORT

from harness import errors

pytestmark = pytest.mark.e2e
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


MANY_RUNS = ("sweep", "pinning", "admission", "capacity", "plan", "baseline", "gate")
COMMANDS = [line.strip() for block in blocks("sh") for line in block.splitlines() if line.strip()]


def sh(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        words,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PATH": path},
    )


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make ")])
def test_make_knows_each_target(command: str) -> None:
    words = shlex.split(command)
    assert sh([words[0], "--dry-run", *words[1:]], ROOT).returncode == 0


def test_harness_commands_run(tmp_path: Path) -> None:
    """As written, but on a short pipeline: an option given again at the end replaces the README's."""
    (tmp_path / "short.toml").write_text(SHORT)
    (tmp_path / "my_server.py").write_text(blocks("python")[0])
    (tmp_path / "mine.toml").write_text(blocks("toml")[0])
    shorter = ["--scenario", "short.toml", "--rate", "40"]
    ran = []
    for command in (c for c in COMMANDS if c.startswith("harness ")):
        words = shlex.split(command)
        if words[1] in ("run", "bench"):
            words += [*shorter, "--results", "results", *(["--runs", "1"] if words[1] == "bench" else [])]
        elif words[1] == "check":
            assert sh(words, tmp_path).returncode == 0, command
            words += shorter
        elif words[1] == "report":
            words += ["--results", "results"]
        elif words[1] in MANY_RUNS:  # that they are known is tested
            helped = sh([*words[:2], "--help"], tmp_path).stdout
            assert all(word in helped for word in words if word.startswith("--")), command
            continue
        elif words[1] == "show":
            words[2] = str(next(path for path in (tmp_path / "results" / "runs").iterdir() if path.is_dir()))
        done = sh(words, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        ran.append(words[1])
    assert {"run", "bench", "check", "show"} <= set(ran)


def test_the_pin_monitor_takes_one_line(tmp_path: Path) -> None:
    held = "import time; await asyncio.sleep(0); time.sleep(0.1); await asyncio.sleep(0)"
    (tmp_path / "service.py").write_text(blocks("python")[1].replace("await asyncio.sleep(1)", held))
    done = sh([sys.executable, "service.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "main held the loop for 0.1" in done.stderr
    assert "Pins(count=1" in done.stdout


def test_exit_codes_are_those_of_the_code() -> None:
    (line,) = (line for line in README.splitlines() if line.startswith("Exit codes:"))
    told = {int(code) for code in re.findall(r"\b\d+\b", line)}
    assert told == {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


def test_files_that_are_named_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target
