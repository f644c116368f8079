"""The report as Markdown, with its figures linked from figures/. Text of runs is escaped: it is data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from harness.report.content import HOW_TO_READ, TITLE, Part, Picture, Report, Section
from harness.report.tables import Line, Shown, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>&~$])")
_HARMLESS = re.compile(r"\\([.()\-+,])")


def render(report: Report) -> str:
    """report.md."""
    blocks = [
        f"# {TITLE}",
        f"{escape(report.summary)} Made from `results/runs/` by `make report`; `report.html` is the same with "
        "every run's checks.",
        *(block for section in report.sections for block in _section(section)),
        "## How to read",
        _definitions(HOW_TO_READ),
        "## Where it ran",
        _definitions(report.where),
    ]
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Text that Markdown, and HTML inside it, shows as it is."""
    escaped = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    escaped = re.sub(r"\\&(amp|lt|gt);", r"&\1;", escaped)
    return _HARMLESS.sub(r"\1", escaped)


def blocks(table: Table) -> Iterable[str]:
    """A table, and the notes below it if there are any."""
    yield _table(table)
    if table.notes:
        yield "\n".join(f"- {escape(note)}" for note in table.notes)


def _section(section: Section) -> Iterable[str]:
    yield f"## {escape(section.scenario)}"
    if section.description:
        yield escape(section.description)
    yield " · ".join(f"{escape(name)}: {escape(text)}" for name, text in section.facts.items())
    for part in section.parts:
        yield from _part(part)
    yield "\n".join(f"- {escape(line)}" for line in section.discarded)
    yield f"All columns: [tables/{section.name}.csv](tables/{section.name}.csv)"


def _part(part: Part) -> Iterable[str]:
    yield f"### {escape(part.title)}"
    tables = [block for table in part.tables.values() for block in blocks(table)]
    pictures = [block for picture in part.pictures for block in _figure(picture)]
    yield from [*pictures, *tables] if part.pictures_first else [*tables, *pictures]


def _figure(picture: Picture) -> Iterable[str]:
    yield f"![{escape(picture.title)}](figures/{picture.name}.png)"
    yield f"*{escape(picture.title)}.* {escape(picture.caption)}"


def _table(table: Table) -> str:
    rule = ["---", *("---:" for _ in table.headers[1:])]
    lines = [_line(map(escape, table.headers)), _line(rule)]
    return "\n".join([*lines, *(_line(_cells(line)) for line in table.lines)])


def _cells(line: Line) -> list[str]:
    if line.of_article:
        return [
            f"*{escape(line.label)}*",
            *(f"*{escape(cell.text)}*" if cell.text else "" for cell in line.cells),
        ]
    return [escape(line.label), *map(_cell, line.cells)]


def _cell(cell: Shown) -> str:
    return escape(f"{cell.text} ({cell.interval})" if cell.interval else cell.text)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _definitions(items: Mapping[str, str]) -> str:
    return "\n".join(f"- **{escape(name)}** {escape(text)}" for name, text in items.items())
