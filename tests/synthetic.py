"""Runs that were never made: records whose figures follow from a few numbers, as those of an ideal pod would."""

from __future__ import annotations

from harness.run import (
    Concurrency,
    Latency,
    Machine,
    MeanPeak,
    Pauses,
    Phases,
    Prediction,
    Resources,
    Run,
    Source,
    Summary,
    Target,
)
from harness.scenario import Delay, Load, Pod, Scenario, Upstream
from harness.validity import Check, Verdict

W_S = 2.002
MACHINE = Machine(
    cpus=2, model_name="x", memory_bytes=2**34, kernel="6.1", python="3.11.7", class_name="2 × 16 GiB"
)


NOT_PAUSED = Pauses()


def check(name: str, ok: bool | None = True) -> Check:
    return Check(name, ok, 1.0, 1.0, f"{name} in words")


def make_run(
    rate_rps: float = 150.0,
    *,
    w_s: float = W_S,
    workers: int = 1,
    cpus: int = 1,
    cpu_s: float | None = 0.0006,
    rest_bytes: float | None = 40e6,
    each_bytes: float | None = 6_400.0,
    descriptors: float | None = None,
    threads: float | None = 2.0,
    overhead_s: float | None = 0.008,
    pauses: Pauses = NOT_PAUSED,
    regime: str = "steady",
    throughput_rps: float | None = None,
    failed_checks: tuple[str, ...] = (),
    target: str = "asyncio",
    options: dict[str, str | int] | None = None,
    machine: Machine = MACHINE,
    commit: str | None = "abc",
    seed: int = 1,
    run_id: str = "20261130T091500-asyncio-x-0a1b",
) -> Run:
    """A run at `rate_rps`, its figures those of all workers together, as in a record."""
    held = rate_rps * w_s
    rss = None if rest_bytes is None or each_bytes is None else rest_bytes + each_bytes * held
    throughput = rate_rps if throughput_rps is None else throughput_rps
    return Run(
        id=run_id,
        created="2026-11-30T09:15:00Z",
        model=target,
        target=Target(name=target, argv=("x",), options=options or {}, workers=workers),
        scenario=Scenario(
            name="synthetic",
            load=Load(
                rate_rps=rate_rps,
                warmup_s=w_s,
                window_s=4 * w_s,
                drain_s=w_s,
                timeout_s=3 * w_s,
                seed=seed,
                regime="saturated" if regime == "saturated" else "steady",
            ),
            upstream=Upstream(vector=Delay(mean_s=w_s / 1001), llm=Delay(mean_s=w_s * 1000 / 1001)),
            pod=Pod(cpus=cpus),
        ),
        machine=machine,
        versions={},
        source=Source(commit=commit),
        phases=Phases(t0_s=0, window_start_s=w_s, window_end_s=5 * w_s, drain_end_s=6 * w_s),
        summary=Summary(
            planned=600,
            sent=600,
            unsent=0,
            completed=600,
            failed=0,
            refused=0,
            timed_out=0,
            unfinished=0,
            rate_offered_rps=rate_rps,
            throughput_rps=throughput,
            latency_s=Latency(n=600, p99=None if overhead_s is None else w_s + overhead_s),
            service_s=Latency(n=600),
        ),
        resources=Resources(
            rss_bytes=MeanPeak(mean=rss, peak=rss),
            descriptors=MeanPeak(mean=descriptors),
            os_threads=MeanPeak(mean=threads),
            cpu_percent=None if cpu_s is None else 100 * cpu_s * throughput,
            cpu_s_per_request=cpu_s,
            gc_pause_s=pauses,
            memory_at_rest_bytes=rest_bytes,
            bytes_per_request_in_flight=each_bytes,
        ),
        concurrency=Concurrency(handlers_mean=held),
        prediction=Prediction(),
        verdict=Verdict(
            valid=not failed_checks,
            checks=(
                check("ledger"),
                check("saturation", None),
                *(check(name, False) for name in failed_checks),
            ),
            reason=", ".join(failed_checks),
        ),
    )
