"""Quantities as people write them ("20 ms", "500/s", "64 KiB") to seconds, requests per second and bytes.

A file states its units: a bare number is refused there. A command line may leave them out, because an
option's help names the unit it means; the caller says so with `default_unit`. Whether a value may be zero or
negative is the caller's business; that it is finite is not negotiable.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from harness.errors import ScenarioError

# Decimal, because 20 * 0.001 as floats need not be the float nearest to 0.02.
DURATIONS: Mapping[str, Decimal] = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}
RATES: Mapping[str, Decimal] = {"/s": Decimal(1), "/min": 1 / Decimal(60), "/h": 1 / Decimal(3600)}
SIZES: Mapping[str, Decimal] = {
    "B": Decimal(1),
    "KiB": Decimal(2**10),
    "MiB": Decimal(2**20),
    "GiB": Decimal(2**30),
}

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(\S*)\s*", re.ASCII)


def parse_duration(text: object, default_unit: str | None = None) -> float:
    """Seconds. Raises ScenarioError for what is not a finite number with one of DURATIONS."""
    return _parse(text, DURATIONS, default_unit, example="20 ms")


def parse_rate(text: object, default_unit: str | None = None) -> float:
    """Requests per second. Raises ScenarioError for what is not a finite number with one of RATES."""
    return _parse(text, RATES, default_unit, example="500/s")


def parse_size(text: object, default_unit: str | None = None) -> int:
    """Whole bytes, rounded. Raises ScenarioError for what is not a finite number with one of SIZES."""
    return round(_parse(text, SIZES, default_unit, example="64 KiB"))


def _parse(text: object, units: Mapping[str, Decimal], default_unit: str | None, example: str) -> float:
    allowed = f"allowed units: {', '.join(units)}"
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ScenarioError(f'expected a quantity such as "{example}", found {text!r}; {allowed}')
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ScenarioError(
            f'{text!r} is not a finite number with a unit; write for example "{example}"; {allowed}'
        )
    number, unit = match.group(1), match.group(2) or default_unit
    if unit is None:
        raise ScenarioError(f'{text!r} has no unit; write for example "{example}"; {allowed}')
    if unit not in units:
        raise ScenarioError(f'unknown unit "{unit}" in {text!r}; {allowed}')
    value = float(Decimal(number) * units[unit])
    if not math.isfinite(value):
        raise ScenarioError(f"{text!r} is too large to be a number here")
    return value
