"""Runs before a database that were never made: their counts are those predicted, at a little less than full rate."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
from synthetic import make_run

from harness import records, scenario, targets
from harness.admission import Predicted, Setting, predict, setting
from harness.run import Concurrency, Database, Latency, MeanPeak, Run, Summary
from harness.validity import Verdict

ALL = targets.load_targets()


def setting_of(target: str, threads: int | None, permits: int, name: str = "admission") -> Setting:
    """What such a run is made with."""
    wanted, options = _wanted(target, threads, permits, name)
    found = setting(wanted, options, 1, threads)
    assert found is not None
    return found


def admission_run(
    target: str = "asyncio",
    *,
    threads: int | None = None,
    permits: int = 0,
    name: str = "admission",
    ok_rps: float = 98.5,
    repeat: int = 0,
    valid: bool = True,
    without: tuple[str, ...] = (),
) -> Run:
    """A run that came out as predicted; `without` names figures that were not measured."""
    wanted, options = _wanted(target, threads, permits, name)
    given = setting_of(target, threads, permits, name)
    predicted = predict(given)
    assert predicted is not None
    created = datetime(2026, 11, 30, 9, repeat, tzinfo=UTC)
    words = f"{target}-{threads}-{permits}".replace("None", "0")
    run = make_run(
        given.rate_rps,
        w_s=given.hold_s,
        regime="saturated",
        target=target,
        options=options,
        throughput_rps=ok_rps,
        run_id=f"{created:%Y%m%dT%H%M%S}-{words}-0a1b",
    )
    return msgspec.structs.replace(
        run,
        created=created.isoformat(timespec="seconds"),
        scenario=wanted,
        summary=_summary(run.summary, given, predicted),
        concurrency=Concurrency(handlers_mean=None if "in_flight" in without else predicted.in_flight - 0.5),
        database=None
        if "waiting" in without
        else Database(waiting=MeanPeak(mean=predicted.waiting, peak=predicted.waiting + 3)),
        verdict=Verdict(valid=valid, checks=(), reason="" if valid else "database_present"),
    )


def published(results: Path, run: Run) -> Path:
    """Write it as an experiment does."""
    staging = records.stage(results, run.id)
    nothing = np.array([], dtype=float)
    requests = {"due_s": nothing, "done_s": nothing, "outcome": np.array([], dtype=str)}
    records.write_run(staging, run, requests, {"t_s": nothing})
    return records.publish(staging, discarded=None if run.verdict.valid else run.verdict.reason)


def _wanted(
    target: str, threads: int | None, permits: int, name: str
) -> tuple[scenario.Scenario, dict[str, targets.Value]]:
    wanted = scenario.load(name)
    changed = {**wanted.pod.options, "permits": permits, **({"threads": threads} if threads else {})}
    wanted = msgspec.structs.replace(wanted, pod=msgspec.structs.replace(wanted.pod, options=changed))
    return wanted, targets.resolve(ALL[target], changed)


def _summary(base: Summary, given: Setting, predicted: Predicted) -> Summary:
    ok, refused_429, refused_503, unsent = (round(value) for value in predicted[:4])
    sent = ok + refused_429 + refused_503
    counts = {"200": ok, "429": refused_429, "503": refused_503}
    refused_s = given.wait_s + 0.003 if refused_429 + refused_503 > ok else predicted.ok_latency_s
    return msgspec.structs.replace(
        base,
        planned=sent + unsent,
        sent=sent,
        unsent=unsent,
        completed=ok,
        failed=refused_429 + refused_503,
        refused=refused_429 + refused_503,
        statuses={status: count for status, count in counts.items() if count},
        latency_s=Latency(n=ok, p50=predicted.ok_latency_s + 0.005, p99=predicted.ok_latency_s + 0.02),
        latency_all_s=Latency(n=sent, p50=refused_s, p99=predicted.ok_latency_s + 0.01),
    )
