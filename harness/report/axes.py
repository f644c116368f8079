"""The options that a sweep can be about, as data: how each is read, and what is drawn against it.

AXES is the whole list. What a figure calls "everything else" is a condition without the axis' own option.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.report import article
from harness.report.conditions import Condition
from harness.report.drawing import Points
from harness.report.rows import Chapter

Value = str | float


@dataclass(frozen=True)
class Line:
    """What one line of a sweep is about, and its points as (place on the axis, estimate)."""

    condition: Condition
    rate_rps: float | None
    points: Points


@dataclass(frozen=True)
class Reference:
    """A line to compare a metric with: its value (in the metric's unit as stored) at a value of the axis."""

    key: str
    text: str
    at: Callable[[float, Line], float]


@dataclass(frozen=True)
class Axis:
    """An option to sweep over (`key` as of --set), the metrics to draw against it, and more for a table.

    `own_rate`: each value is measured at its own capacity, so λ differs along the line.
    """

    slug: str
    key: str
    title: str
    label: str
    value: Callable[[Condition], Value | None]
    without: Callable[[Condition], Condition]
    metrics: tuple[str, ...]
    caption: str
    beside: tuple[str, ...] = ()
    own_rate: bool = False
    references: tuple[Reference, ...] = ()


def option(
    name: str, factor: float = 1.0
) -> tuple[Callable[[Condition], Value | None], Callable[[Condition], Condition]]:
    """How to read a target's option (a number times `factor`), and how to forget it."""

    def value(condition: Condition) -> Value | None:
        found = dict(condition.options).get(name)
        return found * factor if isinstance(found, int) else found

    def forget(condition: Condition) -> Condition:
        kept, changed = (
            tuple(pair for pair in pairs if pair[0] != name)
            for pairs in (condition.options, condition.changed)
        )
        return replace(condition, options=kept, changed=changed, pool=None)

    return value, forget


def _without_w(condition: Condition) -> Condition:
    return replace(condition, w_s=0.0, facts=tuple(fact for fact in condition.facts if fact[0] != "W"))


_COSTS = ("latency_p99_over_w_s", "cpu_s_per_request", "rss_mean_bytes")

AXES: tuple[Axis, ...] = (
    Axis(
        "pool-size",
        "pod.threads",
        "Pool size",
        "threads in the pool",
        *option("threads"),
        metrics=("rate_max_rps", "rss_mean_bytes", "cpu_s_per_request"),
        beside=(
            "os_threads",
            "memory_at_rest_bytes",
            "cpu_percent",
            "rate_predicted_rps",
            "measured_over_predicted",
        ),
        caption="A fixed pool carries N / W, and no more. Each pool is measured at its own capacity, all of its "
        "threads at work; the article reckons a thread at 1 MB.",
        own_rate=True,
        references=(
            Reference("rate_max_rps", "N / W", lambda n, line: n / line.condition.w_s),
            Reference("rss_mean_bytes", "1 MB a thread", lambda n, _: n * article.BYTES_PER_THREAD),
        ),
    ),
    Axis(
        "gc",
        "pod.gc",
        "Garbage collection policy",
        "collector",
        *option("gc"),
        metrics=("latency_p99_over_w_s", "gc_pause_max_s", "gc_pause_total_s", "cpu_s_per_request"),
        beside=("rss_mean_bytes", "concurrency"),
        caption="A full collection walks every live task, so its cost grows with the requests in flight.",
    ),
    Axis(
        "loop",
        "pod.loop",
        "Event loop",
        "loop",
        *option("loop"),
        metrics=_COSTS,
        beside=("concurrency",),
        caption="The same server on another event loop.",
    ),
    Axis(
        "workers",
        "pod.workers",
        "Workers",
        "processes in the pod",
        lambda condition: condition.workers,
        lambda condition: replace(condition, workers=0, pool=None),
        metrics=(
            "rate_max_rps",
            "rss_mean_bytes",
            "pss_mean_bytes",
            "latency_p99_over_w_s",
            "cpu_s_per_request",
        ),
        beside=("memory_at_rest_bytes", "concurrency"),
        caption="The same pod as one process or several. PSS counts a page that several processes share once.",
    ),
    Axis(
        "w",
        "upstream.llm",
        "Waiting time",
        "W (s)",
        lambda condition: condition.w_s,
        _without_w,
        metrics=("concurrency", *_COSTS),
        beside=("bytes_per_request_in_flight",),
        caption="The same rate with a longer wait: requests in flight grow as λW, and memory with them.",
        references=(Reference("concurrency", "λW", lambda w_s, line: w_s * (line.rate_rps or 0.0)),),
    ),
    Axis(
        "cpu-work",
        "pod.cpu_us",
        "CPU work per request",
        "CPU work (ms per request)",
        *option("cpu_us", 1e-3),
        metrics=("latency_p99_over_w_s", "cpu_s_per_request", "cpu_percent"),
        beside=("latency_p50_s", "concurrency"),
        caption="What a handler that computes does to everyone else's latency: above the dotted line is waiting for "
        "other requests.",
        references=(
            Reference("latency_p99_over_w_s", "the work itself", lambda ms, _: ms / 1e3),
            Reference("cpu_s_per_request", "the work itself", lambda ms, _: ms / 1e3),
        ),
    ),
)


def swept(chapter: Chapter) -> Axis | None:
    """The axis that the chapter's scenario sweeps over; None where it does not, or over one that is not drawn."""
    return next((axis for axis in AXES if axis.key == chapter.axis), None)
