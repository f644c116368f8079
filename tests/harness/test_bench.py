"""A row of the table from runs: which parts are run, in which order, and what an invalid or broken one gives."""

from __future__ import annotations

import msgspec
import pytest
from synthetic import make_run

from harness import bench, preflight, scenario, targets
from harness.errors import TargetError
from harness.run import Prediction, Run
from harness.scenario import Scenario

HOST = preflight.Host(cpus=(0, 1), descriptors=20_000, ports=28_232)
RAG = scenario.load("rag")
ALL = targets.load_targets()


def run_of(target: targets.Target, part: Scenario, *, valid: bool = True, overhead_s: float = 0.06) -> Run:
    """A run that carried what its pod can."""
    binding = preflight.forecast(part, target, HOST).binding
    run = make_run(
        part.load.rate_rps,
        w_s=part.w_s,
        overhead_s=overhead_s,
        throughput_rps=min(part.load.rate_rps, binding.rate_max_rps),
        failed_checks=() if valid else ("failures",),
        target=target.name,
        run_id=f"{target.name}-{part.load.regime}",
    )
    predicted = Prediction(rate_max_rps=binding.rate_max_rps, bound_by=binding.resource, ratio=1.0)
    return msgspec.structs.replace(run, scenario=part, prediction=predicted)


def test_a_small_pool_is_run_above_and_below_its_capacity() -> None:
    (row,) = bench.bench(RAG, [ALL["threadpool"]], HOST, 1, run_of)
    assert row.rate_max_rps == pytest.approx(9.99, abs=0.001)
    assert not row.rate_max_at_least
    assert row.pods == 51
    assert row.concurrency == pytest.approx(0.98 * 200)
    assert row.bound_by == "pool"
    assert row.runs == ("threadpool-saturated", "threadpool-steady")
    assert row.valid


def test_a_pod_that_carries_the_rate_is_run_once_and_its_limit_is_not_claimed() -> None:
    (row,) = bench.bench(RAG, [ALL["asyncio"]], HOST, 1, run_of)
    assert row.rate_max_at_least
    assert row.pods == 1
    assert row.predicted_rps is None
    assert row.runs == ("asyncio-steady",)


def test_the_row_is_the_median_of_its_repeats() -> None:
    overheads_s = iter((0.01, 0.07, 0.03))
    (row,) = bench.bench(
        RAG, [ALL["trio"]], HOST, 3, lambda target, part: run_of(target, part, overhead_s=next(overheads_s))
    )
    assert row.p99_s == pytest.approx(20.05)


def test_an_invalid_run_gives_its_reason_and_no_figure() -> None:
    (row,) = bench.bench(
        RAG, [ALL["asyncio"]], HOST, 1, lambda target, part: run_of(target, part, valid=False)
    )
    assert not row.valid
    assert row.reasons == ("asyncio-steady: failures",)
    assert (row.rate_max_rps, row.p99_s, row.rss_bytes, row.pods) == (None, None, None, None)


def test_several_targets_are_interleaved_in_an_order_of_each_repeat() -> None:
    order: list[list[str]] = [[]]

    def run_once(target: targets.Target, part: Scenario) -> Run:
        if len(order[-1]) == 5:
            order.append([])
        order[-1].append(f"{target.name} {part.load.regime}")
        return run_of(target, part)

    chosen = [ALL[name] for name in ("threadpool", "asyncio", "trio", "gevent")]
    rows = bench.bench(RAG, chosen, HOST, 6, run_once)
    assert [row.target for row in rows] == ["threadpool", "asyncio", "trio", "gevent"]
    assert all(sorted(each) == sorted(order[0]) for each in order), "each repeat runs everything once"
    assert len({tuple(each) for each in order}) > 1, "in different orders"


def test_one_broken_target_costs_its_own_row_only() -> None:
    def run_once(target: targets.Target, part: Scenario) -> Run:
        if target.name == "trio":
            raise TargetError("trio ended during the run\nlog…")
        return run_of(target, part)

    asyncio, trio = bench.bench(RAG, [ALL["asyncio"], ALL["trio"]], HOST, 1, run_once)
    assert asyncio.valid
    assert not trio.valid
    assert trio.reasons == ("trio ended during the run",)
    with pytest.raises(TargetError):
        bench.bench(RAG, [ALL["trio"]], HOST, 1, run_once)


def test_parts_are_whole_scenarios() -> None:
    pod = preflight.forecast(RAG, ALL["threadpool"], HOST)
    above, below = bench.scenarios(RAG, pod)
    assert above.load.rate_rps > pod.binding.rate_max_rps > below.load.rate_rps
    assert (above.load.regime, below.load.regime) == ("saturated", "steady")
    assert msgspec.json.decode(msgspec.json.encode(above), type=Scenario) == above
