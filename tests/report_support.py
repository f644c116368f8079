"""What tests of the report read: the one chapter of a results directory, and the words of a figure."""

from __future__ import annotations

from pathlib import Path

import matplotlib.text
from matplotlib.figure import Figure

from harness import targets
from harness.report import style
from harness.report.load import load
from harness.report.rows import Chapter, chapters


def chapter(results: Path) -> Chapter:
    (found,) = chapters(load(results), targets.load_targets())
    return found


def words(figure: Figure) -> list[str]:
    """All that can be read in a figure."""
    with style.applied():
        figure.draw_without_rendering()
    texts = figure.findobj(matplotlib.text.Text)
    return [text.get_text() for text in texts if isinstance(text, matplotlib.text.Text) and text.get_text()]
