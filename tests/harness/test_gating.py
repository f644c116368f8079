"""The gate's runs: pairs in alternating order, baselines refused before a run is wasted, a worktree that goes."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic import MACHINE, make_run

from harness import gating, provenance, scenario
from harness.capacity import PodLimits
from harness.errors import MeasurementError, ScenarioError
from harness.preflight import Host
from harness.run import Run
from harness.spelling import ROOT
from harness.targets import load_targets

LIMITS = PodLimits(cpus=1, descriptors=19_600)


def noisy(seed: int, cpu: float = 1.0) -> Callable[[], Run]:
    """Runs of one version: 2 % of noise, and `cpu` times as much CPU a request."""
    draw = random.Random(seed)
    return lambda: make_run(
        cpu_s=0.0006 * cpu * draw.gauss(1, 0.02),
        each_bytes=6_400 * draw.gauss(1, 0.02),
        overhead_s=0.008 * draw.gauss(1, 0.05),
    )


@pytest.fixture(autouse=True)
def _this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "machine", lambda: MACHINE)


def test_an_unchanged_tree_passes_and_a_costlier_one_regresses(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    gating.make_baseline(path, "asyncio", LIMITS, 20, noisy(1))
    assert gating.against_baseline(path, "asyncio", 10, noisy(2)).verdict == "pass"
    worse = gating.against_baseline(path, "asyncio", 10, noisy(3, cpu=1.2))
    assert worse.verdict == "regressed"
    assert "cpu_s_per_request" in worse.line


def test_a_pool_is_offered_less_than_it_carries() -> None:
    host = Host(cpus=(0, 1), descriptors=20_000, ports=28_232)
    known, wanted = load_targets(), scenario.load("gate")
    assert gating.unsaturated(wanted, known["asyncio"], host) == wanted
    pool = gating.unsaturated(wanted, known["threadpool"], host)
    assert pool.load.rate_rps == pytest.approx(0.9 * 200 / wanted.w_s, rel=1e-3)


def test_too_few_runs_are_inconclusive(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    gating.make_baseline(path, "asyncio", LIMITS, 20, noisy(1))
    assert gating.against_baseline(path, "asyncio", 1, noisy(2)).verdict == "inconclusive"


def test_pairs_are_run_in_alternating_order() -> None:
    order: list[str] = []

    def logged(name: str, run_once: Callable[[], Run]) -> Callable[[], Run]:
        def once() -> Run:
            order.append(name)
            return run_once()

        return once

    verdict = gating.against_revision(LIMITS, 10, logged("b", noisy(1)), logged("h", noisy(2, cpu=1.2)))
    assert "".join(order) == "bhhb" * 5
    assert verdict.verdict == "regressed"


def test_a_baseline_that_is_missing_or_foreign_is_refused_before_a_run(tmp_path: Path) -> None:
    def never() -> Run:
        raise AssertionError("a run was made")

    with pytest.raises(ScenarioError, match="baseline"):
        gating.against_baseline(tmp_path / "none.json", "asyncio", 10, never)
    (tmp_path / "foreign.json").write_text('{"schema_version": 1, "pods": 3}')
    with pytest.raises(ScenarioError, match=r"foreign\.json"):
        gating.against_baseline(tmp_path / "foreign.json", "asyncio", 10, never)


def test_other_conditions_are_refused_after_the_first_run(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    gating.make_baseline(path, "asyncio", LIMITS, 8, noisy(1))
    made: list[Run] = []

    def faster() -> Run:
        made.append(make_run(rate_rps=200))
        return made[-1]

    with pytest.raises(ScenarioError, match=r"load\.rate_rps"):
        gating.against_baseline(path, "asyncio", 10, faster)
    assert len(made) == 1


def test_base_and_head_of_different_scenarios_are_refused() -> None:
    with pytest.raises(ScenarioError, match="do not run the same"):
        gating.against_revision(LIMITS, 10, noisy(1), lambda: make_run(rate_rps=200))


def test_a_revision_is_a_worktree_and_goes_away() -> None:
    if subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, check=False
    ).returncode:
        pytest.skip("not a git checkout")
    with gating.revision("HEAD") as tree:
        assert (tree / "harness" / "cli.py").exists()
    assert not tree.exists()
    with (
        pytest.raises(ScenarioError, match="--base-ref no-such-revision"),
        gating.revision("no-such-revision"),
    ):
        pass


def test_a_run_that_fails_says_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="unknown target"):
        gating.run_in(ROOT, ["nobody"])
