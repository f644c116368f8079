"""What a person sees of the pinning lab: a row for each endpoint and target, expected beside measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from harness.deadlock import Deadlock
from harness.display import show_table
from harness.held import PROBE_TIMEOUT_S
from harness.lab import Cell


def measured(name: str, form: str = "{:,.0f}", factor: float = 1.0) -> Callable[[Cell], str]:
    """How one of lab.FIGURES is written."""

    def text(cell: Cell) -> str:
        value = cell.measured[name]
        return "–" if value is None else form.format(value * factor)

    return text


def hoped(name: str, form: str = "{:,.0f}", factor: float = 1.0) -> Callable[[Cell], str]:
    """How a field of what was expected is written."""
    return lambda cell: "–" if cell.expected is None else form.format(getattr(cell.expected, name) * factor)


def waited(name: str) -> Callable[[Cell], str]:
    """A bystander's wait; at the time-out of a probe it is a lower bound."""
    exact, bound = measured(name, "{:,.1f} ms", 1e3), f"≥ {PROBE_TIMEOUT_S * 1e3:,.0f} ms"
    return lambda cell: bound if (cell.measured[name] or 0.0) >= PROBE_TIMEOUT_S else exact(cell)


def _bystander(cell: Cell) -> str:
    if cell.expected is None:
        return "–"
    sign = "≥" if cell.expected.bystander_waits else "<"
    return f"{sign} {cell.expected.bystander_s * 1e3:,.0f} ms"


CELLS: tuple[tuple[str, Callable[[Cell], str]], ...] = (
    ("endpoint", lambda cell: cell.endpoint),
    ("target", lambda cell: cell.target),
    ("ok in window", measured("ok")),
    ("req/s", measured("throughput_rps", "{:,.1f}")),
    ("expected", hoped("throughput_rps", "{:,.1f}")),
    ("in flight upstream", measured("upstream_in_flight", "{:,.1f}")),
    ("expected", hoped("upstream_in_flight")),
    ("pins", measured("pins")),
    ("pins / request", measured("pins_per_request", "{:.3f}")),
    ("expected", hoped("pins_per_request")),
    ("its own", measured("attributed_share", "{:.1%}")),
    ("p50", measured("latency_p50_s", "{:,.0f} ms", 1e3)),
    ("expected", hoped("latency_p50_s", "{:,.0f} ms", 1e3)),
    ("bystander p50", waited("bystander_p50_s")),
    ("expected", _bystander),
    ("bystander p99", waited("bystander_p99_s")),
    ("runs", lambda cell: f"{cell.runs:,}"),
    ("verdict", lambda cell: "valid" if cell.valid else "INVALID"),
)

DEADLOCKS: tuple[tuple[str, Callable[[Deadlock], str]], ...] = (
    ("lock held over a suspension", lambda found: found.target),
    ("what became of it", lambda found: found.outcome),
    ("as expected", lambda found: "yes" if found.as_expected else "NO"),
    ("holder", lambda found: found.holder.at if found.holder else "–"),
    ("waiter", lambda found: found.waiters[0].at if found.waiters else "–"),
)


def show_cells(cells: Sequence[Cell]) -> None:
    """The lab's table; a table on a terminal, Markdown elsewhere."""
    console = Console(highlight=False, soft_wrap=True)
    show_table(console, CELLS, cells)
    for cell in cells:
        for reason in cell.reasons:
            console.print(f"{cell.target}, {cell.endpoint}: invalid: {reason}")


def show_deadlocks(found: Sequence[Deadlock]) -> None:
    """What the sixth endpoint did to each target."""
    show_table(Console(highlight=False, soft_wrap=True), DEADLOCKS, found)
