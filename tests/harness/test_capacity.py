"""Costs against lines that are known, bounds against closed forms, and the search against simulated pods."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import W_S, make_run

from harness import little, validity
from harness import search as search_module
from harness.capacity import ADVICE, Cost, Costs, PodLimits, explain, fit, predict, rate_max
from harness.errors import MeasurementError
from harness.run import Pauses, Run
from harness.search import Outcome, Trial, assess, enclose, hidden_pool, next_rate, search

COSTS = Costs(
    target="asyncio",
    runs=4,
    cpu_s=Cost(0.0, 0.0006, 0.00058, 0.00062),
    memory_bytes=Cost(40e6, 6_400.0, 6_300.0, 6_500.0),
    descriptors=Cost(20.0, 2.0),
    threads=Cost(2.0, 0.0),
    pause_s=Cost(0.0, 0.0),
)


def bounds(
    costs: Costs, limits: PodLimits, w_s: float = W_S, workers: int = 1, **more: float
) -> dict[str, float]:
    return {bound.resource: bound.rate_max_rps for bound in predict(costs, limits, w_s, workers, **more)}


# Costs


def paused(pause_s: float, share: float = 0.1) -> Pauses:
    return Pauses(max=pause_s, total=share * 4 * W_S, count=3)


def linear_run(rate_rps: float, workers: int = 1) -> Run:
    """A pod with idle CPU, and memory that the first requests allocate for good; per process."""
    per = rate_rps / workers
    held = per * W_S
    rest, peak = 40e6, 45e6 + 6_400 * held
    return make_run(
        rate_rps,
        workers=workers,
        cpu_s=(0.01 + 0.0006 * per) / per,
        rest_bytes=rest * workers,
        each_bytes=(peak - rest) / held,
        descriptors=(20 + 2 * held) * workers,
        threads=(3 + held) * workers,
        pauses=paused(0.004 + 8e-6 * held),
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_two_rates_give_the_slope_whatever_stands_at_rest(workers: int) -> None:
    costs = fit([linear_run(60.0, workers), linear_run(180.0, workers)])
    for cost, rest, each in (
        (costs.cpu_s, 0.01, 0.0006),
        (costs.memory_bytes, 45e6, 6_400),
        (costs.descriptors, 20, 2),
        (costs.threads, 3, 1),
        (costs.pause_s, 0.004 if workers == 1 else None, 8e-6),
    ):
        assert cost is not None
        assert cost.each == pytest.approx(each)
        assert rest is None or cost.at_rest == pytest.approx(rest)
        assert (cost.low, cost.high) == (None, None)
        assert cost.residual < 1e-9


def test_one_rate_assumes_what_stands_at_rest() -> None:
    costs = fit([linear_run(150.0), linear_run(150.0)])
    held = 150 * W_S
    for cost, rest, each in (
        (costs.cpu_s, 0, 0.01 / 150 + 0.0006),
        (costs.memory_bytes, 40e6, 6_400 + 5e6 / held),
        (costs.descriptors, 20, 2),
        (costs.threads, 3 + held, 0),
        (costs.pause_s, 0.004 + 8e-6 * held, 0),
    ):
        assert cost is not None
        assert (cost.at_rest, cost.each) == pytest.approx((rest, each))


def test_a_fit_is_numpys_least_squares_with_an_interval_that_covers() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        rates = [50.0, 50.0, 100.0, 100.0, 150.0, 150.0]
        runs = [make_run(rate, cpu_s=0.0006 + rng.normal(0, 0.00002)) for rate in rates]
        cost = fit(runs).cpu_s
        assert cost is not None
        assert cost.low is not None
        assert cost.high is not None
        if cost.at_rest > 0:
            cores = [(run.resources.cpu_s_per_request or 0) * run.scenario.load.rate_rps for run in runs]
            assert (cost.each, cost.at_rest) == pytest.approx(tuple(np.polyfit(rates, cores, 1)))
        covered += cost.low <= 0.0006 <= cost.high
    assert covered >= 180


def queued(busy: float, base_s: float, rise_s: float) -> Run:
    """A run at which the CPU is so busy, and p99 above W what a queue of one server would make it."""
    rate_rps = busy / 0.004
    return make_run(rate_rps, cpu_s=0.004, overhead_s=base_s + rise_s * busy / (1 - busy))


def test_how_requests_queue_is_fitted_where_runs_were_busy_enough() -> None:
    queue = fit([queued(busy, 0.006, 0.002) for busy in (0.3, 0.8)]).queue_s
    assert queue is not None
    assert (queue.at_rest, queue.each) == pytest.approx((0.006, 0.002))
    assert fit([queued(busy, 0.006, 0.002) for busy in (0.1, 0.3)]).queue_s is None
    shrinking = fit([queued(0.3, 0.006, 0.0), queued(0.8, 0.004, 0.0)]).queue_s
    assert shrinking is not None
    assert (shrinking.at_rest, shrinking.each) == pytest.approx((0.005, 0.0))


@pytest.mark.parametrize("rise_s", [0.0, 0.0005, 0.002, 0.02])
def test_a_fitted_queue_bounds_the_rate_where_it_eats_the_slack(rise_s: float) -> None:
    costs = fit([queued(busy, 0.006, rise_s) for busy in (0.3, 0.8)])
    rate_rps = bounds(costs, PodLimits(cpus=1), slack_s=0.05)["cpu"]
    queue = (0.05 - 0.006) / rise_s if rise_s else math.inf
    busy = queue / (1 + queue) if rise_s else 1.0
    assert rate_rps == pytest.approx(busy / 0.004)


def test_nothing_takes_less_than_nothing_at_rest() -> None:
    """Noise that would say so: CPU per request rises with the rate, and the line would start below zero."""
    cost = fit([make_run(50.0, cpu_s=0.00058), make_run(150.0, cpu_s=0.00062)]).cpu_s
    assert cost is not None
    assert cost.at_rest == 0
    assert cost.each == pytest.approx(0.0006)
    assert cost.residual == pytest.approx(0.02 / 0.6, rel=0.01)


def test_collections_that_few_requests_meet_do_not_count() -> None:
    for share, pause_s in ((0.0033, 0.0), (0.0034, 0.05)):
        cost = fit([make_run(pauses=paused(0.05, share))]).pause_s
        assert cost is not None
        assert cost.at_rest == pause_s


def test_only_valid_steady_runs_count() -> None:
    good = make_run(cpu_s=0.0006)
    others = [make_run(cpu_s=0.9, failed_checks=("drift",)), make_run(cpu_s=0.9, regime="saturated")]
    assert fit([*others, good]) == fit([good])
    with pytest.raises(MeasurementError, match="none of 2 runs is valid and steady"):
        fit(others)
    with pytest.raises(MeasurementError, match="none of 0"):
        fit([])


def test_runs_of_different_pods_have_no_common_cost() -> None:
    for other in (make_run(target="trio"), make_run(options={"gc": "off"})):
        with pytest.raises(MeasurementError, match="2 targets or options"):
            fit([make_run(), other])


def test_what_was_not_measured_is_none() -> None:
    costs = fit([make_run(cpu_s=None, rest_bytes=None, descriptors=None, threads=None)])
    assert costs == Costs(target="asyncio", runs=1)


# Bounds


def test_each_resource_by_hand() -> None:
    limits = PodLimits(cpus=1, memory_bytes=2**30, descriptors=20_000, ports=28_232, pool=200, permits=100)
    found = bounds(COSTS, limits)
    assert list(found) == ["pool", "permits", "cpu", "memory", "descriptors", "ports"]
    assert found["pool"] == pytest.approx(200 / W_S)
    assert found["permits"] == pytest.approx(100 / W_S)
    # p99 = c ln 100 / (1 − ρ) = 0.01 W
    assert found["cpu"] == pytest.approx((1 - 0.0006 * math.log(100) / (0.01 * W_S)) / 0.0006)
    assert found["memory"] == pytest.approx(int((2**30 - 40e6) / 6_400) / W_S)
    assert found["descriptors"] == pytest.approx(9_990 / W_S)
    assert found["ports"] == pytest.approx(28_232 / W_S)


def test_limits_of_a_process_and_of_the_pod() -> None:
    """Three workers: three times the pool, the descriptors and (with CPUs) the CPU, the same memory, less rest."""
    limits = PodLimits(cpus=4, memory_bytes=2**30, descriptors=20_000, pool=200)
    one, three = bounds(COSTS, limits), bounds(COSTS, limits, workers=3)
    for resource in ("pool", "descriptors", "cpu"):
        assert three[resource] == pytest.approx(3 * one[resource])
    assert three["memory"] == pytest.approx(int((2**30 - 120e6) / 6_400) / W_S)


@pytest.mark.parametrize(("cpus", "workers", "cores"), [(0, 3, 3), (2, 3, 2), (4, 3, 3), (1, 1, 1)])
def test_cores_that_can_be_kept_busy(cpus: int, workers: int, cores: int) -> None:
    assert PodLimits(cpus=cpus).cores(workers) == cores


def test_the_article_pool_binds_and_says_so() -> None:
    found = predict(COSTS, PodLimits(cpus=1, descriptors=20_000, pool=200), 20.02, 1)
    bound = little.binding(found)
    assert bound.resource == "pool"
    assert bound.rate_max_rps == pytest.approx(9.99, abs=0.001)
    assert explain(bound) == (
        "pool: 9.99/s; 200 threads × 1 workers, each held for 20.02 s; "
        "raise the pool (--set pod.threads=…), or add workers"
    )


def test_every_resource_has_advice() -> None:
    limits = PodLimits(cpus=1, memory_bytes=2**30, descriptors=20_000, ports=28_232, pool=200, permits=100)
    for bound in predict(with_pause(0.001, 8e-6), limits, W_S, 1):
        assert bound.resource in ADVICE
        assert bound.detail in explain(bound)


def with_pause(rest_s: float, each_s: float) -> Costs:
    return Costs(target="asyncio", runs=2, cpu_s=Cost(0.0, 0.0006), pause_s=Cost(rest_s, each_s))


def test_the_larger_eater_of_the_slack_is_blamed() -> None:
    """Collections of 8 µs a request in flight: at W = 2 s they reach 20 ms at 2,500 in flight, before the CPU."""
    collector = little.binding(predict(with_pause(0.0, 8e-6), PodLimits(cpus=1), W_S, 1))
    assert collector.resource == "latency"
    assert collector.rate_max_rps < 0.01 / 8e-6
    queue = little.binding(predict(with_pause(0.0, 1e-6), PodLimits(cpus=1), W_S, 1))
    assert queue.resource == "cpu"
    assert queue.rate_max_rps < bounds(COSTS, PodLimits(cpus=1))["cpu"]


@given(st.floats(0, 0.01), st.floats(0, 1e-5), st.floats(1e-4, 1e-2), st.integers(1, 4), st.integers(1, 4))
def test_at_the_bound_the_slack_is_used_up(
    rest_s: float, each_s: float, cpu_s: float, cpus: int, workers: int
) -> None:
    costs = Costs(target="x", runs=1, cpu_s=Cost(0.0, cpu_s), pause_s=Cost(rest_s, each_s))
    slack_s, w_s, cores = 0.2, 20.0, min(cpus, workers)
    found = predict(costs, PodLimits(cpus=cpus), w_s, workers, slack_s)
    rate = little.binding(found).rate_max_rps
    queue_s = cpu_s * math.log(100) / (1 - rate * cpu_s / cores)
    assert queue_s + rest_s + each_s * rate * w_s / workers == pytest.approx(slack_s, rel=1e-3)
    # Alone, neither would bind earlier than both together.
    assert all(bound.rate_max_rps >= rate for bound in found)


def test_a_goal_that_a_lone_request_misses() -> None:
    for costs, slack_s in ((with_pause(0.0, 0.0), 0.001), (with_pause(0.03, 0.0), 0.02)):
        bound = little.binding(predict(costs, PodLimits(cpus=1), W_S, 1, slack_s))
        assert (bound.resource, bound.rate_max_rps, bound.limit) == ("latency", 0.0, 0)
        assert "the goal leaves" in bound.detail


def test_idle_work_takes_its_part_of_the_cpu() -> None:
    idle = Costs(target="x", runs=2, cpu_s=Cost(0.5, 0.0006))
    assert bounds(idle, PodLimits(cpus=1))["cpu"] == pytest.approx(
        (0.5 - 0.0006 * math.log(100) / (0.01 * W_S)) / 0.0006
    )
    assert bounds(idle, PodLimits(cpus=1), workers=2) == {"latency": 0.0}


def test_memory_or_descriptors_that_rest_takes_all_of() -> None:
    found = bounds(COSTS, PodLimits(memory_bytes=30_000_000, descriptors=10))
    assert (found["memory"], found["descriptors"]) == (0, 0)


def test_what_was_not_measured_bounds_nothing() -> None:
    bare = Costs(target="x", runs=1)
    assert bounds(bare, PodLimits(memory_bytes=1, descriptors=1, pool=5)) == {"pool": pytest.approx(5 / W_S)}
    with pytest.raises(MeasurementError, match="x: nothing that could bind"):
        predict(bare, PodLimits(memory_bytes=1), W_S, 1)
    flat = Costs(target="x", runs=1, memory_bytes=Cost(1e6, -1.0), descriptors=Cost(9.0, 0.0))
    assert bounds(flat, PodLimits(memory_bytes=2**30, descriptors=99, pool=5)).keys() == {"pool"}


def test_the_costs_intervals_become_that_of_the_rate() -> None:
    estimate = rate_max(COSTS, PodLimits(cpus=1), W_S, 1)
    for cost_s, rate in ((0.0006, estimate.value), (0.00062, estimate.low), (0.00058, estimate.high)):
        assert rate == pytest.approx((1 - cost_s * math.log(100) / (0.01 * W_S)) / cost_s)
    pool = rate_max(COSTS, PodLimits(pool=200), W_S, 1)
    assert pool.low == pool.value == pool.high


@given(st.floats(0.0003, 0.003))
@settings(max_examples=20)
def test_the_queue_errs_on_the_safe_side(cpu_s: float) -> None:
    """A simulated queue at the predicted rate: one visit of exponential length; its p99 is at the goal."""
    slack_s = 0.05
    rate = bounds(Costs(target="x", runs=1, cpu_s=Cost(0.0, cpu_s)), PodLimits(cpus=1), slack_s=slack_s)[
        "cpu"
    ]
    rng = np.random.default_rng(1)
    n = 60_000
    between, served = rng.exponential(1 / rate, n), rng.exponential(cpu_s, n)
    # Lindley's recursion, as the distance of a walk from its lowest point.
    walk = np.concatenate([[0.0], np.cumsum(served[:-1] - between[1:])])
    waits = walk - np.minimum.accumulate(walk)
    p99 = float(np.quantile(waits + served, 0.99))
    assert p99 == pytest.approx(slack_s, rel=0.35)
    regular = np.concatenate([[0.0], np.cumsum(served[:-1] - 1 / rate)])
    assert float(np.quantile(regular - np.minimum.accumulate(regular) + served, 0.99)) < slack_s


# Trials


def test_every_check_of_the_verdict_is_sorted_once() -> None:
    names = {rule.name for rule in validity.RULES}
    kinds = [getattr(search_module, kind) for kind in ("_INSTRUMENT", "_POD", "_PILED_UP", "_UNSTEADY")]
    assert set().union(*kinds) <= names
    assert sum(map(len, kinds)) == len(set().union(*kinds))


@pytest.mark.parametrize(
    ("failed", "overhead_s", "outcome"),
    [
        ((), 0.008, "passed"),
        ((), 0.02, "passed"),
        ((), 0.0201, "failed"),
        (("drift",), 0.008, "failed"),
        (("unsent",), 0.008, "instrument"),
        (("unsent", "unfinished"), 0.5, "failed"),
        (("unsent",), 0.5, "failed"),
        (("send_lag_p99",), 0.5, "instrument"),
        (("send_lag_p99", "failures"), 0.5, "instrument"),
        (("cpu_steal",), 0.5, "spoilt"),
        (("cpu_steal", "drift"), 0.5, "spoilt"),
        (("upstream_cpu", "cpu_steal"), 0.008, "instrument"),
        (("little_client",), 0.008, "spoilt"),
        (("little_client", "drift"), 0.008, "failed"),
        (("source_unchanged",), 0.008, "spoilt"),
        ((), None, "spoilt"),
        (("completions",), None, "failed"),
    ],
)
def test_whose_limit_a_run_shows(failed: tuple[str, ...], overhead_s: float | None, outcome: str) -> None:
    trial = assess(make_run(150.0, failed_checks=failed, overhead_s=overhead_s))
    assert trial.outcome == outcome
    assert bool(trial.reason) == (outcome != "passed")
    assert (trial.rate_rps, trial.throughput_rps) == (150.0, 150.0)
    assert trial.cpu_share == pytest.approx(0.09)


def test_a_stated_goal_takes_the_place_of_the_default() -> None:
    run = make_run(overhead_s=0.5)
    assert assess(run, goal_s=W_S + 0.5).outcome == "passed"
    assert assess(run, goal_s=W_S + 0.4).reason == "goal: p99 is 2.502 s, the goal 2.402 s"


# Search


def pod(capacity_rps: float, *, instrument_rps: float = math.inf) -> Callable[[float], Trial]:
    """A pod that carries exactly `capacity_rps`, under an instrument that carries `instrument_rps`."""

    def run_at(rate_rps: float) -> Trial:
        outcome: Outcome = "passed" if rate_rps <= capacity_rps else "failed"
        if rate_rps > instrument_rps:
            outcome = "instrument"
        completed = min(rate_rps, capacity_rps)
        return Trial(rate_rps=rate_rps, outcome=outcome, reason="p99", throughput_rps=completed)

    return run_at


@given(st.floats(0.1, 10_000), st.floats(0.2, 5), st.sampled_from([0.01, 0.02, 0.05]))
def test_the_search_encloses_what_a_pod_carries(capacity: float, off: float, width: float) -> None:
    found = search(pod(capacity), capacity * off, width, runs_max=30)
    assert found.ended == "narrowed"
    assert found.confirmed
    assert found.failed_at_rps is not None
    assert (
        found.rate_max_rps <= capacity < found.failed_at_rps <= found.rate_max_rps * (1 + width) * (1 + 1e-6)
    )
    assert found.prediction_error == pytest.approx(capacity * off / found.rate_max_rps - 1)


@given(st.floats(0.991, 1.009))
def test_a_good_prediction_needs_four_runs(off: float) -> None:
    found = search(pod(100.0), 100.0 * off)
    assert [trial.outcome for trial in found.trials] == ["passed", "failed", "passed", "failed"]


@given(st.floats(0.95, 1.05))
def test_a_prediction_within_five_percent_needs_eight(off: float) -> None:
    assert len(search(pod(100.0), 100.0 * off).trials) <= 8


@given(st.floats(1.2, 100), st.floats(0.9, 1))
def test_what_an_overloaded_run_completes_is_the_next_prediction(off: float, of_capacity: float) -> None:
    """However far too high the prediction: also where overload costs a tenth of the throughput."""

    def run_at(rate_rps: float) -> Trial:
        trial = pod(100.0)(rate_rps)
        if trial.outcome == "passed":
            return trial
        return msgspec.structs.replace(trial, throughput_rps=100 * of_capacity)

    assert len(search(run_at, 100.0 * off).trials) <= 10


@given(st.integers(0, 2**32), st.floats(0.9, 1.1))
def test_one_run_in_ten_that_lies_moves_the_result_by_little(seed: int, off: float) -> None:
    """A passing run that fails by chance (a neighbour took the CPU), one in ten, costs runs and not the result."""
    chance = random.Random(seed)

    def run_at(rate_rps: float) -> Trial:
        unlucky = chance.random() < 0.1
        return pod(0.0 if unlucky else 100.0)(rate_rps)

    found = search(run_at, 100.0 * off, runs_max=40)
    assert found.rate_max_rps <= 100


def test_noise_is_outvoted_nearly_always() -> None:
    chance = random.Random(3)
    off = []
    for _ in range(200):

        def run_at(rate_rps: float) -> Trial:
            return pod(0.0 if chance.random() < 0.1 else 100.0)(rate_rps)

        off.append(search(run_at, 100.0 * chance.uniform(0.95, 1.05), runs_max=40).rate_max_rps)
    assert sum(rate >= 96 for rate in off) >= 180


def test_a_soft_limit_is_found_near_its_middle() -> None:
    """Near capacity a run passes by chance: the answer is where passing and failing are about as likely."""
    chance = random.Random(5)
    found = []
    for _ in range(100):

        def run_at(rate_rps: float) -> Trial:
            return pod(chance.gauss(100.0, 1.0))(rate_rps)

        found.append(search(run_at, 100.0 * chance.uniform(0.95, 1.05), runs_max=40).rate_max_rps)
    assert 97.5 < float(np.median(found)) < 101
    assert min(found) > 93


@given(st.floats(10, 1_000), st.floats(0.3, 3))
def test_the_instruments_limit_ends_the_search(limit: float, off: float) -> None:
    found = search(pod(math.inf, instrument_rps=limit), limit * off, runs_max=30)
    assert found.ended == "instrument"
    assert found.confirmed
    assert found.failed_at_rps is None
    assert found.rate_max_rps <= limit <= found.rate_max_rps * (1 + search_module.COARSE) * (1 + 1e-6)
    seen = [trial.outcome for trial in found.trials]
    assert seen.count("instrument") >= 2
    assert "failed" not in seen


def test_the_instruments_limit_above_the_pods_does_not_matter() -> None:
    found = search(pod(100.0, instrument_rps=150.0), 200.0)
    assert found.ended == "narrowed"
    assert found.rate_max_rps <= 100 < (found.failed_at_rps or 0)


def test_a_spoilt_run_is_made_again() -> None:
    answers = iter(["spoilt", "spoilt", "passed", "failed", "instrument", "passed", "failed"])
    asked: list[float] = []

    def run_at(rate_rps: float) -> Trial:
        asked.append(rate_rps)
        return Trial(rate_rps=rate_rps, outcome=next(answers), reason="")  # type: ignore[arg-type]

    found = search(run_at, 100.0)
    assert asked == pytest.approx([99, 99, 99, 100.98, 99, 99, 100.98])
    assert found.ended == "narrowed"


def test_runs_that_stay_spoilt_end_the_search() -> None:
    with pytest.raises(MeasurementError, match=r"4 runs at 99/s were spoilt: cpu_steal"):
        search(lambda rate: Trial(rate_rps=rate, outcome="spoilt", reason="cpu_steal"), 100.0)


def test_a_pod_that_carries_nothing() -> None:
    with pytest.raises(MeasurementError, match=r"none of 20 runs passed, down to .*: p99"):
        search(pod(0.0), 100.0)


def test_out_of_runs_tells_what_is_known() -> None:
    found = search(pod(100.0), 10.0, runs_max=8)
    assert found.ended == "runs"
    assert len(found.trials) == 8
    assert not found.confirmed
    assert found.rate_max_rps <= 100


def trials(text: str) -> list[Trial]:
    """ "100+ 102-:90": passed at 100, failed at 102, completing 90; ! is the instrument's limit, ? spoilt."""
    words: dict[str, Outcome] = {"+": "passed", "-": "failed", "!": "instrument", "?": "spoilt"}
    done = []
    for word in text.split():
        run, _, completed = word.partition(":")
        throughput = float(completed) if completed else None
        done.append(Trial(rate_rps=float(run[:-1]), outcome=words[run[-1]], throughput_rps=throughput))
    return done


@pytest.mark.parametrize(
    ("tried", "following"),
    [
        ("", 99),  # just below the prediction
        ("100+", 102),
        ("100-", 100 / 1.02),
        ("100+ 102+", 102 * 1.04),
        ("100+ 102+ 106+", 106 * 1.08),
        ("100- 98-", 98 / 1.04),
        ("200-:100 ", 99),  # it completed 100/s
        ("200-:199", 200 / 1.02),
        ("200-:100 99+", 99 * 1.04),
        ("100+ 110-", 104),  # from what is known to pass, in steps
        ("100+ 103-", math.sqrt(10_300)),  # but no further than half-way
        ("100+ 102-", 100),  # confirm what passed
        ("100+ 102- 100+", 102),  # and what failed
        ("100+ 102- 100+ 102-", None),
        ("100+ 102- 100-", 100),  # a tie is broken
        ("100+ 102- 100- 100+", 102),
        ("100+ 102- 100- 100-", 100 / 1.04),  # or lost
        ("100+ 102- 100+ 102+", 102),
        ("100+ 102- 100+ 102+ 102+", 102 * 1.04),
        ("100- 110+", 100),  # nobody fails below what passes: again
        ("100- 110+ 100-", 100 / 1.04),
        ("100!", 100),  # once may be chance
        ("100! 100!", 100 / 1.02),
        ("100! 100! 98+", 98),
        ("100! 100! 98+ 98+", None),
        ("98+ 100! 100!", 98),
        ("98+ 100?", 100),
    ],
)
def test_what_to_try_next(tried: str, following: float | None) -> None:
    rate = next_rate(trials(tried), 100.0)
    assert rate == (None if following is None else pytest.approx(following))


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from("+-!")), max_size=30))
def test_a_bracket_is_in_order_and_backed_by_runs(tried: list[tuple[int, str]]) -> None:
    done = trials(" ".join(f"{rate}{sign}" for rate, sign in tried))
    bracket = enclose(done)
    if bracket.low_rps is not None:
        assert (bracket.low_rps, "passed") in {(trial.rate_rps, trial.outcome) for trial in done}
        assert bracket.high_rps is None or bracket.low_rps < bracket.high_rps
    if bracket.high_rps is not None:
        outcome = "instrument" if bracket.instrument else "failed"
        assert (bracket.high_rps, outcome) in {(trial.rate_rps, trial.outcome) for trial in done}


# A hidden pool


def overload(rate_rps: float, throughput_rps: float, cpu_share: float | None = 0.1) -> Trial:
    return Trial(rate_rps=rate_rps, outcome="failed", throughput_rps=throughput_rps, cpu_share=cpu_share)


def test_a_plateau_is_a_hidden_pool_of_its_size() -> None:
    bound = hidden_pool([overload(60, 50.1), overload(75, 49.9)], w_s=2.0)
    assert bound is not None
    assert (bound.resource, bound.limit) == ("hidden pool", 100)
    assert bound.rate_max_rps == pytest.approx(50)
    assert "hidden pool: 50/s" in explain(bound)
    assert ADVICE["hidden pool"] in explain(bound)


@pytest.mark.parametrize(
    "seen",
    [
        [],
        [overload(60, 50)],  # one rate is no plateau
        [overload(60, 50), overload(60, 50)],
        [overload(60, 50), overload(75, 55)],  # still rising
        [overload(51, 50), overload(52, 50)],  # not beyond it
        [overload(60, 50, 0.95), overload(75, 50, 0.95)],  # the CPU is full
        [overload(60, 50, None), overload(75, 50, None)],  # or may be
    ],
)
def test_what_is_no_plateau(seen: list[Trial]) -> None:
    assert hidden_pool(seen, w_s=2.0) is None


def test_steps_double_so_that_a_bad_prediction_costs_few_runs() -> None:
    found = search(pod(1_000.0), 10.0)
    rates = [trial.rate_rps for trial in found.trials]
    first_fail = next(i for i, rate in enumerate(rates) if rate > 1_000)
    assert all(a < b for a, b in pairwise(rates[: first_fail + 1]))
    assert len(rates) <= search_module.RUNS_MAX
