"""The A/A floor: how far apart two sets of runs of the SAME code come on a machine, metric by metric.

No change can be told from noise below it, however small the p-value. Pure, and seeded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from harness.gate import METRICS, Floats, Values, measured

QUANTILE = 0.95
DEALS = 2_000
RUNS_MIN = 8


def noise_floor(*series: Values, paired: bool, seed: int = 1) -> dict[str, float]:
    """The A/A floor of each metric, as a share; each of `series` are runs of ONE version, in the order of time.

    The runs are dealt into two sides at random, DEALS times, each time as the gate's would be: neighbours of one
    series into different sides where it compares pairs, else half of the one series into each. The floor is the
    QUANTILE of how far apart the sides come. n runs stand for a gate of n / 2: give twice as many as a side of
    it has (both of its sides, for pairs), or the floor is on the safe, coarse side. A metric with fewer than
    RUNS_MIN values has no floor.
    """
    generator = np.random.default_rng(seed)
    floors = {}
    for name in METRICS:
        samples = [np.log(measured(values.get(name, ()))) for values in series]
        if sum(sample.size for sample in samples) >= RUNS_MIN:
            shifts = _paired_shifts(samples, generator) if paired else _independent_shifts(samples, generator)
            floors[name] = math.expm1(float(np.quantile(shifts, QUANTILE)))
    return floors


def _paired_shifts(samples: Sequence[Floats], generator: np.random.Generator) -> Floats:
    """How far the sides are apart in each deal, as statistics.compare_paired has it."""
    apart = np.concatenate([np.diff(logs[: logs.size // 2 * 2])[::2] for logs in samples])
    dealt = apart * generator.choice((-1.0, 1.0), (DEALS, apart.size))
    i, j = np.triu_indices(apart.size)
    return np.asarray(np.abs(np.median((dealt[:, i] + dealt[:, j]) / 2, axis=1)))


def _independent_shifts(samples: Sequence[Floats], generator: np.random.Generator) -> Floats:
    """How far the sides are apart in each deal, as statistics.compare_independent has it; of one series."""
    (logs,) = samples
    half = logs.size // 2
    dealt = generator.permuted(np.tile(logs, (DEALS, 1)), axis=1)
    base, head = dealt[:, :half, np.newaxis], dealt[:, np.newaxis, half : 2 * half]
    return np.asarray(np.abs(np.median(head - base, axis=(1, 2))))
