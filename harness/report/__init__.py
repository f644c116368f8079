"""The report: tables, figures, page and histograms, made from the runs on disk alone.

    load                         what runs left
    conditions, metrics, rows    which runs belong together, and their figures
    article                      what was measured elsewhere, as data
    tables, frames, capacities   cells of text; data and CSV
    curves, style, drawing       arithmetic and look of the figures
    figures, timelines, sweeps   the figures (axes: what a sweep can be about)
    pinning, admission, sweeps   what shows a chapter of another kind: KINDS
    content, markdown, page      what the report says, and how it is written (html: escaped by construction)
    hgrm                         histograms for other tools

The same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]

from harness.errors import MeasurementError
from harness.report import (
    admission,
    capacities,
    content,
    figures,
    frames,
    hgrm,
    markdown,
    page,
    pinning,
    style,
    sweeps,
    tables,
    timelines,
)
from harness.report.conditions import ARMS
from harness.report.content import Part, Report, slug
from harness.report.drawing import Drawing
from harness.report.load import Shelf, latencies_s, load
from harness.report.rows import Chapter, chapters, without_valid_run
from harness.report.tables import Table
from harness.targets import load_targets

__all__ = ["generate"]

FIGURES: tuple[Callable[[Chapter], Drawing | None], ...] = (
    figures.latency,
    timelines.in_flight,
    figures.load,
    figures.pods,
    timelines.gc,
)


def _tables(chapter: Chapter, results: Path) -> Mapping[str, Table]:
    own = {"results": tables.results(chapter), "costs": tables.costs(chapter)}
    return own | capacities.tables(results, chapter.scenario)


def _drawings(chapter: Chapter) -> Sequence[Drawing]:
    drawings = [drawing for draw in FIGURES if (drawing := draw(chapter)) is not None]
    return [*drawings, *sweeps.drawings(chapter)]


def _frame(book: Sequence[Chapter], _: Path) -> pd.DataFrame:
    return frames.frame(book)


@dataclass(frozen=True)
class Kind:
    """How the chapters of one kind are shown: tables by name, figures, and the frame that becomes the CSV.

    The path is that of the results: a kind may keep more there than runs.
    """

    is_of: Callable[[Chapter], bool]
    tables: Callable[[Chapter, Path], Mapping[str, Table]]
    drawings: Callable[[Chapter], Sequence[Drawing]]
    frame: Callable[[Sequence[Chapter], Path], pd.DataFrame] = _frame
    pictures_first: bool = False


# The first kind that a chapter is of shows it.
KINDS: tuple[Kind, ...] = (
    Kind(pinning.is_of, pinning.tables, pinning.drawings, pinning.frame),
    Kind(admission.is_of, admission.tables, admission.drawings, admission.frame),
    Kind(sweeps.is_of, sweeps.tables, sweeps.drawing, pictures_first=True),
    Kind(lambda _: True, _tables, _drawings),
)


def generate(results: Path) -> list[Path]:
    """Write report.md, report.html, tables/, figures/ and histograms/ under `results`; the files written.

    Raises MeasurementError where there is no valid run to report, or a valid run's columns cannot be read.
    """
    shelf = load(results)
    if not shelf.valid:
        raise MeasurementError(
            f"{results / 'runs'}: no valid run to report, {len(shelf.discarded)} discarded; "
            "make one first, for example with: make bench MODEL=asyncio"
        )
    registry = load_targets()
    book = chapters(shelf, registry)
    never_valid = without_valid_run(shelf, registry)
    sections = []
    with style.applied():
        for scenario in shelf.scenarios():
            own = [chapter for chapter in book if chapter.scenario == scenario]
            sections.append(
                content.section(scenario, own, shelf, never_valid, lambda chapter: _part(chapter, results))
            )
    runs = tuple(stored.run for stored in shelf.valid)
    report = Report(tuple(sections), runs, shelf.discarded, content.where(runs))
    return [
        *_write_tables(results, shelf, book),
        *_write_pictures(results / "figures", report),
        *_write_histograms(results / "histograms", shelf),
        _write(results / "report.md", markdown.render(report)),
        _write(results / "report.html", page.render(report)),
    ]


def _kind(chapter: Chapter) -> Kind:
    return next(kind for kind in KINDS if kind.is_of(chapter))


def _part(chapter: Chapter, results: Path) -> Part:
    home, kind = f"{slug(chapter.scenario)}-{chapter.arm}", _kind(chapter)
    pictures = tuple(
        content.picture(drawing, home, style.rendered(drawing.figure)) for drawing in kind.drawings(chapter)
    )
    return Part(ARMS[chapter.arm], kind.tables(chapter, results), pictures, kind.pictures_first)


def _write_tables(results: Path, shelf: Shelf, book: list[Chapter]) -> list[Path]:
    home = results / "tables"
    home.mkdir(parents=True, exist_ok=True)
    written = []
    for scenario in shelf.scenarios():
        path = home / f"{slug(scenario)}.csv"
        own = [chapter for chapter in book if chapter.scenario == scenario]
        frames.write_csv(_kind(own[0]).frame(own, results), path)
        written.append(path)
    return written


def _write_pictures(home: Path, report: Report) -> list[Path]:
    home.mkdir(parents=True, exist_ok=True)
    return [
        _write(home / f"{picture.name}.{kind}", data)
        for section in report.sections
        for part in section.parts
        for picture in part.pictures
        for kind, data in picture.files.items()
    ]


def _write_histograms(home: Path, shelf: Shelf) -> list[Path]:
    """Latencies in ms, as HdrHistogram's tools expect, of every steady run whose requests were kept."""
    home.mkdir(parents=True, exist_ok=True)
    written = []
    for stored in shelf.valid:
        requests = stored.requests() if stored.run.scenario.load.regime == "steady" else None
        if requests is None:
            continue
        latency_ms = latencies_s(stored.run, requests) * 1e3
        if latency_ms.size:
            written.append(_write(home / f"{stored.directory.name}.hgrm", hgrm.render(latency_ms)))
    return written


def _write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path
