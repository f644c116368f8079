"""What the pinning lab should find, against the article's reasoning and Little's law."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.expected import CARRIERS, ENDPOINTS, THREADS, Expected, expect

MODELS = (THREADS, *CARRIERS)


def cell(model: str, endpoint: str) -> Expected:
    found = expect(model, endpoint, 100, 0.2, pool=200 if model == THREADS else None)
    assert found is not None
    return found


# endpoint: (in flight, requests a second, pins a request, bystander waits) on threads, and on a loop or hub
TABLE = {
    "plain": ((100, 500.0, 0, False), (100, 500.0, 0, False)),
    "sync-striped": ((100, 500.0, 0, False), (1, 5.0, 1, True)),
    "lock-striped": ((100, 500.0, 0, False), (100, 500.0, 0, False)),
    "sync-shared": ((1, 5.0, 0, False), (1, 5.0, 1, True)),
    "lock-shared": ((1, 5.0, 0, False), (1, 5.0, 0, False)),
}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("model", MODELS)
def test_the_table(model: str, endpoint: str) -> None:
    found = cell(model, endpoint)
    in_flight, throughput_rps, pins, waits = TABLE[endpoint][model in CARRIERS]
    assert (found.upstream_in_flight, found.pins_per_request, found.bystander_waits) == (
        in_flight,
        pins,
        waits,
    )
    assert found.throughput_rps == pytest.approx(throughput_rps)
    assert found.latency_p50_s == pytest.approx(20.0 if found.throughput_rps == 5 else 0.2)


@given(
    st.sampled_from(MODELS),
    st.sampled_from(list(ENDPOINTS)),
    st.integers(1, 1000),
    st.floats(0.001, 60),
    st.integers(1, 8),
)
def test_littles_law_holds_in_a_closed_system(
    model: str, endpoint: str, clients: int, w_s: float, workers: int
) -> None:
    found = expect(model, endpoint, clients, w_s, workers=workers)
    assert found is not None
    assert found.throughput_rps * found.latency_p50_s == pytest.approx(clients)
    assert found.throughput_rps * w_s == pytest.approx(found.upstream_in_flight)
    assert 1 <= found.upstream_in_flight <= clients


def test_a_pool_smaller_than_its_clients_binds() -> None:
    found = expect(THREADS, "plain", 100, 0.2, pool=10)
    assert found is not None
    assert found.upstream_in_flight == 10
    assert found.latency_p50_s == pytest.approx(2.0)


def test_each_worker_is_a_carrier_with_locks_of_its_own() -> None:
    for endpoint in ("sync-striped", "sync-shared", "lock-shared"):
        found = expect("asyncio", endpoint, 100, 0.2, workers=3)
        assert found is not None
        assert found.upstream_in_flight == 3


def test_of_a_stranger_nothing_is_known() -> None:
    assert expect("aiohttp", "plain", 100, 0.2) is None
    assert expect("asyncio", "deadlock", 100, 0.2) is None


@pytest.mark.parametrize(
    ("model", "endpoint", "waited_s", "met"),
    [
        ("asyncio", "sync-shared", 0.1, True),
        ("asyncio", "sync-shared", 0.099, False),
        ("asyncio", "lock-shared", 0.099, True),
        ("asyncio", "lock-shared", 5.0, False),
        (THREADS, "sync-shared", 0.002, True),
    ],
)
def test_a_bystander_waits_where_it_should_and_nowhere_else(
    model: str, endpoint: str, waited_s: float, met: bool
) -> None:
    assert cell(model, endpoint).is_met_by(waited_s) == met
