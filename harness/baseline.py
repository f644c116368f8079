"""The gate's memory, results/baseline.json: what runs of a known commit measured, one entry for each target.

An entry compares with runs made under the same conditions only: the same load, upstream, pod and limits. On a
machine of another class the absolute figures are refused, one by one and with the reason; memory per request
is still compared, because it depends on the interpreter and not on how fast the machine is.

A file that cannot be used is the user's to mend: ScenarioError, before anything is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from harness import files
from harness.capacity import PodLimits
from harness.errors import MeasurementError, ScenarioError
from harness.gate import METRICS, Values
from harness.run import Machine, Run
from harness.scenario import Load, Pod, Upstream

Value = Annotated[float, Meta(gt=0)]


class Conditions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Under which runs compare: what of a scenario changes what is measured, and the options as resolved.

    The seed is no part of it: another draw of the same arrivals is what a repeat may well want.
    """

    load: Load
    upstream: Upstream
    pod: Pod
    options: dict[str, str | int]


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs of one target at one commit: `values` per metric and run as gate.measure gives them, and the floor.

    `limits` and `rate_rps` are what λ max and the pods were predicted for.
    """

    commit: str | None
    created: str
    machine_class: str
    python: str
    conditions: Conditions
    limits: PodLimits
    rate_rps: Value
    values: dict[str, tuple[Value | None, ...]]
    floor: dict[str, Annotated[float, Meta(ge=0)]]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    VERSION: ClassVar[int] = 1

    schema_version: Literal[1] = 1
    targets: dict[str, Baseline]


_UNREADABLE = files.Refusal(
    ScenarioError,
    absent="no baseline ({why}); make one on this machine first",
    foreign="not a baseline: {why}; make it anew",
    other_version="make it anew",
)


def conditions(run: Run) -> Conditions:
    """Those of one run."""
    return Conditions(
        load=msgspec.structs.replace(run.scenario.load, seed=1),
        upstream=run.scenario.upstream,
        pod=msgspec.structs.replace(run.scenario.pod, options={}),
        options={**run.target.options, "workers": run.target.workers},
    )


def differences(one: Conditions, other: Conditions) -> str:
    """What keeps runs of the two from being compared, as "load.rate_rps 150.0 and 200.0"; "" if nothing does."""
    a, b = _flat(one), _flat(other)
    unlike = (name for name in a | b if a.get(name) != b.get(name))
    return ", ".join(f"{name} {a.get(name)!r} and {b.get(name)!r}" for name in unlike)


def make(
    runs: Sequence[Run], values: Values, floor: dict[str, float], limits: PodLimits, rate_rps: float
) -> Baseline:
    """The entry of `runs`, which are one target's; raises MeasurementError where they do not belong together."""
    if not runs:
        raise MeasurementError("a baseline needs runs")
    for run in runs:
        if unlike := differences(conditions(runs[0]), conditions(run)):
            raise MeasurementError(f"{run.id} does not belong with {runs[0].id}: {unlike}")
    if len({(run.machine.class_name, run.source.commit) for run in runs}) > 1:
        raise MeasurementError("the runs are of several commits or machines: make a baseline of one")
    first = runs[0]
    return Baseline(
        commit=first.source.commit,
        created=first.created,
        machine_class=first.machine.class_name,
        python=first.machine.python,
        conditions=conditions(first),
        limits=limits,
        rate_rps=rate_rps,
        values={name: tuple(values[name]) for name in METRICS},
        floor=floor,
    )


def read(path: Path, target: str) -> Baseline:
    """The entry of `target`; raises ScenarioError for a file that is missing, foreign or without it."""
    targets = _read(path).targets
    if target not in targets:
        raise ScenarioError(
            f"{path}: no baseline of {target}, only of {', '.join(targets) or 'nothing'}; make one"
        )
    return targets[target]


def write(path: Path, target: str, baseline: Baseline) -> None:
    """Put the entry of `target` into the file, which keeps those of other targets; whole, or not at all.

    Raises ScenarioError for a file that is there and foreign, and MeasurementError where it cannot be written.
    """
    targets = _read(path).targets if path.exists() else {}
    made = _File(targets=dict(sorted({**targets, target: baseline}.items())))
    try:
        files.write(path, files.encode(made))
    except OSError as error:
        raise MeasurementError(f"{path}: the baseline could not be written: {error}") from error


def refusals(baseline: Baseline, machine: Machine) -> dict[str, str]:
    """Metrics that cannot be held against runs on `machine`, with the reason, for gate.judge."""
    if machine.class_name == baseline.machine_class:
        return {}
    reason = f'the baseline is of a machine "{baseline.machine_class}", this is "{machine.class_name}"'
    same_python = _minor(machine.python) == _minor(baseline.python)
    return {
        name: f"{reason}: absolute figures do not compare; make a baseline here, or give --base-ref"
        for name, metric in METRICS.items()
        if metric.of_machine or not same_python
    }


def _read(path: Path) -> _File:
    return files.read(path, _File, _UNREADABLE, _File.VERSION)


def _flat(value: Conditions) -> dict[str, object]:
    parts: dict[str, dict[str, object]] = msgspec.to_builtins(value)
    return {f"{part}.{name}": leaf for part, leaves in parts.items() for name, leaf in leaves.items()}


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
