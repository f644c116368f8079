"""The figures of a table: where each stands in a run, what it is called, how it is written.

One table, METRICS, from which rows, CSV columns, Markdown, page and figures are made. A key is the CSV column's
name and carries its unit. A figure of several runs is their median with a bootstrap interval over runs; of one
run, its value alone; of none, empty with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness import statistics
from harness.run import Run
from harness.statistics import Estimate


def number(value: float, digits: int = 3) -> str:
    """A measured value with `digits` significant ones, whole above that, thousands apart: 9.96, 0.0612, 20,024."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def given(value: float) -> str:
    """A value that was set, as it was: 9.7, 500, 10,000; of one that was computed, four digits."""
    plain = round(value, 3)
    return f"{plain:,.10g}" if math.isclose(value, plain, rel_tol=1e-9) else number(value, 4)


@dataclass(frozen=True)
class Unit:
    """How a metric is written: its value times `factor`, in `name`; a count is whole."""

    name: str = ""
    factor: float = 1.0
    whole: bool = False


RATE = Unit("req/s")
MILLISECONDS = Unit("ms", 1e3)
MEGABYTES = Unit("MB", 1e-6)
KILOBYTES = Unit("KB", 1e-3)
PERCENT = Unit("% of a core")
COUNT = Unit(whole=True)
RATIO = Unit()


@dataclass(frozen=True)
class Metric:
    """One figure of a run; `note` begins the run's note that says why it is empty."""

    key: str
    title: str
    read: Callable[[Run], float | None]
    unit: Unit
    note: str = ""

    @property
    def header(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit.name})" if self.unit.name else self.title

    def write(self, value: float) -> str:
        """A value in the metric's unit, without its name."""
        scaled = value * self.unit.factor
        return f"{scaled:,.0f}" if self.unit.whole else number(scaled)


def _p99_over_w(run: Run) -> float | None:
    p99 = run.summary.latency_s.p99
    return None if p99 is None else p99 - run.scenario.w_s


METRICS: Mapping[str, Metric] = {
    metric.key: metric
    for metric in (
        Metric("rate_max_rps", "λ max / pod", lambda run: run.summary.throughput_rps, RATE),
        Metric("rate_offered_rps", "offered", lambda run: run.summary.rate_offered_rps, RATE),
        Metric("throughput_rps", "throughput", lambda run: run.summary.throughput_rps, RATE),
        Metric("latency_p50_s", "p50", lambda run: run.summary.latency_s.p50, MILLISECONDS),
        Metric("latency_p99_s", "p99 at capacity", lambda run: run.summary.latency_s.p99, MILLISECONDS),
        Metric("latency_p99_over_w_s", "p99 − W", _p99_over_w, MILLISECONDS),
        Metric("rss_mean_bytes", "RSS", lambda run: run.resources.rss_bytes.mean, MEGABYTES, "rss_bytes"),
        Metric(
            "rss_peak_bytes", "RSS, peak", lambda run: run.resources.rss_bytes.peak, MEGABYTES, "rss_bytes"
        ),
        Metric("pss_mean_bytes", "PSS", lambda run: run.resources.pss_bytes.mean, MEGABYTES, "pss_bytes"),
        Metric("cpu_percent", "CPU", lambda run: run.resources.cpu_percent, PERCENT),
        Metric("os_threads", "OS threads", lambda run: run.resources.os_threads.peak, COUNT),
        Metric("descriptors", "descriptors", lambda run: run.resources.descriptors.peak, COUNT),
        Metric("concurrency", "sustained concurrency", lambda run: run.concurrency.handlers_mean, COUNT),
        Metric(
            "concurrency_client", "in flight at the client", lambda run: run.concurrency.client_mean, COUNT
        ),
        Metric(
            "cpu_s_per_request", "CPU / request", lambda run: run.resources.cpu_s_per_request, MILLISECONDS
        ),
        Metric(
            "bytes_per_request_in_flight",
            "memory / request in flight",
            lambda run: run.resources.bytes_per_request_in_flight,
            KILOBYTES,
        ),
        Metric(
            "memory_at_rest_bytes", "RSS at rest", lambda run: run.resources.memory_at_rest_bytes, MEGABYTES
        ),
        Metric("gc_pause_total_s", "GC, total", lambda run: run.resources.gc_pause_s.total, MILLISECONDS),
        Metric("gc_pause_max_s", "GC, longest", lambda run: run.resources.gc_pause_s.max, MILLISECONDS),
        Metric(
            "pins_per_request",
            "pins / request",
            lambda run: run.pins.per_request if run.pins else None,
            RATIO,
        ),
        Metric("pinned_s", "held by pins", lambda run: run.pins.seconds if run.pins else None, MILLISECONDS),
        Metric("send_lag_p99_s", "send lag p99", lambda run: run.summary.send_lag_s.p99, MILLISECONDS),
        Metric("rate_predicted_rps", "predicted rate", lambda run: run.prediction.rate_max_rps, RATE),
        Metric("measured_over_predicted", "measured / predicted", lambda run: run.prediction.ratio, RATIO),
    )
}


def estimate(metric: Metric, runs: Sequence[Run], none: str = "no run") -> Estimate:
    """The metric over repeats; `none` is the reason where there is no run at all."""
    if not runs:
        return Estimate(None, None, None, none)
    values = [value for run in runs if (value := metric.read(run)) is not None]
    if not values:
        return Estimate(None, None, None, why_empty(metric, runs))
    partly = "" if len(values) == len(runs) else f"measured in {len(values)} of {len(runs)} runs"
    if len(values) == 1:
        return Estimate(values[0], None, None, partly)
    found = statistics.bootstrap_median(values)
    return Estimate(found.value, found.low, found.high, partly)


def why_empty(metric: Metric, runs: Iterable[Run]) -> str:
    """Why none of `runs` has the metric, as far as they say."""
    reasons = {_why_empty(metric, run): None for run in runs}
    return "; ".join(reasons)


_WHY_EMPTY = {
    "pins_per_request": "not counted: pod.pins=on counts them",
    "pinned_s": "not counted: pod.pins=on counts them",
    "attributed_share": "no pin is expected",
}


def _why_empty(metric: Metric, run: Run) -> str:
    n = run.summary.latency_s.n if metric.key.startswith("latency_p99") else None
    if metric.key == "bystander_p99_s" and run.bystander is not None:
        n = run.bystander.n
    if n is not None:
        return f"n = {n:,}, p99 needs {statistics.least_n(99)}"
    if metric.key in _WHY_EMPTY:
        return _WHY_EMPTY[metric.key]
    noted = [note for note in run.notes if metric.note and note.startswith(f"{metric.note}: ")]
    return noted[0].partition(": ")[2] if noted else "not measured"
