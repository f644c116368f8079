"""The A/A floor: how far apart two sets of runs of the SAME code come on a machine, metric by metric.

No change can be told from noise below it, however small the p-value. Pure, and seeded.
"""

from __future__ import annotations

import math

import numpy as np

from harness.gate import METRICS, Floats, Values, measured

QUANTILE = 0.95
DEALS = 2_000
RUNS_MIN = 8


def noise_floor(values: Values, *, paired: bool, seed: int = 1) -> dict[str, float]:
    """The A/A floor of each metric, as a share, from runs of ONE version of the code, in the order of time.

    They are dealt into two sides at random, DEALS times, each time as the gate's would be: neighbours
    into different sides where it compares pairs, else half of them into each. The floor is the QUANTILE of
    how far apart the sides come. n runs stand for a gate of n / 2: give twice as many as a side of it has, or
    the floor is on the safe, coarse side. A metric with fewer than RUNS_MIN values has no floor.
    """
    generator = np.random.default_rng(seed)
    shifts = _paired_shifts if paired else _independent_shifts
    floors = {}
    for name in METRICS:
        sample = measured(values.get(name, ()))
        if sample.size >= RUNS_MIN:
            floors[name] = math.expm1(float(np.quantile(shifts(np.log(sample), generator), QUANTILE)))
    return floors


def _paired_shifts(logs: Floats, generator: np.random.Generator) -> Floats:
    """How far the sides are apart in each deal, as statistics.compare_paired has it."""
    half = logs.size // 2
    apart = logs[1 : 2 * half : 2] - logs[: 2 * half : 2]
    dealt = apart * generator.choice((-1.0, 1.0), (DEALS, half))
    i, j = np.triu_indices(half)
    return np.asarray(np.abs(np.median((dealt[:, i] + dealt[:, j]) / 2, axis=1)))


def _independent_shifts(logs: Floats, generator: np.random.Generator) -> Floats:
    """How far the sides are apart in each deal, as statistics.compare_independent has it."""
    half = logs.size // 2
    dealt = generator.permuted(np.tile(logs, (DEALS, 1)), axis=1)
    base, head = dealt[:, :half, np.newaxis], dealt[:, np.newaxis, half : 2 * half]
    return np.asarray(np.abs(np.median(head - base, axis=(1, 2))))
