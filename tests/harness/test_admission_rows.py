"""Rows of the admission table: medians of valid runs, counts by status, predictions beside them."""

from __future__ import annotations

import pytest
from synthetic_admission import admission_run, setting_of

from harness.admission_rows import median_of, row_of


def test_a_row_counts_outcomes_apart_and_has_the_predictions_beside() -> None:
    row = row_of("threadpool", setting_of("threadpool", 400, 0), [admission_run("threadpool", threads=400)])
    assert (row.condition, row.target, row.threads, row.permits) == ("threadpool 400", "threadpool", 400, 0)
    assert (row.ok_count, row.refused_429, row.refused_503, row.unsent) == (6_000, 0, 5_700, 6_300)
    assert (row.predicted_ok, row.predicted_429, row.predicted_503, row.predicted_unsent) == (
        *(6_000, 0, 5_700),
        6_300,
    )
    assert row.n == 11_700
    assert (row.in_flight_mean, row.predicted_in_flight) == (399.5, 400)
    assert row.waiting_mean == row.predicted_waiting == 390
    assert row.ok_p50_ms == pytest.approx(10_310, rel=1e-3)
    assert row.predicted_ok_ms == pytest.approx(10_305, rel=1e-3)
    assert row.p99_ms == pytest.approx(10_315, rel=1e-3)
    assert (row.ok_rps, row.runs, row.verdict) == (98.5, 1, "valid")


def test_it_is_the_median_of_valid_runs() -> None:
    runs = [admission_run(ok_rps=rate, repeat=i) for i, rate in enumerate((97.0, 99.0, 98.0))]
    assert row_of("asyncio", setting_of("asyncio", None, 0), runs).ok_rps == 98.0
    broken = [admission_run(ok_rps=1.0, repeat=3, valid=False)]
    row = row_of("asyncio", setting_of("asyncio", None, 0), [*runs, *broken], ["asyncio ended"])
    assert (row.ok_rps, row.runs, row.verdict) == (98.0, 3, "database_present; asyncio ended")


def test_without_a_valid_run_only_the_prediction_stands() -> None:
    row = row_of("trio", setting_of("trio", None, 10), [], ["no PostgreSQL here"])
    assert (row.ok_count, row.n, row.p50_ms, row.ok_rps) == (None, None, None, None)
    assert (row.predicted_ok, row.predicted_429, row.verdict) == (6_000, 12_000, "no PostgreSQL here")


def test_what_is_not_known_is_not_predicted() -> None:
    row = row_of("mine", None, [admission_run(without=("waiting", "in_flight"))])
    assert (row.condition, row.threads, row.permits, row.ok_count) == ("mine", None, None, 6_000)
    assert (row.waiting_mean, row.in_flight_mean, row.predicted_ok) == (None, None, None)


@pytest.mark.parametrize(
    ("values", "middle"), [([], None), ([None], None), ([3.0, None, 1.0], 2.0), ([5.0, 1.0, 2.0], 2.0)]
)
def test_a_median_of_what_was_measured(values: list[float | None], middle: float | None) -> None:
    assert median_of(values) == middle
