"""The lab without pods: what is asked in which order, and what becomes of broken and invalid runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from synthetic import make_run

from harness import held, lab, preflight, scenario, targets
from harness.errors import ScenarioError, TargetError
from harness.expected import ENDPOINTS, PREFIX
from harness.run import Bystander, Concurrency, HandlerPins, Run
from harness.scenario import Scenario
from harness.targets import Target

PINNING = scenario.load("pinning")
ALL = targets.load_targets()
HOST = preflight.Host(cpus=(0, 1), descriptors=20_000, ports=28_232)


def run_of(target: Target, part: Scenario, *, pins: int = 0, elsewhere: int = 0, **changes: Any) -> Run:
    """A run that asked `part` of `target`; `pins` of its own handler, and some elsewhere, on 100 requests."""
    found = {part.load.route: HandlerPins(count=pins, seconds=0.2 * pins)} if pins else {}
    found |= {"accept": HandlerPins(count=elsewhere, seconds=0.001)} if elsewhere else {}
    run = make_run(500.0, target=target.name, throughput_rps=5.0, **changes)
    return msgspec.structs.replace(
        run,
        scenario=part,
        concurrency=Concurrency(upstream_mean=1.0),
        pins=held.pins(found, 100),
        bystander=Bystander(route="/health", timeout_s=5.0, n=375, unanswered=0, p50=0.002, p99=0.01),
    )


def test_every_endpoint_of_every_target_is_asked_in_a_new_order_each_time() -> None:
    asked: list[tuple[str, str]] = []

    def run_once(target: Target, part: Scenario) -> Run:
        asked.append((target.name, part.load.route))
        return run_of(target, part)

    found = [ALL[name] for name in lab.TARGETS]
    cells = lab.run(PINNING, found, 3, run_once)
    assert set(Counter(asked).values()) == {3}
    assert {route for _, route in asked} == {PREFIX + endpoint for endpoint in ENDPOINTS}
    repeats = [asked[:20], asked[20:40], asked[40:]]
    assert all(len(set(repeat)) == 20 for repeat in repeats), "interleaved: each repeat asks everything"
    assert repeats[0] != repeats[1]
    assert [(cell.endpoint, cell.target) for cell in cells] == [
        (endpoint, name) for endpoint in ENDPOINTS for name in lab.TARGETS
    ]
    assert all(cell.valid and cell.runs == 3 for cell in cells)
    first = asked.copy()
    asked.clear()
    lab.run(PINNING, found, 3, run_once)
    assert asked == first, "the order is the seed's"


def test_a_cell_has_the_medians_of_its_runs_and_what_was_expected() -> None:
    part = lab.asking(PINNING, "sync-striped")
    runs = [run_of(ALL["asyncio"], part, pins=pins, elsewhere=1) for pins in (99, 100, 101)]
    found = lab.cell("asyncio", "sync-striped", runs)
    assert found.measured == {
        "ok": 150,
        "throughput_rps": 5.0,
        "upstream_in_flight": 1.0,
        "pins": 101,
        "pins_per_request": 1.01,
        "attributed_share": 1.0,
        "latency_p50_s": None,
        "bystander_p50_s": 0.002,
        "bystander_p99_s": 0.01,
    }
    assert found.expected is not None
    assert (found.expected.throughput_rps, found.expected.pins_per_request) == (5.0, 1)


@pytest.mark.parametrize(
    ("target", "endpoint", "pins", "share"),
    [
        ("asyncio", "sync-striped", 100, 1.0),
        ("trio", "sync-shared", 98, 0.98),
        ("gevent", "sync-shared", 0, 0.0),
        ("asyncio", "lock-shared", 3, None),
        ("threadpool", "sync-shared", 0, None),
    ],
)
def test_a_pin_is_its_own_handlers_or_missed(
    target: str, endpoint: str, pins: int, share: float | None
) -> None:
    run = run_of(ALL[target], lab.asking(PINNING, endpoint), pins=pins, elsewhere=2)
    assert lab.FIGURES["attributed_share"](run) == share


def test_without_a_monitor_or_a_bystander_their_figures_are_empty() -> None:
    run = run_of(ALL["asyncio"], lab.asking(PINNING, "sync-shared"))
    run = msgspec.structs.replace(run, pins=None, bystander=None)
    empty = {name for name, read in lab.FIGURES.items() if read(run) is None}
    assert empty == {
        *("pins", "pins_per_request", "attributed_share", "bystander_p50_s", "bystander_p99_s"),
        "latency_p50_s",
    }


def test_an_invalid_or_broken_run_gives_only_its_reason() -> None:
    def run_once(target: Target, part: Scenario) -> Run:
        if part.load.route.endswith("plain"):
            raise TargetError("it fell over\nand said more")
        return run_of(
            target, part, failed_checks=("unsent",) if part.load.route.endswith("lock-shared") else ()
        )

    cells = {cell.endpoint: cell for cell in lab.run(PINNING, [ALL["trio"]], 1, run_once)}
    assert cells["plain"].reasons == ("it fell over",)
    assert "unsent" in cells["lock-shared"].reasons[0]
    for endpoint in ("plain", "lock-shared"):
        assert (cells[endpoint].valid, cells[endpoint].runs) == (False, 0)
        assert set(cells[endpoint].measured.values()) == {None}
    assert cells["sync-shared"].valid


def test_what_is_no_lab_is_refused_before_anything_starts() -> None:
    with pytest.raises(ScenarioError, match='arrivals = "closed"'):
        lab.check(scenario.load("rag"), [ALL["asyncio"]], HOST)
    with pytest.raises(ScenarioError, match='hold = "on"'):
        lab.check(scenario.load("pinning", {"pod.hold": "off"}), [ALL["asyncio"]], HOST)
    own = msgspec.structs.replace(ALL["asyncio"], name="mine", options={})
    with pytest.raises(ScenarioError, match="no such option"):
        lab.check(PINNING, [own], HOST)
    lab.check(PINNING, [ALL[name] for name in lab.TARGETS], HOST)
