"""The verdict: each check passes at its limit, fires just beyond it, and says so when it cannot be made."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.figures import Figures
from harness.scenario import Limits
from harness.validity import RULES, Check, Verdict, judge

# λ = 500 × W = 20.02 s in a window of 60 s, everything as it should be; pod and harness share two CPUs.
STEADY = Figures(
    shared_cpus=True,
    w_s=20.02,
    warmup_s=25.0,
    window_s=60.0,
    timeout_s=60.0,
    planned=30_000,
    sent=30_000,
    unsent=0,
    unsent_capped=0,
    completed=30_000,
    failed=0,
    refused=0,
    timed_out=0,
    unfinished=0,
    sent_in_all=42_500,
    completed_in_all=42_500,
    vector_hits=42_500,
    llm_hits=42_500,
    rate_offered_rps=500.0,
    throughput_rps=500.0,
    service_min_s=20.021,
    latency_p99_s=20.03,
    latency_first_third_s=20.024,
    latency_last_third_s=20.024,
    send_lag_p99_s=0.0013,
    generator_cpu_share=0.2,
    generator_gc_pause_s=0.0,
    upstream_cpu_share=0.2,
    cpu_shared_share=0.4,
    cpu_steal_share=0.0,
    handlers_mean=10_010.0,
    handlers_expected=10_010.0,
    client_mean=10_012.0,
    client_expected=10_012.0,
    upstream_mean=10_009.0,
    upstream_expected=10_010.0,
    listen_overflows=0,
    syn_retransmits=0,
    paws_timewait=0,
    tw_recycled=0,
    pod_descriptors=9_000,
    pod_descriptors_max=20_000,
    generator_descriptors=10_100,
    generator_descriptors_max=20_000,
    ports=5_000,
    ports_max=28_232,
    pod_lost=0,
    generator_lost=0,
    upstream_lost=0,
    in_flight_at_start=0,
    source_unchanged=True,
    samples_expected=110,
    samples_missed=0,
    pins=5,
    pins_per_request=0.0001,
    pinned_s=0.02,
)
# A pool of 200 under 12/s: it carries 9.99/s, the rest waits; what waits too long times out.
SATURATED = msgspec.structs.replace(
    STEADY,
    regime="saturated",
    rate_offered_rps=12.0,
    throughput_rps=9.99,
    planned=720,
    sent=720,
    completed=600,
    failed=70,
    timed_out=60,
    refused=10,
    unfinished=50,
    latency_p99_s=60.0,
    latency_first_third_s=25.0,
    latency_last_third_s=35.0,
    client_mean=400.0,
    client_expected=300.0,
    handlers_mean=200.0,
    handlers_expected=200.0,
    handlers_min=200.0,
    pool_size=200,
    upstream_mean=200.0,
    upstream_expected=200.0,
)
# 300/s before ten connections that carry 100/s, and 2,000 clients: the rest is refused, or finds no client left.
OVERLOADED = msgspec.structs.replace(
    STEADY,
    regime="saturated",
    w_s=0.1,
    vector_calls=0,
    llm_calls=0,
    vector_hits=0,
    llm_hits=0,
    rate_offered_rps=300.0,
    throughput_rps=98.5,
    planned=18_000,
    sent=11_700,
    unsent=6_300,
    unsent_capped=6_300,
    completed=6_000,
    failed=5_700,
    refused=5_700,
    sent_in_all=16_000,
    completed_in_all=8_000,
    service_min_s=0.1005,
    latency_p99_s=10.3,
    latency_first_third_s=10.3,
    latency_last_third_s=10.3,
    handlers_mean=400.0,
    handlers_expected=400.0,
    handlers_min=20.0,
    pool_size=400,
    upstream_mean=0.0,
    upstream_expected=0.0,
    connections_rps=100.0,
    database_errors=0,
    held_at_end=0,
)
NAMES = [rule.name for rule in RULES]
DATABASE = ("database_throughput", "database_present", "database_released")
OF = {"saturation": SATURATED} | dict.fromkeys(DATABASE, OVERLOADED)
LIMITS = Limits(pins_per_request=0.05)
KNOWN = {
    *("regime", "arrivals", "random_delays", "shared_cpus", "w_s", "warmup_s", "window_s", "timeout_s"),
    *("vector_calls", "llm_calls", "connections_rps"),  # the last: None says that there is no database
}


def with_(figures: Figures, **changes: Any) -> Figures:
    return msgspec.structs.replace(figures, **changes)


def check(name: str, figures: Figures, limits: Limits = LIMITS) -> Check:
    return next(c for c in judge(figures, limits).checks if c.name == name)


# A route that makes one call, to the model.
HELD = with_(STEADY, vector_calls=0, vector_hits=0)

# name, the run it applies to, figures at the limit, figures just beyond it
CASES: list[tuple[str, Figures, dict[str, Any], dict[str, Any]]] = [
    ("ledger", STEADY, {"failed": 10, "completed": 29_990}, {"completed": 29_999}),
    ("ledger", STEADY, {"unsent": 1, "sent": 29_999, "completed": 29_999}, {"planned": 30_001}),
    ("ledger", STEADY, {"unfinished": 1, "completed": 29_999}, {"sent": 30_001, "planned": 30_001}),
    ("upstream_reached", STEADY, {"completed_in_all": 42_400, "llm_hits": 42_400}, {"llm_hits": 42_499}),
    ("upstream_reached", STEADY, {"completed_in_all": 42_400}, {"llm_hits": 42_501}),
    ("upstream_reached", STEADY, {"vector_hits": 42_500}, {"vector_hits": 0}),
    ("upstream_reached", HELD, {"vector_hits": 0}, {"vector_hits": 1}),
    ("upstream_reached", HELD, {"completed_in_all": 42_400, "llm_hits": 42_400}, {"llm_hits": 42_501}),
    ("upstream_reached", with_(HELD, llm_calls=0, llm_hits=0), {"vector_hits": 0}, {"llm_hits": 1}),
    ("latency_floor", STEADY, {"service_min_s": 20.019}, {"service_min_s": 20.0189}),
    ("completions", STEADY, {"completed": 1}, {"completed": 0}),
    ("failures", STEADY, {"failed": 0}, {"failed": 1}),
    ("failures", SATURATED, {"failed": 70}, {"failed": 71}),
    ("unsent", STEADY, {"unsent": 0}, {"unsent": 1}),
    ("unfinished", STEADY, {"unfinished": 0}, {"unfinished": 1}),
    ("send_lag_p99", STEADY, {"send_lag_p99_s": 0.0025 * 20.02}, {"send_lag_p99_s": 0.0501}),
    ("send_lag_p99", with_(STEADY, w_s=2.0), {"send_lag_p99_s": 0.010}, {"send_lag_p99_s": 0.0101}),
    ("generator_cpu", STEADY, {"generator_cpu_share": 0.9}, {"generator_cpu_share": 0.91}),
    ("generator_gc_pause", STEADY, {"generator_gc_pause_s": 0.05}, {"generator_gc_pause_s": 0.051}),
    ("upstream_cpu", STEADY, {"upstream_cpu_share": 0.9}, {"upstream_cpu_share": 0.91}),
    ("little_handlers", STEADY, {"handlers_mean": 10_210.2}, {"handlers_mean": 10_211}),
    ("little_handlers", SATURATED, {"handlers_mean": 196.0}, {"handlers_mean": 195.9}),
    ("little_client", STEADY, {"client_mean": 10_012 * 0.98}, {"client_mean": 9_811}),
    ("little_upstream", STEADY, {"upstream_mean": 10_210.2}, {"upstream_mean": 0.0}),
    ("drift", STEADY, {"latency_last_third_s": 20.024 + 0.2002}, {"latency_last_third_s": 20.225}),
    ("drift", STEADY, {"latency_last_third_s": 20.024 - 0.2002}, {"latency_last_third_s": 19.823}),
    ("throughput_matches_offered", STEADY, {"throughput_rps": 495.0}, {"throughput_rps": 494.9}),
    ("throughput_matches_offered", STEADY, {"throughput_rps": 505.0}, {"throughput_rps": 505.1}),
    ("saturation", SATURATED, {"handlers_min": 198.0}, {"handlers_min": 197.0}),
    ("upstream_reached", OVERLOADED, {"llm_hits": 0}, {"llm_hits": 1}),
    ("unsent", OVERLOADED, {"unsent_capped": 6_300}, {"unsent_capped": 6_299}),
    ("failures", OVERLOADED, {"failed": 5_700}, {"failed": 5_701}),
    ("database_throughput", OVERLOADED, {"throughput_rps": 90.0}, {"throughput_rps": 89.9}),
    ("database_present", OVERLOADED, {"database_errors": 0}, {"database_errors": 1}),
    ("database_released", OVERLOADED, {"held_at_end": 0}, {"held_at_end": 1}),
    ("p99_is_timeout", STEADY, {"latency_p99_s": 59.4}, {"latency_p99_s": 60.0}),
    ("listen_overflows", STEADY, {"listen_overflows": 0}, {"listen_overflows": 1}),
    ("syn_retransmits", STEADY, {"syn_retransmits": 0}, {"syn_retransmits": 1}),
    ("paws_timewait", STEADY, {"paws_timewait": 0}, {"paws_timewait": 1}),
    ("tw_recycled", STEADY, {"tw_recycled": 42}, {"tw_recycled": 43}),
    ("pod_descriptors", STEADY, {"pod_descriptors": 19_600}, {"pod_descriptors": 19_601}),
    ("generator_descriptors", STEADY, {"generator_descriptors": 19_600}, {"generator_descriptors": 19_601}),
    ("ports", STEADY, {"ports": 27_667}, {"ports": 27_668}),
    ("workers_present", STEADY, {"pod_lost": 0}, {"pod_lost": 1}),
    ("workers_present", STEADY, {"generator_lost": 0}, {"generator_lost": 1}),
    ("workers_present", STEADY, {"upstream_lost": 0}, {"upstream_lost": 1}),
    ("started_empty", STEADY, {"in_flight_at_start": 0}, {"in_flight_at_start": 1}),
    ("source_unchanged", STEADY, {"source_unchanged": True}, {"source_unchanged": False}),
    ("samples_complete", STEADY, {"samples_missed": 5}, {"samples_missed": 6}),
    ("cpu_separation", STEADY, {"cpu_shared_share": 0.8}, {"cpu_shared_share": 0.81}),
    ("cpu_steal", STEADY, {"cpu_steal_share": 0.05}, {"cpu_steal_share": 0.051}),
    ("warmup_covers_w", STEADY, {"warmup_s": 20.02}, {"warmup_s": 20.0}),
    ("pins", STEADY, {"pins_per_request": 0.05}, {"pins_per_request": 0.051}),
]
IDS = [f"{name}-{i}" for i, (name, *_) in enumerate(CASES)]


@pytest.mark.parametrize(("name", "figures", "at_limit", "beyond"), CASES, ids=IDS)
def test_passes_at_its_limit(
    name: str, figures: Figures, at_limit: dict[str, Any], beyond: dict[str, Any]
) -> None:
    passed = check(name, with_(figures, **at_limit))
    assert passed.ok is True
    assert passed.value is not None
    assert passed.limit is not None
    assert not passed.detail.endswith(next(rule.remedy for rule in RULES if rule.name == name))


@pytest.mark.parametrize(("name", "figures", "at_limit", "beyond"), CASES, ids=IDS)
def test_fires_beyond_its_limit_and_says_what_to_do(
    name: str, figures: Figures, at_limit: dict[str, Any], beyond: dict[str, Any]
) -> None:
    verdict = judge(with_(figures, **beyond), LIMITS)
    fired = check(name, with_(figures, **beyond))
    remedy = next(rule.remedy for rule in RULES if rule.name == name)
    assert fired.ok is False
    assert fired.detail.endswith(f"; {remedy}")
    assert not verdict.valid
    assert name in verdict.reason.split(", ")


@pytest.mark.parametrize(
    ("name", "figure"),
    [(r.name, need) for r in RULES for need in r.needs if need not in KNOWN],
)
@pytest.mark.parametrize("nothing", [None, math.nan])
def test_an_unmeasured_figure_neither_passes_nor_fails(name: str, figure: str, nothing: float | None) -> None:
    figures = OF.get(name, STEADY)
    unmeasured = check(name, with_(figures, **{figure: nothing}))
    assert unmeasured.ok is (False if name == "completions" else None)
    assert unmeasured.value is None
    assert unmeasured.detail == f"not measured: {figure}"


def test_every_rule_has_a_case_and_a_name_of_its_own() -> None:
    assert {name for name, *_ in CASES} == set(NAMES)
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("figures", [STEADY, SATURATED, OVERLOADED])
def test_a_good_run_is_valid(figures: Figures) -> None:
    verdict = judge(figures, LIMITS)
    assert [c.detail for c in verdict.checks if c.ok is False] == []
    assert verdict == Verdict(valid=True, checks=verdict.checks, reason="")
    assert [c.name for c in verdict.checks] == NAMES


@pytest.mark.parametrize(
    ("changes", "exempt"),
    [
        ({"regime": "steady"}, {"saturation", *DATABASE}),
        (
            {"regime": "saturated", "handlers_min": 200, "pool_size": 200},
            {
                "unfinished",
                "little_client",
                "drift",
                "throughput_matches_offered",
                "p99_is_timeout",
                *DATABASE,
            },
        ),
        (
            {"arrivals": "stages"},
            {
                *("saturation", "little_handlers", "little_client", "little_upstream", "drift", *DATABASE),
                *("throughput_matches_offered", "warmup_covers_w"),
            },
        ),
        (
            {"arrivals": "closed"},
            {
                *("saturation", "send_lag_p99", "little_handlers", "drift", "throughput_matches_offered"),
                *DATABASE,
            },
        ),
        ({"random_delays": True}, {"saturation", "latency_floor", "little_upstream", *DATABASE}),
        ({"shared_cpus": False}, {"saturation", "cpu_separation", *DATABASE}),
        (
            {"connections_rps": 100.0, "database_errors": 0, "held_at_end": 0},
            {"saturation", "database_throughput"},
        ),
    ],
)
def test_what_does_not_apply_says_so(changes: dict[str, Any], exempt: set[str]) -> None:
    checks = judge(with_(STEADY, **changes), LIMITS).checks
    found = {c.name for c in checks if c.detail.startswith("not applicable: ")}
    assert found == exempt
    assert all(c.ok is None and c.value is None for c in checks if c.name in exempt)


@pytest.mark.parametrize(
    ("limit", "name", "beyond"),
    [
        ({"failures_share": 0.01}, "failures", {"failed": 300}),
        ({"unsent_share": 0.5}, "unsent", {"unsent": 100}),
        ({"unsent_share": 0.5}, "unsent", {"unsent": 100, "unsent_capped": 100}),
        ({"little_share": 0.05}, "little_handlers", {"handlers_mean": 10_300}),
        ({"kernel_events": 5}, "syn_retransmits", {"syn_retransmits": 5}),
        ({"send_lag_p99_s": 0.1}, "send_lag_p99", {"send_lag_p99_s": 0.08}),
        ({"latency_grain_s": 0.01}, "latency_floor", {"service_min_s": 20.011}),
    ],
)
def test_a_scenario_may_widen_a_limit(limit: dict[str, Any], name: str, beyond: dict[str, Any]) -> None:
    assert check(name, with_(STEADY, **beyond)).ok is False
    assert check(name, with_(STEADY, **beyond), Limits(**limit)).ok is True


def test_5999_of_5999_failed_is_no_success() -> None:
    """The known trap: p99 = 0 ms, "goal met"."""
    figures = with_(
        STEADY,
        **dict.fromkeys(("planned", "sent", "failed"), 5_999),
        **dict.fromkeys(("completed", "completed_in_all", "llm_hits", "vector_hits"), 0),
        **dict.fromkeys(("service_min_s", "latency_p99_s", "latency_first_third_s", "latency_last_third_s")),
        throughput_rps=0.0,
    )
    verdict = judge(figures, LIMITS)
    assert not verdict.valid
    assert {"completions", "failures"} <= set(verdict.reason.split(", "))
    assert check("p99_is_timeout", figures).ok is None
    assert "no latency can be evaluated" in check("completions", figures).detail
    assert "5,999 of 5,999 failed" in check("failures", figures).detail


def test_nothing_completed_fails_even_where_failures_are_allowed() -> None:
    figures = with_(STEADY, completed=0, failed=0, unfinished=30_000)
    assert check("failures", figures, Limits(failures_share=0.5)).ok is False


def test_8_samples_have_no_p99_and_it_is_not_judged() -> None:
    """The known trap: the maximum, or NaN, reported as p99."""
    few = check("p99_is_timeout", with_(STEADY, planned=8, sent=8, completed=8, latency_p99_s=None))
    assert (few.ok, few.value, few.detail) == (None, None, "not measured: latency_p99_s")


def test_a_server_that_never_calls_the_upstream_is_found_out() -> None:
    """The mission's first fault: every call failed at connect, and the table looked like "no effect"."""
    figures = with_(STEADY, vector_hits=0, llm_hits=0, service_min_s=0.0039)
    assert {"upstream_reached", "latency_floor"} <= set(judge(figures, LIMITS).reason.split(", "))


def test_nothing_measured_is_not_valid() -> None:
    nothing = Figures(w_s=20.02, warmup_s=25.0, window_s=60.0, timeout_s=60.0)
    assert judge(nothing, LIMITS).reason == "completions"


def test_without_a_limit_a_figure_is_shown_and_not_judged() -> None:
    shown = check("pins", with_(STEADY, pins=400, pins_per_request=1.0), Limits())
    assert (shown.ok, shown.value, shown.limit) == (None, 1.0, None)
    assert "400 pins" in shown.detail
    assert shown.detail.endswith("limit none: not judged")


def test_random_arrivals_have_a_wider_throughput_limit() -> None:
    """Three standard deviations of two Poisson edges of mean λW: 3 × √20,020 of 30,000."""
    limit = check("throughput_matches_offered", with_(STEADY, arrivals="poisson")).limit
    assert limit == pytest.approx(0.01 + 3 * math.sqrt(2 * 500 * 20.02) / 30_000)


numbers = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=False), st.integers(0, 10**9))
MEASURED = [name for name in Figures.__struct_fields__ if name not in KNOWN]


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(MEASURED, numbers)))
def test_any_figures_get_a_whole_and_consistent_verdict(changes: dict[str, Any]) -> None:
    verdict = judge(with_(STEADY, **changes), LIMITS)
    assert [c.name for c in verdict.checks] == NAMES
    assert verdict.valid == all(c.ok is not False for c in verdict.checks)
    assert verdict.valid == (verdict.reason == "")
    assert all(c.detail and "{" not in c.detail for c in verdict.checks)
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict).valid == verdict.valid


@given(share=st.floats(0, 1), factor=st.floats(0.5, 2))
def test_a_figure_at_its_limit_passes_whatever_the_limit(share: float, factor: float) -> None:
    limits = Limits(little_share=share, generator_cpu_share=share, send_lag_p99_s=share)
    expected = 10_000 * factor
    figures = with_(
        STEADY,
        generator_cpu_share=share,
        handlers_expected=expected,
        handlers_mean=expected * (1 + share),
        send_lag_p99_s=max(share, 0.0025 * STEADY.w_s),
    )
    for name in ("generator_cpu", "little_handlers", "send_lag_p99"):
        assert check(name, figures, limits).ok is True


@pytest.mark.parametrize("gone", [{"timed_out": 1, "failed": 5_701}, {"unfinished": 1}])
def test_what_clients_gave_up_on_is_no_leak(gone: dict[str, int]) -> None:
    found = check("database_released", with_(OVERLOADED, held_at_end=3, **gone))
    assert (found.ok, found.detail[:14]) == (None, "not applicable")


def test_before_a_database_it_is_the_connections_that_have_to_be_full() -> None:
    """Behind a semaphore most of a pool's threads are idle, and should be."""
    assert check("saturation", with_(OVERLOADED, handlers_min=40.0)).ok is None
    assert check("saturation", with_(SATURATED, handlers_min=40.0)).ok is False
    idle = with_(OVERLOADED, throughput_rps=50.0)
    assert judge(idle, LIMITS).reason == "database_throughput"


def test_unsent_for_another_reason_than_the_cap_is_the_generators_fault() -> None:
    few = with_(OVERLOADED, unsent_capped=6_000)
    assert "unsent" in judge(few, LIMITS).reason
    assert "6,300 of 18,000 requests could not be sent, 6,000 of them" in check("unsent", few).detail
