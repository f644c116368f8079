"""Software Carbon Intensity (ISO/IEC 21031:2024): grams of CO₂ equivalent per successful request.

    SCI = (E × I + M) / R

- E: electricity of the hardware that is RESERVED, busy or not, with what the data centre adds to it (PUE).
- I: grams per kWh where it runs (location-based: no certificates).
- M: making the hardware, TE × (TiR / EL) × (RR / ToR): its total emissions, by the part of its life and of its
  resources that is reserved.
- R: successful requests. Those that failed have used their carbon, too: they count above the line only.

The model provider's energy is outside of this boundary, and likely larger: OUTSIDE belongs beside each figure.
Coefficients are Cloud Carbon Footprint's averages (its methodology, appendix I and II, AWS); trust ratios.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

WATTS_PER_VCPU_IDLE = 0.74
WATTS_PER_VCPU_BUSY = 3.5
KWH_PER_GB_HOUR = 0.000392
PUE = 1.135

# A dual-socket m5 host, over four years, as one of its 96 vCPUs in an hour: 0.479 g.
_HOST_GRAMS, _HOST_HOURS, _HOST_VCPUS = 1_610_790.0, 4 * 365 * 24, 96
EMBODIED_GRAMS_PER_VCPU_HOUR = _HOST_GRAMS / _HOST_HOURS / _HOST_VCPUS

GRAMS_PER_KWH: Mapping[str, float] = {
    "us-east-1": 415.8,
    "eu-central-1": 338.0,  # Frankfurt
    "eu-west-3": 52.0,  # Paris
    "eu-north-1": 8.0,  # Stockholm
}

OUTSIDE = "without the model provider's energy"


class Reserved(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet keeps for itself, for how long; `busy_share` is how much of its vCPUs works, 0 to 1."""

    vcpus: float
    memory_bytes: float
    busy_share: float
    hours: float


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """E in kWh, E × I and M in grams, and SCI in grams per successful request."""

    energy_kwh: float
    operation_grams: float
    embodied_grams: float
    grams_per_request: float


def energy_kwh(reserved: Reserved) -> float:
    """E, PUE included: vCPUs between their idle and their busy power, and memory by its size."""
    watts = WATTS_PER_VCPU_IDLE + reserved.busy_share * (WATTS_PER_VCPU_BUSY - WATTS_PER_VCPU_IDLE)
    hourly = reserved.vcpus * watts / 1000 + reserved.memory_bytes / 1e9 * KWH_PER_GB_HOUR
    return hourly * reserved.hours * PUE


def embodied_grams(reserved: Reserved) -> float:
    """M, by the share of the host's vCPUs."""
    return reserved.vcpus * reserved.hours * EMBODIED_GRAMS_PER_VCPU_HOUR


def sci(reserved: Reserved, successes: int, grams_per_kwh: float) -> Footprint:
    """SCI of what `reserved` did: `successes` requests; `grams_per_kwh` as in GRAMS_PER_KWH, by region.

    Raises ValueError without a successful request (nothing to divide by), and for numbers out of domain.
    """
    if successes < 1:
        raise ValueError("no successful request: there is nothing to divide the carbon by")
    if not 0 <= reserved.busy_share <= 1:
        raise ValueError(f"busy_share must be between 0 and 1, got {reserved.busy_share}")
    for name, value in (
        ("vcpus", reserved.vcpus),
        ("memory_bytes", reserved.memory_bytes),
        ("hours", reserved.hours),
        ("grams_per_kwh", grams_per_kwh),
    ):
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be finite and not negative, got {value}")
    energy = energy_kwh(reserved)
    operation, embodied = energy * grams_per_kwh, embodied_grams(reserved)
    return Footprint(
        energy_kwh=energy,
        operation_grams=operation,
        embodied_grams=embodied,
        grams_per_request=(operation + embodied) / successes,
    )
