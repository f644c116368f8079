"""A run judges itself: its figures and a scenario's limits in, checks and a verdict out.

Pure. RULES is the whole list of checks: each compares one value with one limit and says both in a sentence,
and what to do where it fails. One failed check makes a run invalid; what could not be judged does not.
"""

from __future__ import annotations

import math

import msgspec

from harness.figures import Figures
from harness.rules import (
    Check,
    Rule,
    abandoned,
    database,
    no_database,
    off,
    own_cpus,
    random_delays,
    saturated,
    share,
    staged,
    steady,
)
from harness.scenario import Limits

RECYCLED_SHARE = 0.001  # of the requests sent

__all__ = ["RULES", "Check", "Figures", "Rule", "Verdict", "judge"]


class Verdict(msgspec.Struct, frozen=True):
    """valid if no check failed; reason names those that did ("" if none)."""

    valid: bool
    checks: tuple[Check, ...]
    reason: str = ""


def judge(figures: Figures, limits: Limits) -> Verdict:
    """Apply every rule; the order of the checks is the table's."""
    checks = tuple(rule.check(figures, limits) for rule in RULES)
    failed = [check.name for check in checks if check.ok is False]
    return Verdict(valid=not failed, checks=checks, reason=", ".join(failed))


def _unledgered(planned: int, sent: int, unsent: int, completed: int, failed: int, unfinished: int) -> float:
    return abs(planned - sent - unsent) + abs(sent - completed - failed - unfinished)


def _unreached(sent: int, completed: int, vector: int, llm: int, calls: tuple[str, ...]) -> float:
    def wrong(hits: int, call: str) -> int:
        low, high = (completed, sent) if call in calls else (0, 0)
        return max(low - hits, 0) + max(hits - high, 0)

    return wrong(vector, "vector") + wrong(llm, "llm")


def _failed_share(failed: int, refused: int, timed_out: int, sent: int, completed: int, regime: str) -> float:
    # Nothing completed, nothing evaluated: a p99 of no request is no success, however few failed.
    if not completed:
        return 1.0
    # More load than the pod can carry is refused and times out by design; what breaks is still a failure.
    expected = refused + timed_out if regime == "saturated" else 0
    return share(failed - expected, sent)


def _unsent_share(unsent: int, capped: int, planned: int, regime: str) -> float:
    # load.in_flight_max is how many clients there are: who offers more than the pod carries runs out of them.
    return share(unsent - (capped if regime == "saturated" else 0), planned)


def _throughput_limit(figures: Figures, limits: Limits) -> float:
    # Random arrivals: what is due before the window and done in it, and due in it and done after it, are two
    # Poisson counts of mean λW; their difference has the standard deviation √(2λW), of λT in all.
    if figures.arrivals != "poisson" or not figures.rate_offered_rps:
        return limits.throughput_share
    due = figures.rate_offered_rps * figures.window_s
    return limits.throughput_share + 3 * math.sqrt(2 * figures.rate_offered_rps * figures.w_s) / due


def _recycled_limit(figures: Figures, limits: Limits) -> float:
    # A port taken over from TIME_WAIT is safe in itself; many say that runs follow each other too closely.
    return max(limits.kernel_events, RECYCLED_SHARE * (figures.sent_in_all or 0))


_LOST = ("pod_lost", "generator_lost", "upstream_lost")
_KERNEL = {
    "listen_overflows": "the listen queue overflowed: raise the backlog and somaxconn, or add workers",
    "syn_retransmits": "connections waited a second or more: raise the backlog, or let TIME_WAIT pass",
    "paws_timewait": "the kernel dropped connections of an earlier run's ports: use other source addresses",
    "tw_recycled": "ports of an earlier run were reused: use other source addresses, or wait 60 s",
}

RULES: tuple[Rule, ...] = (
    Rule(
        "ledger",
        ("planned", "sent", "unsent", "completed", "failed", "unfinished"),
        0.0,
        "{planned:,} planned = {sent:,} sent + {unsent:,} unsent; sent = {completed:,} completed + "
        "{failed:,} failed + {unfinished:,} unfinished; {value:g} requests unaccounted for",
        "the generator lost count: report this as a bug",
        value=_unledgered,
    ),
    Rule(
        "upstream_reached",
        ("sent_in_all", "completed_in_all", "vector_hits", "llm_hits", "calls"),
        0.0,
        "{completed_in_all:,} completed of {sent_in_all:,} sent; the upstream saw {vector_hits:,} vector "
        "and {llm_hits:,} LLM calls",
        "the server does not call the upstream once per request, or where it should not: check its address "
        "and retries",
        value=_unreached,
    ),
    Rule(
        "latency_floor",
        ("service_min_s",),
        lambda figures, limits: figures.w_s - limits.latency_grain_s,
        "fastest answer after {value:.4f} s, the wait takes {limit:.4f} s",
        "an answer cannot be faster: the server did not wait for its upstream or database",
        at_least=True,
        unless=(random_delays,),
    ),
    Rule(
        "completions",
        ("completed",),
        1.0,
        "{completed:,} requests completed",
        "no latency can be evaluated: read the server's log, or send less",
        at_least=True,
        required=True,
    ),
    Rule(
        "failures",
        ("failed", "refused", "timed_out", "sent", "completed", "regime"),
        "failures_share",
        "{failed:,} of {sent:,} failed ({refused:,} refused, {timed_out:,} timed out), limit {limit:.1%}",
        "read the server's and the upstream's log",
        value=_failed_share,
    ),
    Rule(
        "unsent",
        ("unsent", "unsent_capped", "planned", "regime"),
        "unsent_share",
        "{unsent:,} of {planned:,} requests could not be sent, {unsent_capped:,} of them because "
        "load.in_flight_max were in flight; limit {limit:.2%}",
        "raise load.in_flight_max, the descriptors or the generator's processes",
        value=_unsent_share,
    ),
    Rule(
        "unfinished",
        ("unfinished",),
        0.0,
        "{unfinished:,} requests were still in flight after the drain",
        "lengthen load.drain beyond W, or offer less than the pod carries",
        unless=(saturated,),
    ),
    Rule(
        "send_lag_p99",
        ("send_lag_p99_s",),
        lambda figures, limits: max(limits.send_lag_p99_s, limits.send_lag_share_of_w * figures.w_s),
        "p99 of the send lag is {value:.4f} s, limit {limit:.4f} s",
        "the generator cannot keep its schedule: give it more CPU or processes",
    ),
    Rule(
        "generator_cpu",
        ("generator_cpu_share",),
        "generator_cpu_share",
        "the busiest generator process took {value:.0%} of a core, limit {limit:.0%}",
        "use more generator processes, or a lower rate",
    ),
    Rule(
        "generator_gc_pause",
        ("generator_gc_pause_s",),
        "generator_gc_pause_s",
        "the generator's longest collection took {value:.4f} s, limit {limit:.4f} s",
        "its collector should be frozen during the window: report this as a bug",
    ),
    Rule(
        "upstream_cpu",
        ("upstream_cpu_share",),
        "upstream_cpu_share",
        "the busiest upstream process took {value:.0%} of a core, limit {limit:.0%}",
        "use more upstream processes, or a lower rate",
    ),
    *(
        Rule(
            f"little_{place}",
            (f"{place}_mean", f"{place}_expected"),
            "little_share",
            f"{where} hold {{{place}_mean:.1f}} requests, rate × time is {{{place}_expected:.1f}}: "
            "{value:.2%} apart, limit {limit:.0%}",
            f"one of the three figures is wrong: {remedy}",
            unless=unless,
            value=off,
        )
        for place, where, remedy, unless in (
            ("handlers", "handlers", "compare the server's gauges with its log", (staged,)),
            (
                "client",
                "clients",
                "the window is not steady, or the generator miscounts",
                (staged, saturated),
            ),
            (
                "upstream",
                "upstream calls",
                "compare the upstream's gauges with its hits",
                (staged, random_delays),
            ),
        )
    ),
    Rule(
        "drift",
        ("latency_first_third_s", "latency_last_third_s", "w_s"),
        "drift_share_of_w",
        "median latency went from {latency_first_third_s:.4f} to {latency_last_third_s:.4f} s, "
        "{value:.2%} of W, limit {limit:.0%}",
        "the pod is not in steady state: lengthen load.warmup, or offer less",
        unless=(saturated, staged),
        value=lambda first, last, w_s: abs(last - first) / w_s,
    ),
    Rule(
        "throughput_matches_offered",
        ("throughput_rps", "rate_offered_rps"),
        _throughput_limit,
        "{throughput_rps:.2f}/s completed, {rate_offered_rps:.2f}/s offered: "
        "{value:.2%} apart, limit {limit:.2%}",
        'the pod cannot carry this rate: offer less, or set load.regime = "saturated"',
        unless=(saturated, staged),
        value=off,
    ),
    Rule(
        "saturation",
        ("handlers_min", "pool_size"),
        "saturation_share",
        "at least {handlers_min:g} of the pool's {pool_size:,} places were taken, limit {limit:.0%}",
        "the pool was not full throughout: offer more, or lengthen load.warmup",
        at_least=True,
        unless=(steady, database),
        value=share,
    ),
    Rule(
        "database_throughput",
        ("throughput_rps", "connections_rps"),
        "database_share",
        "{throughput_rps:.2f}/s completed, the connections carry {connections_rps:.2f}/s: {value:.1%}, "
        "at least {limit:.0%}",
        "connections were idle, or held for longer than database.hold: read pod.log and postgres.log",
        at_least=True,
        unless=(no_database, steady),
        value=share,
    ),
    Rule(
        "database_present",
        ("database_errors",),
        0.0,
        "{database_errors:,} requests lost their connection to the database",
        "it went away during the run: read postgres.log",
        unless=(no_database,),
    ),
    Rule(
        "database_released",
        ("held_at_end",),
        0.0,
        "{held_at_end:,} connections, permits or places in line were still taken at the end",
        "a handler keeps what it took: look for a way out of it that releases nothing",
        unless=(no_database, abandoned),
    ),
    Rule(
        "p99_is_timeout",
        ("latency_p99_s",),
        lambda figures, limits: figures.timeout_s * limits.timeout_share,
        "p99 is {value:.3f} s, a time-out shows from {limit:.3f} s",
        "the p99 is the time-out, not the server's: raise load.timeout, or offer less",
        unless=(saturated,),
    ),
    *(
        Rule(
            name,
            (name,),
            _recycled_limit if name == "tw_recycled" else "kernel_events",
            f"the kernel counted {{value:g}} more {name}, limit {{limit:g}}",
            remedy,
        )
        for name, remedy in _KERNEL.items()
    ),
    *(
        Rule(
            name,
            (figure, f"{figure}_max"),
            "descriptors_share",
            f"{who} had {{{figure}:,}} of {{{figure}_max:,}} {what} in use, limit {{limit:.0%}}",
            remedy,
            value=share,
        )
        for name, figure, who, what, remedy in (
            ("pod_descriptors", "pod_descriptors", "a pod process", "descriptors", "add workers"),
            (
                "generator_descriptors",
                "generator_descriptors",
                "a generator process",
                "descriptors",
                "add generator processes",
            ),
            ("ports", "ports", "a source address", "ports", "add source addresses"),
        )
    ),
    Rule(
        "workers_present",
        _LOST,
        0.0,
        "lost before the end: {pod_lost} pod, {generator_lost} generator, {upstream_lost} upstream processes",
        "read the logs in the run directory",
        value=lambda *lost: sum(lost),
    ),
    Rule(
        "started_empty",
        ("in_flight_at_start",),
        0.0,
        "{in_flight_at_start:,} requests were in flight before the first was sent",
        "wait until the last run has drained, or stop the other client",
    ),
    Rule(
        "source_unchanged",
        ("source_unchanged",),
        0.0,
        "source unchanged from start to end: {source_unchanged}",
        "run again, and edit nothing meanwhile",
        value=lambda unchanged: not unchanged,
    ),
    Rule(
        "samples_complete",
        ("samples_missed", "samples_expected"),
        "samples_missed_share",
        "{samples_missed:,} of {samples_expected:,} samples missed, limit {limit:.0%}",
        "the sampler was starved: leave the harness a CPU",
        value=share,
    ),
    Rule(
        "cpu_separation",
        ("cpu_shared_share",),
        "cpu_shared_share",
        "the CPUs that pod and harness share were {value:.0%} busy, limit {limit:.0%}",
        "offer less, or use a machine with more CPUs",
        unless=(own_cpus,),
    ),
    Rule(
        "cpu_steal",
        ("cpu_steal_share",),
        "cpu_steal_share",
        "the hypervisor took {value:.1%} of the CPU time, limit {limit:.0%}",
        "use a quieter machine",
    ),
    Rule(
        "warmup_covers_w",
        ("warmup_s",),
        lambda figures, _: figures.w_s,
        "warm-up of {value:g} s, W is {limit:g} s",
        "the window starts before steady state: lengthen load.warmup",
        at_least=True,
        unless=(staged,),
    ),
)
