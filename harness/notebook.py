"""`python -m harness.notebook`: executes notebooks/story.py and writes it with its outputs as story.ipynb.

People edit the .py, in jupytext's percent format; the .ipynb is made of it, for those who read. The same runs give
the same bytes: no times, no random ids, no paths, no version of Python, and none of a user's own IPython settings.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

from harness import files
from harness.cli_common import reported
from harness.errors import MeasurementError
from harness.spelling import ROOT

SOURCE = ROOT / "notebooks" / "story.py"
CELL_S = 120
METADATA: Mapping[str, Any] = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

Notebook = Any  # nbformat's own type is a dictionary with attributes


def read(source: Path) -> Notebook:
    """The notebook that `source` describes, without outputs."""
    return _settled(jupytext.read(source))


def execute(source: Path, environment: Mapping[str, str] | None = None) -> Notebook:
    """The notebook with its outputs, run beside its source, `environment` added to this process's own.

    Raises MeasurementError where a cell fails.
    """
    notebook = read(source)
    with tempfile.TemporaryDirectory() as scratch:
        client = NotebookClient(
            notebook,
            timeout=CELL_S,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,  # or the pipe's timing would show in the file
            resources={"metadata": {"path": str(source.parent)}},
            # Files in a place of its own: no port is opened, and nothing is left in the user's directories.
            config=Config(
                {"KernelManager": {"transport": "ipc", "connection_file": f"{scratch}/kernel.json"}}
            ),
        )
        try:
            # Not client.execute(), which takes Ctrl-C for itself and ends in an error of its own.
            with client.setup_kernel(env={**os.environ, "IPYTHONDIR": scratch, **(environment or {})}):
                for index, cell in enumerate(notebook.cells):
                    client.execute_cell(cell, index)
        except CellExecutionError as error:
            raise MeasurementError(f"{source}: a cell failed: {error.ename}: {error.evalue}") from None
    return _settled(notebook)


def main() -> None:
    """Execute the story and write it beside its source."""
    with reported():
        made = SOURCE.with_suffix(".ipynb")
        files.write(made, f"{nbformat.writes(execute(SOURCE))}\n".encode())
        click.echo(made)


def _settled(notebook: Notebook) -> Notebook:
    notebook.metadata = METADATA
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    return notebook


if __name__ == "__main__":
    main()
