"""What `make perf` writes: a figure beside its goal, and no figure of an invalid run."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import make_run

from harness.perf import __main__ as perf
from harness.perf.figure import at_most


def test_a_figure_reaches_its_goal_or_does_not_and_unmeasured_is_not_reached() -> None:
    assert at_most("c", "x", 0.5, "", 0.5).reached is True
    assert at_most("c", "x", 0.51, "", 0.5).reached is False
    assert at_most("c", "x", None, "", 0.5).reached is False


def test_an_invalid_run_has_no_figures() -> None:
    (only,) = perf.costs("case", make_run(failed_checks=("drift",)), 8)
    assert only.reached is False
    assert "drift" in only.note


def test_a_valid_run_is_held_against_its_goals() -> None:
    figures = {figure.what: figure for figure in perf.costs("case", make_run(each_bytes=6_400), 8)}
    assert figures["memory a request in flight"].reached is True
    assert figures["memory a request in flight"].value == pytest.approx(6.4, rel=0.1)
    without_goals = perf.costs("case", make_run(), None)
    assert all(figure.reached is None for figure in without_goals)


def test_the_table_says_what_was_not_measured() -> None:
    text = perf.markdown([at_most("c", "x", None, "ms", 2), at_most("c", "y", 1, "ms", 2)])
    assert "| c | x | not measured | ≤ 2 | NO |  |" in text
    assert "| c | y | 1 ms | ≤ 2 | yes |  |" in text


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert perf.main(["speed"]) == 2
    assert "generator, pool" in capsys.readouterr().err


def test_writing_replaces_whole_files(tmp_path: Path) -> None:
    file = tmp_path / "perf.md"
    perf.write(file, b"one")
    perf.write(file, b"two")
    assert file.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [file]
