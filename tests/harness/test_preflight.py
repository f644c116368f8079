"""The layout of a run is arithmetic over the machine's limits; what does not fit is refused with the numbers."""

from __future__ import annotations

import pytest

from harness import preflight, scenario, targets
from harness.errors import ScenarioError

HOST = preflight.Host(cpus=(0, 1), descriptors=20_000, ports=28_232)


def layout(
    target: str = "asyncio", host: preflight.Host = HOST, name: str = "rag", **changes: str
) -> preflight.Layout:
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    return preflight.plan(
        scenario.load(name, overrides), targets.get_target(target, targets.load_targets()), host
    )


# rate, pod workers, generator and upstream processes: W = 20.02 s, 9,968 places in a process, 5 % kept free.
@pytest.mark.parametrize(
    ("rate", "workers", "generators", "upstreams"),
    [("450", 1, 1, 1), ("473", 1, 1, 1), ("474", 2, 1, 1), ("500", 2, 1, 1), ("1000", 3, 2, 2)],
)
def test_auto_takes_the_fewest_processes_that_the_descriptors_allow(
    rate: str, workers: int, generators: int, upstreams: int
) -> None:
    found = layout(rate=rate)
    assert (found.workers, found.generators, found.upstreams) == (workers, generators, upstreams)
    assert any(f"workers: {workers}, the fewest" in note for note in found.notes)


def test_the_pool_binds_and_is_the_prediction() -> None:
    found = layout("threadpool", rate="9")
    assert found.binding.resource == "pool"
    assert found.binding.rate_max_rps == pytest.approx(200 / 20.02)
    assert found.in_flight == pytest.approx(9 * 20.02)
    assert layout("threadpool", rate="11").in_flight == 200, "no more than the pool holds"


def test_a_pool_of_each_worker_counts() -> None:
    assert layout("threadpool", rate="9", pod__workers="3").binding.rate_max_rps == pytest.approx(600 / 20.02)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rate": "1000", "pod__workers": "2"}, "pod.workers to 3 or more"),
        ({"rate": "500", "pod__descriptors": "300000"}, "pod.descriptors"),
        ({"rate": "500", "pod__descriptors": "64"}, "pod.descriptors"),
        ({"rate": "20000"}, "too few ports"),
        ({"target": "threadpool", "rate": "500"}, "its pool carries 9.99/s"),
        ({"pod__threads": "9"}, "pod.threads"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_remedy(changes: dict[str, str], said: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        layout(changes.pop("target", "asyncio"), **changes)  # type: ignore[arg-type]
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_saturated_pool_needs_descriptors_for_its_growing_queue() -> None:
    small = preflight.Host(cpus=(0, 1), descriptors=700, ports=28_232)
    changes = {"rate": "20", "load__regime": "saturated"}
    with pytest.raises(ScenarioError, match="too few descriptors"):
        layout("threadpool", small, **changes)
    assert layout("threadpool", small, rate="9").workers == 1


@pytest.mark.parametrize(
    ("cpus", "asked", "pod", "harness", "shared"),
    [
        ((0, 1), "1", (1,), (0,), False),
        ((0, 1, 2, 3), "1", (3,), (0, 1, 2), False),
        ((0, 1), "2", (0, 1), (0, 1), True),
        ((0, 1), "0", (0, 1), (0, 1), True),
        ((0,), "1", (0,), (0,), True),
    ],
)
def test_cpus_are_apart_where_there_are_enough_and_a_note_says_where_not(
    cpus: tuple[int, ...], asked: str, pod: tuple[int, ...], harness: tuple[int, ...], shared: bool
) -> None:
    host = preflight.Host(cpus=cpus, descriptors=20_000, ports=28_232)
    found = layout(host=host, rate="400", pod__cpus=asked)
    assert (found.pod_cpus, found.harness_cpus, found.shared_cpus) == (pod, harness, shared)
    assert any("share" in note for note in found.notes) == shared


def test_a_closed_load_is_in_flight_with_its_clients_and_sent_by_one_process() -> None:
    found = layout(name="pinning")
    assert (found.in_flight, found.generators, found.workers) == (100, 1, 1)
    many = layout("threadpool", name="pinning", load__clients="5000")
    assert (many.in_flight, many.generators) == (200, 1), (
        "the pool holds no more, the others wait at the client"
    )
    with pytest.raises(ScenarioError, match=r"load.clients: 19,000 need more than .* use at most 18,878"):
        layout("threadpool", name="pinning", load__clients="19000")
    with pytest.raises(ScenarioError, match=r"too few descriptors.* or lower load.clients"):
        layout(name="pinning", load__clients="30000", pod__workers="1")


def test_this_machine_has_limits() -> None:
    here = preflight.Host.here()
    assert here.cpus
    assert here.descriptors > 100
    assert here.ports > 1000


@pytest.mark.parametrize(
    ("target", "changes", "in_flight", "sources"),
    [
        ("asyncio", {}, 610, 4),  # 10 with a connection, and 300/s × 2 s in line
        ("threadpool", {}, 200, 4),
        ("asyncio", {"pod__permits": "10"}, 40, 4),
        ("threadpool", {"pod__permits": "10"}, 40, 4),
        ("trio", {"rate": "50"}, 5, 4),
    ],
)
def test_before_a_database_the_connections_bind(
    target: str, changes: dict[str, str], in_flight: float, sources: int
) -> None:
    found = layout(target, HOST, "admission", **changes)
    assert found.binding.resource == "connections"
    assert found.binding.rate_max_rps == pytest.approx(100)
    assert found.in_flight == pytest.approx(in_flight)
    assert (found.workers, found.sources) == (1, sources)


def test_fewer_permits_than_connections_bind() -> None:
    found = layout(name="admission", pod__permits="4")
    assert found.binding.resource == "permits"
    assert found.binding.rate_max_rps == pytest.approx(40)
    assert layout(name="admission", pod__workers="2").binding.rate_max_rps == pytest.approx(200)


def test_a_database_without_a_connection_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"pod\.connections: .* asyncio no connection"):
        layout(name="admission", pod__connections="0")


def test_no_more_are_in_flight_at_the_client_than_it_may_have() -> None:
    small = preflight.Host(cpus=(0, 1), descriptors=2_400, ports=28_232)
    assert layout("threadpool", small, name="admission").workers == 1
    with pytest.raises(ScenarioError, match="too few descriptors"):
        layout("threadpool", small, name="admission", load__in_flight_max="3000")
