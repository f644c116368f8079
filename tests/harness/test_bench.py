"""A row of the table from runs: which parts are run, in which order, and what an invalid or broken one gives."""

from __future__ import annotations

import msgspec
import pytest

from harness import bench, preflight, scenario, targets
from harness.errors import TargetError
from harness.run import (
    Concurrency,
    Latency,
    Machine,
    MeanPeak,
    Phases,
    Prediction,
    Resources,
    Run,
    Source,
    Summary,
    Target,
)
from harness.scenario import Scenario
from harness.validity import Verdict

HOST = preflight.Host(cpus=(0, 1), descriptors=20_000, ports=28_232)
RAG = scenario.load("rag")
ALL = targets.load_targets()


def run_of(target: targets.Target, part: Scenario, *, valid: bool = True, p99: float = 20.08) -> Run:
    """A run that carried what its pod can."""
    pod = preflight.forecast(part, target, HOST)
    carried = min(part.load.rate_rps, pod.binding.rate_max_rps)
    latency = Latency(n=500, p50=20.02, p99=p99)
    return Run(
        id=f"{target.name}-{part.load.regime}",
        created="2026-01-01T00:00:00+00:00",
        model=target.model,
        target=Target(name=target.name, argv=(), workers=1),
        scenario=part,
        machine=Machine(cpus=2, model_name="x", memory_bytes=1, kernel="x", python="x", class_name="x"),
        versions={},
        source=Source(),
        phases=Phases(t0_s=0, window_start_s=25, window_end_s=85, drain_end_s=105),
        summary=Summary(
            planned=500,
            sent=500,
            unsent=0,
            completed=500,
            failed=0,
            refused=0,
            timed_out=0,
            unfinished=0,
            throughput_rps=carried,
            latency_s=latency,
            service_s=latency,
        ),
        resources=Resources(rss_bytes=MeanPeak(mean=30e6, peak=31e6), cpu_percent=3.0),
        concurrency=Concurrency(handlers_mean=carried * part.w_s),
        prediction=Prediction(
            rate_max_rps=pod.binding.rate_max_rps, bound_by=pod.binding.resource, ratio=1.0
        ),
        verdict=Verdict(valid=valid, checks=(), reason="" if valid else "failures"),
    )


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
    p99s = iter((20.03, 20.09, 20.05))
    (row,) = bench.bench(
        RAG, [ALL["trio"]], HOST, 3, lambda target, part: run_of(target, part, p99=next(p99s))
    )
    assert row.p99_s == 20.05


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
