"""What a person sees of a pod's capacity and of a fleet's plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from harness.display import show_table
from harness.fleet import Demand, Row
from harness.sizing import Sizing
from harness.statistics import Estimate


def show_sizing(sizing: Sizing) -> None:
    """λ max, what binds it, how far the prediction was off, and every bound that was predicted."""
    console = Console(highlight=False, soft_wrap=True)
    found, measured = sizing.found, sizing.measured
    failed = "" if found.failed_at_rps is None else f", and not {found.failed_at_rps:.4g}/s"
    console.print(
        f"{measured.name}: one pod carries {found.rate_max_rps:.4g}/s{failed} ({len(found.trials)} runs)"
    )
    if not sizing.verified:
        console.print(f"  not its limit: the search ended at the {found.ended}'s")
    console.print(f"  bound by {sizing.bound_by}")
    console.print(f"  predicted {found.predicted_rps:.4g}/s, {found.prediction_error:+.1%} off")
    for bound in sizing.bounds:
        console.print(f"    {bound}")


COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("target", lambda row: row.name),
    ("λ max / pod", lambda row: _span(row.rate_max_rps, "{:.4g}/s")),
    ("bound by", lambda row: row.bound_by),
    ("pods, mean", lambda row: _span(row.pods_mean)),
    ("pods, staffed", lambda row: _span(row.pods)),
    ("as one pool", lambda row: _span(row.pods_shared)),
    ("memory", lambda row: _span(row.memory_bytes, "{:.1f} GB", 1e-9)),
    ("vCPU busy", lambda row: _span(row.vcpus_busy, "{:.1f}")),
    ("vCPU", lambda row: "–" if row.vcpus is None else f"{row.vcpus:,}"),
    ("pod-hours per million", lambda row: _span(row.pod_hours_per_million, "{:.3g}")),
    ("one node lost", lambda row: f"{row.pods_node_lost:,}"),
    ("rolling update", lambda row: f"{row.pods_rolling:,} (peak {row.pods_rolling_peak:,})"),
)


def show_fleet(demand: Demand, rows: Sequence[Row]) -> None:
    """A row for each target; on a terminal as a table, elsewhere as Markdown."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"λ = {demand.rate_rps:g}/s, W = {demand.w_s:g} s: {rows[0].in_flight:,.0f} in flight, "
        f"at most {rows[0].in_flight_peak:,} but for {demand.wait_probability:.0%} of the time"
    )
    show_table(console, COLUMNS, rows)


def _span(estimate: Estimate | None, form: str = "{:,.0f}", scale: float = 1.0) -> str:
    """A value with its interval, where it has one."""
    if estimate is None or estimate.value is None:
        return "–"
    value, low, high = (
        None if end is None else form.format(end * scale)
        for end in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value}" if low is None or low == high else f"{value} [{low}–{high}]"
