"""What `make perf` writes: a figure beside its goal, and no figure of an invalid run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from synthetic import make_run
from synthetic_runs import Pod, published

from harness.perf import __main__ as perf
from harness.perf import reports
from harness.perf.figure import at_most
from harness.run import Run


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


def test_a_report_is_timed_on_as_many_runs_as_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "RUNS", 5)
    for repeat in (0, 1):
        published(tmp_path, replace(Pod(), rate_rps=50, w_s=0.5, window_s=2.0, repeat=repeat))
    before = sorted(tmp_path.rglob("*"))
    timed = reports.time_report(tmp_path)
    assert timed.note == "copies of 2 runs"
    assert timed.seconds
    assert sorted(tmp_path.rglob("*")) == before


def test_without_a_run_no_report_is_timed(tmp_path: Path) -> None:
    assert reports.time_report(tmp_path) == (None, "no valid run to copy")


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
