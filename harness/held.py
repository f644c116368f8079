"""Was the loop or hub held? By the pins that were counted inside it, and by a bystander's wait outside. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from harness import statistics
from harness.run import Bystander, HandlerPins, Pins

PROBE_TIMEOUT_S = 5.0

Floats = npt.NDArray[np.float64]


def pins(by_handler: Mapping[str, HandlerPins], requests: int) -> Pins:
    """All of a run's pins together and, where `requests` completed in it, how many there are for each of them."""

    def each(count: int) -> float | None:
        return count / requests if requests else None

    count = sum(found.count for found in by_handler.values())
    return Pins(
        count=count,
        seconds=sum(found.seconds for found in by_handler.values()),
        per_request=each(count),
        handlers={
            handler: HandlerPins(
                count=found.count, seconds=found.seconds, per_request=each(found.count), stacks=found.stacks
            )
            for handler, found in by_handler.items()
        },
    )


def bystander(route: str, due_s: Floats, latency_s: Floats, window_s: tuple[float, float]) -> Bystander:
    """What the probes due inside the window waited (its start and end as offsets, as `due_s` is).

    A probe without an answer (NaN) counts as PROBE_TIMEOUT_S, and so does one that was answered just then.
    """
    start_s, end_s = window_s
    waited_s = latency_s[(due_s >= start_s) & (due_s < end_s)]
    unanswered = int(np.sum(np.isnan(waited_s)))
    found = statistics.summarize(np.minimum(np.nan_to_num(waited_s, nan=PROBE_TIMEOUT_S), PROBE_TIMEOUT_S))
    return Bystander(
        route=route,
        timeout_s=PROBE_TIMEOUT_S,
        n=found.n,
        unanswered=unanswered,
        p50=found.p50,
        p99=found.p99,
        max=found.max,
    )
