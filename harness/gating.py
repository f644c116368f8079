"""Makes the runs that the gate judges: of this tree against a stored baseline, or against another revision.

A revision is checked out into a worktree of its own and run by its own harness, its runs interleaved with those of
this tree: what the machine does in the meantime, it does to both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from harness import baseline as baselines
from harness import gate, provenance, sizing
from harness.capacity import PodLimits
from harness.errors import EXIT_INVALID, MeasurementError, ScenarioError
from harness.floor import noise_floor
from harness.preflight import Host, forecast
from harness.run import Run
from harness.scenario import Scenario
from harness.spelling import ROOT
from harness.targets import Target

RATE_RPS = 500.0  # for which the pods are counted
BELOW = 0.9
RUN_S = 600.0

RunOnce = Callable[[], Run]


def limits_of(scenario: Scenario, target: Target, host: Host) -> PodLimits:
    """The pod's limits, for the λ max that a run's costs predict."""
    scenario = sizing.one_pod(scenario)
    return sizing.pod_limits(scenario, target, forecast(scenario, target, host))


def unsaturated(scenario: Scenario, target: Target, host: Host) -> Scenario:
    """The scenario, or one at BELOW its capacity for a pod that it would saturate: a queue is no cost of a pod."""
    capacity_rps = forecast(scenario, target, host).binding.rate_max_rps
    if capacity_rps >= scenario.load.rate_rps:
        return scenario
    return sizing.at(scenario, float(f"{BELOW * capacity_rps:.4g}"))


def make_baseline(
    path: Path, target: str, limits: PodLimits, count: int, run_once: RunOnce
) -> baselines.Baseline:
    """Make `count` runs, and keep their figures and their A/A floor under the target's name."""
    runs = [run_once() for _ in range(count)]
    values = gate.measure(runs, limits, RATE_RPS)
    floor = noise_floor(values, paired=False)
    made = baselines.make(runs, values, floor, limits, RATE_RPS)
    baselines.write(path, target, made)
    return made


def against_baseline(path: Path, target: str, count: int, run_once: RunOnce) -> gate.GateVerdict:
    """Hold `count` runs of this tree against a stored baseline; refused before the first run where it is foreign."""
    stored = baselines.read(path, target)
    refused = baselines.refusals(stored, provenance.machine())
    runs = [run_once()]
    if unlike := baselines.differences(stored.conditions, baselines.conditions(runs[0])):
        raise ScenarioError(f"{path}: made under other conditions: {unlike}; make a baseline of these")
    runs += [run_once() for _ in range(count - 1)]
    head = gate.measure(runs, stored.limits, stored.rate_rps)
    return gate.judge(stored.values, head, stored.floor, paired=False, refused=refused)


def against_revision(
    limits: PodLimits, count: int, base_once: RunOnce, head_once: RunOnce
) -> gate.GateVerdict:
    """Hold `count` pairs of runs against each other, each pair in the other order than the last."""
    base: list[Run] = []
    head: list[Run] = []
    for pair in range(count):
        sides = ((base, base_once), (head, head_once))
        for runs, run_once in sides if pair % 2 == 0 else reversed(sides):
            runs.append(run_once())
        if pair == 0 and (
            unlike := baselines.differences(*(baselines.conditions(runs[0]) for runs in (base, head)))
        ):
            raise ScenarioError(f"base and head do not run the same: {unlike}; give the scenario as a file")
    before, after = (gate.measure(runs, limits, RATE_RPS) for runs in (base, head))
    # Within a side nothing differs but the moment: each of the two is an A/A experiment of its own.
    return gate.judge(before, after, noise_floor(before, after, paired=True), paired=True)


@contextmanager
def revision(name: str) -> Iterator[Path]:
    """A worktree of revision `name`, gone afterwards. Raises ScenarioError for an unknown one."""
    with tempfile.TemporaryDirectory(prefix="pods-per-lambda-base-") as scratch:
        tree = Path(scratch) / "tree"
        added = _git("worktree", "add", "--detach", str(tree), name)
        if added.returncode:
            raise ScenarioError(f"--base-ref {name}: {added.stderr.strip().splitlines()[-1]}")
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def run_in(tree: Path, arguments: Sequence[str]) -> Run:
    """`harness run` by the code in `tree`; an invalid run is returned too. Raises MeasurementError."""
    with tempfile.TemporaryDirectory(prefix="pods-per-lambda-gate-") as results:
        command = [sys.executable, "-m", "harness.cli", "run", *arguments, "--json", "--results", results]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        with subprocess.Popen(
            command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            try:
                stdout, stderr = child.communicate(timeout=RUN_S)
            except BaseException:
                child.terminate()  # it ends what it started
                raise
        if child.returncode not in (0, EXIT_INVALID):
            last = (stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise MeasurementError(f"the run in {tree} ended with status {child.returncode}: {last}")
        try:
            return msgspec.json.decode(stdout, type=Run)
        except msgspec.MsgspecError as error:
            raise MeasurementError(f"the harness in {tree} writes another record: {error}") from None


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("git", "-C", str(ROOT), *arguments), capture_output=True, text=True, check=False)
