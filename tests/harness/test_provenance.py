"""Which code ran: the commit, and whether anything but results differs from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import provenance


def git(tree: Path, *words: str) -> str:
    named = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(
        ("git", "-C", str(tree), *named, *words), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_new_results_are_no_change_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert provenance.commit() == (None, None), "not a git checkout"
    git(tmp_path, "init", "-q")
    (tmp_path / "results").mkdir()
    code, result = tmp_path / "code.py", tmp_path / "results" / "table.csv"
    code.write_text("1")
    result.write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    head = git(tmp_path, "rev-parse", "HEAD")
    result.write_text("2")
    assert provenance.commit() == (head, False)
    code.write_text("2")
    assert provenance.commit() == (head, True)
