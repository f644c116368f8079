"""SCI against figures worked out by hand from the published coefficients."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.carbon import (
    EMBODIED_GRAMS_PER_VCPU_HOUR,
    GRAMS_PER_KWH,
    Reserved,
    embodied_grams,
    energy_kwh,
    sci,
)

POD = Reserved(vcpus=4, memory_bytes=8e9, busy_share=0.0, hours=1.0)
shares = st.floats(0, 1)
amounts = st.floats(0.01, 1e4)


@pytest.mark.parametrize(
    ("busy_share", "kwh"),
    [
        (0.0, 1.135 * (4 * 0.74 / 1000 + 8 * 0.000392)),
        (1.0, 1.135 * (4 * 3.5 / 1000 + 8 * 0.000392)),
        (0.5, 1.135 * (4 * 2.12 / 1000 + 8 * 0.000392)),
    ],
)
def test_energy_of_what_is_reserved(busy_share: float, kwh: float) -> None:
    assert energy_kwh(msgspec.structs.replace(POD, busy_share=busy_share)) == pytest.approx(kwh)


def test_making_a_vcpu_costs_half_a_gram_an_hour() -> None:
    """1,610.79 kg over four years and 96 vCPUs."""
    assert pytest.approx(0.479, abs=0.0005) == EMBODIED_GRAMS_PER_VCPU_HOUR
    whole_host = Reserved(vcpus=96, memory_bytes=0, busy_share=0, hours=4 * 365 * 24)
    assert embodied_grams(whole_host) == pytest.approx(1_610_790)


def test_a_pod_in_virginia_by_hand() -> None:
    """0.006919 kWh × 415.8 g + 4 × 0.479 g = 4.793 g an hour, over 1,000 requests."""
    footprint = sci(POD, 1_000, GRAMS_PER_KWH["us-east-1"])
    assert footprint.energy_kwh == pytest.approx(0.006919, abs=1e-6)
    assert footprint.operation_grams == pytest.approx(2.877, abs=0.001)
    assert footprint.embodied_grams == pytest.approx(1.916, abs=0.001)
    assert footprint.grams_per_request == pytest.approx(4.793e-3, abs=1e-6)


def test_pods_and_carbon_are_in_proportion() -> None:
    """The article's factor: 51 pods against one, for the same requests in the same time, equally busy."""
    many = msgspec.structs.replace(POD, vcpus=51 * 4, memory_bytes=51 * 8e9)
    ratio = sci(many, 10**6, 338.0).grams_per_request / sci(POD, 10**6, 338.0).grams_per_request
    assert ratio == pytest.approx(51)


@given(amounts, amounts, shares, st.integers(1, 10**9), st.integers(1, 10**9))
def test_failed_requests_keep_their_carbon(
    vcpus: float, hours: float, busy: float, successes: int, failures: int
) -> None:
    """What was reserved does not depend on the outcome: fewer successes, more for each."""
    reserved = Reserved(vcpus=vcpus, memory_bytes=1e9, busy_share=busy, hours=hours)
    all_well, some = sci(reserved, successes + failures, 52.0), sci(reserved, successes, 52.0)
    assert some.operation_grams == all_well.operation_grams
    assert some.grams_per_request * successes == pytest.approx(
        all_well.grams_per_request * (successes + failures)
    )


@given(shares, st.sampled_from(sorted(GRAMS_PER_KWH)))
def test_embodied_carbon_is_the_same_everywhere(busy: float, region: str) -> None:
    reserved = msgspec.structs.replace(POD, busy_share=busy)
    footprint = sci(reserved, 1, GRAMS_PER_KWH[region])
    assert footprint.embodied_grams == embodied_grams(POD)
    assert footprint.grams_per_request == footprint.operation_grams + footprint.embodied_grams


@pytest.mark.parametrize(
    ("change", "successes", "intensity", "words"),
    [
        ({}, 0, 52.0, "no successful request"),
        ({"busy_share": 1.01}, 1, 52.0, "busy_share"),
        ({"busy_share": -0.1}, 1, 52.0, "busy_share"),
        ({"busy_share": math.nan}, 1, 52.0, "busy_share"),
        ({"vcpus": -1.0}, 1, 52.0, "vcpus"),
        ({"hours": math.inf}, 1, 52.0, "hours"),
        ({"memory_bytes": math.nan}, 1, 52.0, "memory_bytes"),
        ({}, 1, -1.0, "grams_per_kwh"),
    ],
)
def test_refuses(change: dict[str, float], successes: int, intensity: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sci(msgspec.structs.replace(POD, **change), successes, intensity)
