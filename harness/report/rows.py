"""From runs to rows: repeats become cells, and the cells of one condition a row of the table.

A cell is what was repeated at one rate. Of a condition, the steady cell with the highest rate gives latency and
resources (that is "at capacity"), the saturated runs give λ max per pod. Where a pod was never saturated, the
highest rate that it carried in a valid run is a lower bound of its λ max, and is marked as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from harness.report import article
from harness.report.conditions import Condition, Registry, condition_of, order, varying
from harness.report.load import Discarded, Shelf, Stored
from harness.report.metrics import METRICS, estimate
from harness.run import Run
from harness.statistics import Estimate

# Taken from the saturated runs where there are any; every other metric from steady ones, if there are any.
OF_SATURATION = ("rate_predicted_rps", "measured_over_predicted")
# Never from saturated ones: there it is the length of the queue.
OF_LATENCY = ("latency_p50_s", "latency_p99_s", "latency_p99_over_w_s")


@dataclass(frozen=True)
class Cell:
    """Valid repeats of one condition at one offered rate, in the order in which they were made."""

    condition: Condition
    rate_rps: float
    stored: tuple[Stored, ...]

    @property
    def runs(self) -> list[Run]:
        return [stored.run for stored in self.stored]

    def figure(self, key: str) -> Estimate:
        """One of METRICS over the repeats."""
        return estimate(METRICS[key], self.runs)

    def typical(self) -> Stored:
        """The run whose p99 is the median one (of two, the lower): what a figure of one run shows."""
        ranked = sorted(self.stored, key=lambda stored: stored.run.summary.latency_s.p99 or math.inf)
        return ranked[(len(ranked) - 1) // 2]


@dataclass(frozen=True)
class Row:
    """One condition in a table. `steady` has the highest rate of `rates`; `discarded` counts its invalid runs."""

    condition: Condition
    label: str
    rates: tuple[Cell, ...]  # steady, by rate
    saturated: Cell | None
    discarded: int

    @property
    def steady(self) -> Cell | None:
        return self.rates[-1] if self.rates else None

    @property
    def source(self) -> Cell | None:
        """Where its resources come from: a pod that was only run full still takes what it takes."""
        return self.steady or self.saturated

    @property
    def runs(self) -> list[Run]:
        """All its runs, at every rate."""
        return [run for cell in (*self.rates, self.saturated) if cell for run in cell.runs]

    @property
    def at_capacity(self) -> list[Run]:
        """The runs that the row's figures come from."""
        return [run for cell in (self.steady, self.saturated) if cell for run in cell.runs]

    @property
    def _carried(self) -> float:
        return (self.steady.figure("rate_offered_rps").value or 0.0) if self.steady else 0.0

    @cached_property
    def rate_max_at_least(self) -> bool:
        """Whether λ max is a lower bound: no saturated run, or one that carried less than a steady one."""
        measured = self.saturated.figure("rate_max_rps").value if self.saturated else None
        return self.steady is not None and (measured is None or measured < self._carried)

    @cached_property
    def figures(self) -> Mapping[str, Estimate]:
        """All METRICS, and pods at the article's rate."""
        found = {key: self._figure(key) for key in METRICS}
        return found | {"pods": pods(article.RATE_RPS, found["rate_max_rps"])}

    def _figure(self, key: str) -> Estimate:
        if key == "rate_max_rps":
            if self.rate_max_at_least:
                return Estimate(self._carried, None, None)
            return estimate(METRICS[key], self.saturated.runs if self.saturated else ())
        cell = self.source
        if key in OF_SATURATION:
            cell = self.saturated or self.steady
        elif key in OF_LATENCY:
            cell = self.steady
        return estimate(METRICS[key], cell.runs if cell else (), "no steady run")

    def total(self, name: str) -> int:
        """A count of the summary, added up over the runs that the row's figures come from."""
        return sum(int(getattr(run.summary, name)) for run in self.at_capacity)

    @property
    def bound_by(self) -> str:
        """What the prediction named, by the saturated runs if there are any; "" if none did."""
        cell = self.saturated or self.steady
        names = (
            {run.prediction.bound_by: None for run in cell.runs if run.prediction.bound_by} if cell else {}
        )
        return ", ".join(str(name) for name in names)

    @property
    def verdict(self) -> str:
        return f"valid; {self.discarded} discarded" if self.discarded else "valid"

    @property
    def beside(self) -> tuple[article.Configuration, article.Load] | None:
        """The article's configuration, at its rate closest to this row's."""
        found = article.counterpart(self.condition.model, self.condition.w_s, self.condition.pool)
        rate = self.steady.rate_rps if self.steady else self.figures["rate_max_rps"].value
        return None if found is None or rate is None else (found, found.nearest(rate))


@dataclass(frozen=True)
class Chapter:
    """The rows of one scenario and one arm: what may stand in one table and in one figure."""

    scenario: str
    arm: str
    rows: tuple[Row, ...]

    @property
    def runs(self) -> list[Run]:
        return [run for row in self.rows for run in row.runs]

    @property
    def axis(self) -> str | None:
        """What its scenario varies; None where it is no sweep, or was not always the same one."""
        axes = {run.scenario.sweep.axis if run.scenario.sweep else None for run in self.runs}
        return axes.pop() if len(axes) == 1 else None


def chapters(shelf: Shelf, registry: Registry) -> list[Chapter]:
    """All scenarios by name, each arm apart."""
    grouped: dict[tuple[str, str], dict[Condition, list[Stored]]] = {}
    for stored in shelf.valid:
        condition = condition_of(stored.run, registry)
        group = grouped.setdefault((condition.scenario, condition.arm), {})
        group.setdefault(condition, []).append(stored)
    lost = [condition_of(item.run, registry) for item in shelf.discarded if item.run]
    return [
        Chapter(
            scenario, arm, tuple(_row(c, group[c], varying(group), lost) for c in sorted(group, key=order))
        )
        for (scenario, arm), group in sorted(grouped.items(), key=lambda item: item[0])
    ]


def without_valid_run(shelf: Shelf, registry: Registry) -> dict[Condition, list[Discarded]]:
    """Conditions that were run, but never validly."""
    valid = {condition_of(stored.run, registry) for stored in shelf.valid}
    found: dict[Condition, list[Discarded]] = {}
    for item in shelf.discarded:
        if item.run and (condition := condition_of(item.run, registry)) not in valid:
            found.setdefault(condition, []).append(item)
    return found


def pods(rate_rps: float, rate_max: Estimate) -> Estimate:
    """⌈rate / λ max⌉ with its interval; where λ max is a lower bound, pods are an upper one."""
    if not rate_max.value:
        return Estimate(None, None, None, rate_max.reason or "nothing was carried")
    return Estimate(
        needed(rate_rps, rate_max.value),
        needed(rate_rps, rate_max.high) if rate_max.high else None,
        needed(rate_rps, rate_max.low) if rate_max.low else None,
    )


def needed(rate_rps: float, rate_max_rps: float) -> int:
    """Pods for a rate: what Little's mean asks for; a rate that is met exactly needs no pod more."""
    return max(1, math.ceil(rate_rps / rate_max_rps * (1 - 1e-9)))


def _row(condition: Condition, group: Iterable[Stored], names: tuple[str, ...], lost: list[Condition]) -> Row:
    label = condition.label(names)
    steady: dict[float, list[Stored]] = {}
    saturated: list[Stored] = []
    for stored in group:
        load = stored.run.scenario.load
        home = saturated if load.regime == "saturated" else steady.setdefault(load.rate_rps, [])
        home.append(stored)
    highest = max((stored.run.scenario.load.rate_rps for stored in saturated), default=0.0)
    return Row(
        condition=condition,
        label=label,
        rates=tuple(Cell(condition, rate, tuple(steady[rate])) for rate in sorted(steady)),
        saturated=Cell(condition, highest, tuple(saturated)) if saturated else None,
        discarded=lost.count(condition),
    )
