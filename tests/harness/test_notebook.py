"""The notebook: its file is its source, executed on the reference runs; and it copes with other results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from synthetic_runs import GEVENT, THREADS, TRIO, published

from harness import notebook
from harness.errors import MeasurementError
from harness.spelling import ROOT

MADE = notebook.SOURCE.with_suffix(".ipynb")
REFERENCE = ROOT / "results" / "reference"
SIZE_MAX = 6_000_000
ANEW = "make it anew: make notebook"


def outputs(of: Any) -> Iterator[Any]:
    for cell in of.cells:
        yield from cell.get("outputs", ())


def texts(of: Any) -> list[str]:
    """What cells say; their pictures differ by a bit between machines."""
    return [
        output.data["text/markdown"] for output in outputs(of) if "text/markdown" in output.get("data", {})
    ]


@pytest.fixture(scope="module")
def executed() -> Any:
    return notebook.execute(notebook.SOURCE)


@pytest.fixture(scope="module")
def committed() -> Any:
    return nbformat.read(MADE, as_version=4)


def test_the_file_has_the_source_that_it_is_made_of(committed: Any) -> None:
    source = notebook.read(notebook.SOURCE)
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.source) for cell in source.cells
    ], ANEW
    nbformat.validate(committed)


def test_the_file_says_what_the_reference_runs_say(committed: Any, executed: Any) -> None:
    assert texts(committed) == texts(executed), ANEW
    assert len(texts(executed)) > 10


def test_cells_show_words_and_pictures_and_no_error(committed: Any, executed: Any) -> None:
    for each in (committed, executed):
        assert {output.output_type for output in outputs(each)} == {"display_data"}
        assert any("image/png" in output.data for output in outputs(each))
        assert not [text for text in texts(each) if "No valid run of" in text]


def test_nothing_of_a_machine_or_a_moment_is_in_the_file(committed: Any) -> None:
    text = MADE.read_text(encoding="utf-8")
    assert str(ROOT) not in text
    assert "<IPython.core.display.Image object>" in text
    assert dict(committed.metadata) == json.loads(json.dumps(notebook.METADATA))
    assert all(dict(cell.metadata) == {} for cell in committed.cells)
    assert [cell.id for cell in committed.cells] == [f"cell-{n}" for n in range(len(committed.cells))]


def test_the_reference_runs_are_small_and_name_no_path() -> None:
    files = [path for path in (REFERENCE / "runs").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= SIZE_MAX
    records = [path for path in files if path.name == "run.json"]
    assert records
    for path in records:
        assert not [word for word in json.loads(path.read_bytes())["target"]["argv"] if word.startswith("/")]


def test_other_results_are_told_as_far_as_they_go(tmp_path: Path) -> None:
    for threads in (20, 60):
        pool = replace(
            THREADS, pool=threads, options={**THREADS.options, "threads": threads}, w_s=1.0, window_s=5.0
        )
        published(tmp_path, replace(pool, rate_rps=0.95 * threads))
        published(tmp_path, replace(pool, rate_rps=1.2 * threads, regime="saturated"))
    for pod in (TRIO, GEVENT):
        published(tmp_path, replace(pod, rate_rps=120, w_s=1.0, window_s=5.0))
    made = notebook.execute(notebook.SOURCE, {"HARNESS_RESULTS": str(tmp_path)})
    said = "\n".join(texts(made))
    assert "6 valid runs of `rag`" in said
    assert "*No valid run of asyncio among these results.*" in said
    assert "*Pool size, rag.*" in said
    assert "*No plan: capacity/capacity.json: no capacity was measured" in said
    assert "*Nothing to draw" in said  # no run stored a collection


def test_no_results_at_all_are_said(tmp_path: Path) -> None:
    said = "\n".join(texts(notebook.execute(notebook.SOURCE, {"HARNESS_RESULTS": str(tmp_path)})))
    assert "0 valid runs of `rag`, 0 of all scenarios" in said
    assert "*Not swept in these results: Pool size" in said


def test_a_cell_that_fails_is_one_clear_line(tmp_path: Path) -> None:
    source = tmp_path / "broken.py"
    source.write_text("# %%\nx = 1\n\n# %%\nx / 0\n")
    with pytest.raises(
        MeasurementError, match=r"broken\.py: a cell failed: ZeroDivisionError: division by zero"
    ):
        notebook.execute(source)
