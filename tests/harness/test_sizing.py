"""A pod is sized by runs: here by an ideal pod whose capacity is known beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import make_run

from harness import preflight, scenario, sizing, targets
from harness.errors import MeasurementError, ScenarioError, TargetError
from harness.report import capacities
from harness.run import Run
from harness.scenario import Scenario

HOST = preflight.Host(cpus=(0, 1), descriptors=20_000, ports=28_232)
ALL = targets.load_targets()
RAG = scenario.load("rag-compressed")


def pod(limit_rps: float, target: str = "asyncio", breaks: bool = False, seen: list[float] | None = None):  # type: ignore[no-untyped-def]
    """A pod that carries `limit_rps`, and beyond that drifts, or dies."""

    def run_once(part: Scenario) -> Run:
        rate = part.load.rate_rps
        if seen is not None:
            seen.append(rate)
        if rate <= limit_rps:
            return make_run(rate, target=target, descriptors=20 + 2 * rate * 2.002)
        if breaks:
            raise TargetError("asyncio ended during the run")
        return make_run(
            rate, target=target, overhead_s=3.0, throughput_rps=limit_rps, failed_checks=("drift",)
        )

    return run_once


def test_a_pool_is_found_where_it_was_predicted_and_named() -> None:
    seen: list[float] = []
    found = sizing.size(RAG, ALL["threadpool"], HOST, pod(200 / 2.002, "threadpool", seen=seen))
    assert found.measured.rate_max_rps.value == pytest.approx(99.9, rel=0.03)
    assert found.measured.bound_by == "pool"
    assert "pod.threads" in found.bound_by
    assert found.verified
    assert abs(found.found.prediction_error) < 0.05
    assert seen[1] / seen[0] == pytest.approx(2.4), "costs are fitted at two modest rates"
    assert len(seen) <= 8


def test_a_pod_that_dies_above_a_rate_does_not_carry_it() -> None:
    found = sizing.size(RAG, ALL["asyncio"], HOST, pod(400, breaks=True))
    assert found.measured.rate_max_rps.value == pytest.approx(400, rel=0.05)
    assert any("ended during the run" in trial.reason for trial in found.found.trials)


def test_a_rate_that_cannot_be_offered_is_not_carried() -> None:
    def run_once(part: Scenario) -> Run:
        if part.load.rate_rps > 500:
            raise ScenarioError("too few descriptors")
        return make_run(part.load.rate_rps)

    found = sizing.size(RAG, ALL["trio"], HOST, run_once)
    assert found.measured.rate_max_rps.value == pytest.approx(500, rel=0.05)


def test_a_plateau_of_an_unknown_target_is_a_hidden_pool() -> None:
    own = targets.Target(name="mine", model="x", command=("x",))
    found = sizing.size(RAG, own, HOST, pod(50, "mine"))
    assert found.measured.bound_by == "hidden pool"
    assert "100 places" in found.bound_by


def test_auto_is_one_process_and_more_are_kept_where_asked_for() -> None:
    assert sizing.one_pod(RAG).pod.workers == 1
    assert sizing.one_pod(scenario.load("rag-compressed", {"pod.workers": "3"})).pod.workers == 3


def test_what_was_found_is_kept_by_target(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="harness capacity TARGET --scenario rag-compressed"):
        sizing.load(tmp_path, "rag-compressed")
    for name in ("threadpool", "asyncio"):
        found = sizing.size(RAG, ALL[name], HOST, pod(90, name))
        sizing.keep(tmp_path, "rag-compressed", found)
    assert sizing.load(tmp_path, "rag-compressed")["asyncio"] == found
    assert set(sizing.load(tmp_path, "rag-compressed")) == {"threadpool", "asyncio"}
    assert capacities.tables(tmp_path, "rag") == {}
    table = capacities.tables(tmp_path, "rag-compressed")["capacity"]
    assert [line.label for line in table.lines] == ["asyncio", "threadpool"]
    searched, failed, predicted, ratio, *_ = (cell.text for cell in table.lines[1].cells)
    assert float(searched) < float(failed) <= float(predicted)
    assert float(ratio) == pytest.approx(float(predicted) / float(searched), rel=0.01)
    assert any("pod.threads" in note for note in table.notes)
    (tmp_path / "capacity" / "rag-compressed.json").write_text("{}}")
    with pytest.raises(MeasurementError, match="measure again"):
        sizing.load(tmp_path, "rag-compressed")
