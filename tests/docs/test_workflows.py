"""The workflows: what they call exists, and the gate's exit codes end a job as they should."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from harness.cli import main
from harness.gate import EXIT_CODES
from harness.spelling import ROOT

OF_USERS = ROOT / "docs" / "github-workflow.yml"
FILES = (OF_USERS, ROOT / ".github" / "workflows" / "ci.yml")
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def workflow(file: Path) -> dict[Any, Any]:
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def scripts(file: Path) -> Iterator[str]:
    for job in workflow(file)["jobs"].values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


def gate_step() -> dict[str, Any]:
    (job,) = workflow(OF_USERS)["jobs"].values()
    (step,) = (step for step in job["steps"] if "harness gate" in step.get("run", ""))
    assert isinstance(step, dict)
    return step


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_workflow_asks_for_little_and_ends(file: Path) -> None:
    found = workflow(file)
    assert found["permissions"] == {"contents": "read"}
    assert True in found  # YAML 1.1 reads the key "on" so
    for job in found["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert all(
            re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step
        )
        checkout = next(step for step in job["steps"] if "checkout" in step.get("uses", ""))
        assert checkout["with"]["fetch-depth"] == 0, "a base that is not there cannot be run"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_scripts_call_what_there_is_and_let_nothing_in(file: Path) -> None:
    for script in scripts(file):
        assert "${{" not in script, "a branch's name would be run as a command: pass it as env"
        for target in re.findall(r"^\s*make ([\w-]+)", script, re.MULTILINE):
            assert target in MAKE_TARGETS
        for path in re.findall(r"^bash (\S+)", script, re.MULTILINE):
            assert (ROOT / path).is_file()


def test_the_gate_is_called_as_the_command_wants_it() -> None:
    (line,) = (line for line in gate_step()["run"].splitlines() if "harness gate" in line)
    words = shlex.split(line.partition("||")[0])
    command = main.commands["gate"]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
    assert set(gate_step()["env"]) == {"MODEL", "BASE"}


@pytest.mark.parametrize(
    ("word", "ends", "said"),
    [
        ("pass", 0, ""),
        ("inconclusive", 0, "::warning "),
        ("regressed", 7, "::error "),
        ("invalid", 3, "::error "),
        ("no such option", 2, "::error "),
    ],
)
def test_each_verdict_ends_the_job_as_it_should(tmp_path: Path, word: str, ends: int, said: str) -> None:
    """The step's own script, with a gate that ends as told; GitHub runs it by `bash -e`."""
    harness = tmp_path / ".venv" / "bin" / "harness"
    harness.parent.mkdir(parents=True)
    code = {str(name): code for name, code in EXIT_CODES.items()}.get(word, 2)
    harness.write_text(f'#!/bin/sh\n[ "$*" = "gate trio --base-ref abc" ] && exit {code}\nexit 99\n')
    harness.chmod(0o755)
    done = subprocess.run(
        ["bash", "-e", "-c", gate_step()["run"]],
        cwd=tmp_path,
        env={**os.environ, "MODEL": "trio", "BASE": "abc"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ends
    assert done.stdout.startswith(said)
    assert bool(done.stdout) == bool(said)
    assert "trio" in done.stdout or not said


def test_the_readme_tells_the_exit_codes() -> None:
    _, _, gate = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Gate CI\n")
    told = re.findall(r"^\| (\w+) \| (\d+) \|", gate, re.MULTILINE)
    assert {word: int(code) for word, code in told} == dict(EXIT_CODES)
