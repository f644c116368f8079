"""What `make perf` writes: a figure beside its goal, and no figure of an invalid run."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import make_run

from harness.perf import __main__ as perf
from harness.run import Run


def test_a_figure_reaches_its_goal_or_does_not_and_unmeasured_is_not_reached() -> None:
    assert perf.at_most("c", "x", 0.5, "", 0.5).reached is True
    assert perf.at_most("c", "x", 0.51, "", 0.5).reached is False
    assert perf.at_most("c", "x", None, "", 0.5).reached is False


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
    text = perf.markdown([perf.at_most("c", "x", None, "ms", 2), perf.at_most("c", "y", 1, "ms", 2)])
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


def test_the_pin_monitor_is_measured_in_pairs_of_valid_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def once(model: str, changes: dict[str, str], name: str) -> Run:
        asked.append(changes["pod.pins"])
        cost_s = 0.00055 if changes["pod.pins"] == "on" else 0.0005
        return make_run(450, cpu_s=cost_s, failed_checks=("drift",) if len(asked) == 1 else ())

    monkeypatch.setattr(perf, "once", once)
    cost, false_pins = list(perf.pins())[:2]
    assert asked[:6] == ["off", "on", "on", "off", "off", "on"]
    assert cost.value == pytest.approx(1.1)
    assert (cost.reached, cost.note) == (True, "2 of 3 pairs valid")
    assert (false_pins.value, false_pins.reached) == (None, False), "not counted in these"
