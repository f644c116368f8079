"""How one check is made: a rule compares one value of a run's figures with one limit.

A figure at its limit passes. A rule that does not apply, or lacks a figure, neither passes nor fails: its
check has ok = None and says why; only a `required` figure must be there. The arithmetic and the exemptions
here are the words in which validity.py writes its table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from harness.figures import Figures
from harness.scenario import Limits


def first(value: float, *_: float) -> float:
    """The value of a rule that judges a figure as it is."""
    return value


class Check(msgspec.Struct, frozen=True):
    """One judgement; ok is None where it does not apply or was not measured, and detail says which."""

    name: str
    ok: bool | None
    value: float | None
    limit: str | float | None
    detail: str


@dataclass(frozen=True)
class Rule:
    """A row of the table: `value` of the figures that it `needs`, in their order, against `limit`.

    `limit` is a number, a field of Limits (where that is None, the value is shown and not judged), or a function
    of both. `text` is formatted with value, limit and the needed figures by name. `unless` holds reasons not to
    judge: functions that return one, or "".
    """

    name: str
    needs: tuple[str, ...]
    limit: float | str | Callable[[Figures, Limits], float]
    text: str
    remedy: str
    value: Callable[..., float] = first
    at_least: bool = False
    required: bool = False
    unless: tuple[Callable[[Figures], str], ...] = ()

    def check(self, figures: Figures, limits: Limits) -> Check:
        """Judge `figures` by this rule alone."""
        if reason := next(filter(None, (exempt(figures) for exempt in self.unless)), ""):
            return Check(self.name, None, None, None, f"not applicable: {reason}")
        needed = {name: getattr(figures, name) for name in self.needs}
        missing = [name for name, figure in needed.items() if figure is None or figure != figure]  # NaN
        limit = self._limit(figures, limits)
        if missing:
            ok = False if self.required else None
            return Check(self.name, ok, None, limit, f"not measured: {', '.join(missing)}")
        value = float(self.value(*needed.values()))
        detail = self.text.format(**{**needed, "value": value, "limit": "none" if limit is None else limit})
        if limit is None:
            return Check(self.name, None, value, None, f"{detail}: not judged")
        ok = _reaches(value, limit) if self.at_least else _reaches(limit, value)
        return Check(self.name, ok, value, limit, detail if ok else f"{detail}; {self.remedy}")

    def _limit(self, figures: Figures, limits: Limits) -> float | None:
        if callable(self.limit):
            return self.limit(figures, limits)
        limit = getattr(limits, self.limit) if isinstance(self.limit, str) else self.limit
        return None if limit is None else float(limit)


def _reaches(high: float, low: float) -> bool:
    # A share that is at its limit on paper may miss it in the last bit.
    return high >= low or math.isclose(high, low, rel_tol=1e-9, abs_tol=1e-12)


def share(part: float, whole: float) -> float:
    """part / whole; of nothing, any part is too much (1) and no part is none (0)."""
    return part / whole if whole else float(part > 0)


def off(measured: float, expected: float) -> float:
    """How far `measured` is from `expected`, as a share of it; where nothing is expected, 0 or 1."""
    return abs(measured - expected) / expected if expected else float(measured > 0)


# Exemptions: the reason not to judge, or "".


def saturated(figures: Figures) -> str:
    return "the run is saturated on purpose" if figures.regime == "saturated" else ""


def steady(figures: Figures) -> str:
    return "the run is not meant to saturate the pod" if figures.regime == "steady" else ""


def closed(figures: Figures) -> str:
    return (
        "a closed model offers no rate: a request is due when it is sent"
        if figures.arrivals == "closed"
        else ""
    )


def filling(figures: Figures) -> str:
    # All clients come at once; where they wait for each other, the first waits shortest and the last longest.
    return (
        "in a closed model the clients' queue builds up inside the window"
        if figures.arrivals == "closed"
        else ""
    )


def staged(figures: Figures) -> str:
    return "the rate changes during the window" if figures.arrivals == "stages" else ""


def no_database(figures: Figures) -> str:
    return "there is no database behind the pod" if figures.connections_rps is None else ""


def database(figures: Figures) -> str:
    return "" if figures.connections_rps is None else "what is full are the connections to the database"


def abandoned(figures: Figures) -> str:
    gone = figures.timed_out or figures.unfinished
    return "clients gave up: the pod may still be at work for them" if gone else ""


def random_delays(figures: Figures) -> str:
    return "the delays are random" if figures.random_delays else ""


def own_cpus(figures: Figures) -> str:
    return "" if figures.shared_cpus else "the pod and the harness have CPUs of their own"
