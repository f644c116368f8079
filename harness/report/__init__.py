"""The report: tables, figures, page and histograms, made from the runs on disk alone.

    load                         what runs left
    conditions, metrics, rows    which runs belong together, and their figures
    article                      what was measured elsewhere, as data
    tables, frames               cells of text; data and CSV
    curves, style, drawing       arithmetic and look of the figures
    figures, timelines, sweeps   the figures
    content, markdown, page      what the report says, and how it is written (html: escaped by construction)
    hgrm                         histograms for other tools

The same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.errors import MeasurementError
from harness.report import content, figures, frames, hgrm, markdown, page, style, sweeps, timelines
from harness.report.content import Picture, Report, slug
from harness.report.drawing import Drawing
from harness.report.load import Shelf, latencies_s, load
from harness.report.rows import Chapter, chapters, without_valid_run
from harness.targets import load_targets

__all__ = ["generate"]

FIGURES: tuple[Callable[[Chapter], Drawing | None], ...] = (
    figures.latency,
    timelines.in_flight,
    figures.load,
    figures.pods,
    timelines.gc,
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
            sections.append(content.section(scenario, own, shelf, never_valid, _pictures))
    runs = tuple(stored.run for stored in shelf.valid)
    report = Report(tuple(sections), runs, shelf.discarded, content.where(runs))
    return [
        *_write_tables(results / "tables", shelf, book),
        *_write_pictures(results / "figures", report),
        *_write_histograms(results / "histograms", shelf),
        _write(results / "report.md", markdown.render(report)),
        _write(results / "report.html", page.render(report)),
    ]


def _pictures(chapter: Chapter) -> tuple[Picture, ...]:
    home = f"{slug(chapter.scenario)}-{chapter.arm}"
    drawings = [drawing for draw in FIGURES if (drawing := draw(chapter)) is not None]
    return tuple(
        content.picture(drawing, home, style.rendered(drawing.figure))
        for drawing in [*drawings, *sweeps.drawings(chapter)]
    )


def _write_tables(home: Path, shelf: Shelf, book: list[Chapter]) -> list[Path]:
    home.mkdir(parents=True, exist_ok=True)
    written = []
    for scenario in shelf.scenarios():
        path = home / f"{slug(scenario)}.csv"
        frames.write_csv([chapter for chapter in book if chapter.scenario == scenario], path)
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
