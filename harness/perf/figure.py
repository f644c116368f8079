"""A figure to reach, and the one run that it is taken from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from harness import display, experiment, preflight, scenario, targets
from harness.cli_common import RESULTS
from harness.run import Run


class Figure(msgspec.Struct, frozen=True):
    """One measured figure and its goal; reached is None where there is no goal."""

    case: str
    what: str
    value: float | None
    unit: str
    goal: str = ""
    reached: bool | None = None
    note: str = ""


def at_most(case: str, what: str, value: float | None, unit: str, limit: float, note: str = "") -> Figure:
    """A figure that should not exceed `limit`."""
    reached = value is not None and value <= limit
    return Figure(case, what, value, unit, f"≤ {limit:g}", reached, note)


def once(model: str, changes: Mapping[str, str], name: str = "rag") -> Run:
    """One run of a scenario with these changes."""
    return once_kept(model, changes, name).run


def once_kept(model: str, changes: Mapping[str, str], name: str = "rag") -> experiment.Outcome:
    """The same, with the place where it is kept."""
    wanted = scenario.load(name, changes)
    target = targets.get_target(model, targets.load_targets())
    layout = preflight.plan(wanted, target, preflight.Host.here())
    with display.Progress(f"{model}, {changes}", layout) as progress:
        return experiment.run(wanted, target, layout, RESULTS, progress, None)


def note(run: Run) -> str:
    return run.id if run.verdict.valid else f"{run.id} invalid: {run.verdict.reason}"
