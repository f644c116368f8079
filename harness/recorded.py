"""All that one run left behind, and how to look at it: inside the window, at samples, never between them. Pure.

What was not measured is NaN in a column, and None in what is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from harness.generator.messages import Account
from harness.preflight import Layout
from harness.run import HandlerPins, MeanPeak
from harness.scenario import Scenario

Floats = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[Any]]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run left behind. `samples` and `pauses` count time from t0, as `requests` do."""

    scenario: Scenario
    layout: Layout
    requests: Columns  # outcome as text
    samples: Columns
    pauses: Columns  # end_s, pause_s
    accounts: Sequence[Account]
    edge_pss_bytes: Sequence[float]  # at the window's start and end
    rest: Mapping[str, float]  # one sample before the first request
    processes_expected: int
    samples_missed: int
    source_unchanged: bool
    pins: Mapping[str, HandlerPins] | None = None  # by handler; None: not counted
    probes: Columns | None = None  # due_s, latency_s; None: no bystander

    @property
    def start_s(self) -> float:
        return self.scenario.load.warmup_s

    @property
    def end_s(self) -> float:
        return self.start_s + self.scenario.load.window_s


def _within(recorded: Recorded) -> npt.NDArray[np.bool_]:
    t_s = recorded.samples["t_s"]
    found: npt.NDArray[np.bool_] = (t_s >= recorded.start_s) & (t_s <= recorded.end_s)
    return found


def inside(recorded: Recorded, column: str) -> Floats:
    """A column's samples inside the window, those that were measured."""
    values: Floats = recorded.samples[column][_within(recorded)]
    return values[~np.isnan(values)]


def rate(recorded: Recorded, column: str) -> float | None:
    """A cumulative column's growth a second inside the window."""
    values, t_s = inside(recorded, column), inside(recorded, "t_s")
    if len(values) < 2 or len(values) != len(t_s):
        return None
    return float((values[-1] - values[0]) / (t_s[-1] - t_s[0]))


def growth(recorded: Recorded, column: str) -> int | None:
    """A cumulative column's growth from before the first request to the last sample."""
    values = recorded.samples[column]
    before = recorded.rest.get(column, math.nan)
    return whole_number(float(values[-1]) - before) if len(values) else None


def last(recorded: Recorded, column: str) -> float:
    """A column's last sample, NaN without one."""
    values = recorded.samples[column]
    return float(values[-1]) if len(values) else math.nan


def growth_until_window_end(recorded: Recorded, column: str) -> int | None:
    """Growth from before the first request to the window's end: what closing connections stir up is not counted."""
    values, before = inside(recorded, column), recorded.rest.get(column, math.nan)
    return whole_number(float(values[-1]) - before) if len(values) else None


def mean(values: Floats) -> float | None:
    """The mean of samples, None of none."""
    return float(values.mean()) if len(values) else None


def peak(values: Floats) -> int | None:
    """The largest of samples that are whole numbers, None of none."""
    return int(values.max()) if len(values) else None


def low(values: Floats) -> float | None:
    """The 5th percentile: a sample that falls into the hand-over of a place does not speak for the window."""
    return float(np.percentile(values, 5, method="lower")) if len(values) else None


def mean_peak(values: Floats) -> MeanPeak:
    """Both, for the record."""
    return MeanPeak(mean=float(values.mean()), peak=float(values.max())) if len(values) else MeanPeak()


def completed_in_all(recorded: Recorded) -> int:
    """Requests answered well in the whole run, warm-up and drain included."""
    return int(np.sum(recorded.requests["outcome"] == "ok"))


def ratio(value: float | None, by: float | None) -> float | None:
    """value / by; None where either is missing, or there is nothing to divide by."""
    return value / by if value is not None and by else None


def total(values: Iterable[float | None]) -> float | None:
    """The sum; None where a term is missing, for it would be a sum of something else."""
    found = list(values)
    known = [value for value in found if value is not None and not math.isnan(value)]
    return float(sum(known)) if len(known) == len(found) else None


def whole_number(value: float | None) -> int | None:
    """A count that was read as a float."""
    return None if value is None or math.isnan(value) else round(value)
