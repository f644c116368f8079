"""What `harness capacity` found for the pods of a scenario: searched beside predicted, and what binds."""

from __future__ import annotations

from pathlib import Path

from harness import sizing
from harness.report.conditions import printable
from harness.report.metrics import number
from harness.report.tables import EMPTY, Line, Shown, Table

HEADERS = (
    "target",
    "λ max, searched (req/s)",
    "next rate up that failed (req/s)",
    "predicted (req/s)",
    "predicted / searched",
    "bound by",
    "trials",
    "the search ended at",
)
ENDED = {"narrowed": "the pod's limit", "instrument": "the instrument's limit", "runs": "its most runs"}
NOTE = (
    "Searched: the highest rate at which p99 stayed below 1.01 W in a valid run without a failure. Predicted: before "
    "the search, from the costs of two or three modest runs."
)


def tables(results: Path, scenario: str) -> dict[str, Table]:
    """One table, by name, if any pod of the scenario was searched; raises MeasurementError for a broken record."""
    if not sizing.file_of(results, scenario).exists():
        return {}
    found = sorted(sizing.load(results, scenario).items())
    advice = (printable(f"{name}: {sized.bound_by}") for name, sized in found)
    return {"capacity": Table(HEADERS, tuple(_line(*pair) for pair in found), (NOTE, *advice))}


def _line(name: str, sized: sizing.Sizing) -> Line:
    found = sized.found
    failed = EMPTY if found.failed_at_rps is None else number(found.failed_at_rps)
    cells = (
        number(found.rate_max_rps),
        failed,
        number(found.predicted_rps),
        f"{found.predicted_rps / found.rate_max_rps:.3f}",
        printable(sized.measured.bound_by),
        str(len(found.trials)),
        ENDED[found.ended],
    )
    return Line(printable(name), tuple(map(Shown, cells)))
