"""Staffing under random arrivals, checked once by a Poisson run of each kind: what waits, and what is in flight.

A pool: the share of requests that waited longer than SEEN_S, against Erlang C's tail, P(wait > t) =
C e^(−(n − a) t / W). Its service times are exponential and ours constant, which wait less: it is an upper bound.
No pool: the share of time with more in flight than the 99 % quantile of a Poisson distribution of mean λW.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from harness import little, records
from harness.experiment import Outcome
from harness.perf.figure import Figure, at_most, note, once_kept
from harness.report.load import latencies_s

SCENARIO = "staffing"
POOL = 50
SEEN_S = 0.005  # above what scheduling and the generator's clock add to a request that does not wait
QUANTILE = 0.99

Floats = NDArray[np.float64]


def staffing() -> Iterator[Figure]:
    """Measured share beside the predicted one, for a pool and for a loop."""
    kept = once_kept("threadpool", {"pod.threads": str(POOL)}, SCENARIO)
    run, case = kept.run, f"Poisson arrivals, pool of {POOL}"
    offered = run.concurrency.handlers_mean
    if not run.verdict.valid or offered is None:
        yield Figure(case, "valid", 0, "", "1", False, note(run))
    else:
        waited = waited_share(kept)
        tail = little.erlang_c(offered, POOL) * math.exp(-(POOL - offered) * SEEN_S / run.scenario.w_s)
        yield Figure(case, "in flight", offered, "requests", note=run.id)
        yield at_most(case, f"waited over {SEEN_S * 1e3:g} ms", waited * 100, "%", round(tail * 100, 2))
    kept = once_kept("asyncio", {}, SCENARIO)
    run, case = kept.run, "Poisson arrivals, no pool"
    if not run.verdict.valid:
        yield Figure(case, "valid", 0, "", "1", False, note(run))
        return
    most = little.in_flight_quantile(run.scenario.in_flight, QUANTILE)
    yield Figure(
        case,
        f"time with more than {most} in flight",
        above_share(kept, most) * 100,
        "%",
        note=f"predicted {100 * (1 - QUANTILE):.2g} %; {run.id}",
    )


def waited_share(kept: Outcome) -> float:
    """Share of the answered requests whose latency exceeds W by more than SEEN_S."""
    latency_s = latencies_s(kept.run, records.read_requests(kept.path))
    return float((latency_s > kept.run.scenario.w_s + SEEN_S).mean())


def above_share(kept: Outcome, most: int) -> float:
    """Share of the window's time with more than `most` requests in flight, by the times of the requests."""
    phases, requests = kept.run.phases, records.read_requests(kept.path)
    sent, done = (np.sort(column[~np.isnan(column)]) for column in (requests["sent_s"], requests["done_s"]))
    at_s: Floats = np.linspace(phases.window_start_s, phases.window_end_s, 100_000)
    in_flight = np.searchsorted(sent, at_s, "right") - np.searchsorted(done, at_s, "right")
    return float((in_flight > most).mean())
