"""The report as one file of HTML that asks nobody for anything: style inside, images inside, no script.

A policy in the page itself holds it to that: the browser refuses every load but inlined images and this very
style sheet, whatever a hostile name may try.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.report.conditions import printable
from harness.report.content import HOW_TO_READ, TITLE, Part, Picture, Report, Section, slug
from harness.report.html import Html, element, joined, verbatim
from harness.report.load import Discarded
from harness.report.metrics import given, number
from harness.report.tables import Line, Shown, Table
from harness.rules import Check
from harness.run import HandlerPins, Run

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
FRAMES = 4  # of a stack, the innermost
VERDICTS: Mapping[bool | None, str] = {True: "passed", False: "failed", None: "not judged"}


def render(report: Report) -> str:
    """report.html."""
    body = element(
        "body",
        element("h1", TITLE),
        element("p", report.summary),
        _navigation(report),
        [_section(section) for section in report.sections],
        _heading("h2", "How to read", "how-to-read"),
        _definitions(HOW_TO_READ),
        _heading("h2", "Runs and their verdicts", "runs"),
        element(
            "p", "Each run checked itself when it ended. Open one to see every check, its figure and limit."
        ),
        [_run(run) for run in report.runs],
        _heading("h2", "Discarded runs", "discarded"),
        _discarded(report.discarded),
        _heading("h2", "Where it ran", "where"),
        _definitions(report.where),
    )
    return f'<!DOCTYPE html>\n<html lang="en">{_head()}{body}</html>\n'


def _head() -> Html:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", TITLE),
        element("style", verbatim(STYLE)),
    )


def _navigation(report: Report) -> Html:
    places = [(f"scenario-{section.name}", section.scenario) for section in report.sections]
    places += [("how-to-read", "How to read"), ("runs", "Runs and their verdicts"), ("where", "Where it ran")]
    items = [element("li", element("a", text, href=f"#{_anchor(name)}")) for name, text in places]
    return element("nav", element("ul", items), aria_label="Contents")


def _section(section: Section) -> Html:
    facts = " · ".join(f"{name}: {text}" for name, text in section.facts.items())
    return element(
        "section",
        _heading("h2", section.scenario, f"scenario-{section.name}"),
        element("p", section.description),
        element("p", facts, class_="quiet"),
        [_part(section, place, part) for place, part in enumerate(section.parts)],
        _notes(section.discarded),
        element("p", "All columns: ", element("code", f"results/tables/{section.name}.csv"), class_="quiet"),
    )


def _part(section: Section, place: int, part: Part) -> Html:
    tables = [
        joined(_table(table, f"{section.scenario}: {name}"), _notes(table.notes))
        for name, table in part.tables.items()
    ]
    figures = [_figure(picture) for picture in part.pictures]
    return joined(
        _heading("h3", part.title, f"scenario-{section.name}-{place + 1}"),
        [*figures, *tables] if part.pictures_first else [*tables, *figures],
    )


def _figure(picture: Picture) -> Html:
    data = base64.b64encode(picture.files["svg"]).decode()
    image = element("img", src=f"data:image/svg+xml;base64,{data}", alt=f"Figure: {picture.title}")
    caption = element("figcaption", element("strong", f"{picture.title}. "), picture.caption)
    return element("figure", _box(image, picture.title), caption, id=_anchor(picture.name))


def _table(table: Table, name: str, class_: str = "figures") -> Html:
    head = element("tr", [element("th", header, scope="col") for header in table.headers])
    lines = [_line(line) for line in table.lines]
    return _box(element("table", element("thead", head), element("tbody", lines), class_=class_), name)


def _line(line: Line) -> Html:
    cells = [_cell(cell) for cell in line.cells]
    return element(
        "tr", element("th", line.label, scope="row"), cells, class_="article" if line.of_article else "ours"
    )


def _cell(cell: Shown) -> Html:
    interval = element("span", cell.interval, class_="interval") if cell.interval else ""
    return element("td", cell.text, interval, **({"title": cell.reason} if cell.reason else {}))


def _run(run: Run) -> Html:
    judged = sum(check.ok is not None for check in run.verdict.checks)
    word = element("strong", "valid", class_="good")
    load = run.scenario.load
    offered = f"λ = {given(load.rate_rps)}/s" if load.clients is None else f"{load.offer} on {load.route}"
    head = element(
        "summary",
        element("code", run.id),
        f": {printable(run.scenario.name)}, {offered}, {load.regime}, ",
        word,
        f", {judged} of {len(run.verdict.checks)} checks judged",
    )
    lines = tuple(_check(check) for check in run.verdict.checks)
    table = Table(("check", "verdict", "value", "limit", "in words"), lines, ())
    notes = _notes([printable(note) for note in run.notes])
    checks = _table(table, f"Checks of {run.id}", "checks")
    return element("details", head, checks, _pins(run), notes, id=_anchor(run.id))


def _pins(run: Run) -> Html:
    """Who held the loop or hub, and where it stood when it was caught first."""
    if run.pins is None or not run.pins.count:
        return Html()
    lines = tuple(
        Line(
            printable(handler),
            (
                Shown(f"{found.count:,}"),
                Shown("" if found.per_request is None else number(found.per_request)),
                Shown(number(found.seconds)),
                Shown(_caught(found)),
            ),
        )
        for handler, found in run.pins.handlers.items()
    )
    headers = ("pins of", "count", "a request", "held for (s)", "caught at")
    return _table(Table(headers, lines, ()), f"Pins of {run.id}", "checks")


def _caught(found: HandlerPins) -> str:
    """The innermost frames of its first stack."""
    if not found.stacks:
        return "not caught"
    return printable(" ← ".join(reversed(found.stacks[0][-FRAMES:])))


def _check(check: Check) -> Line:
    limit = number(check.limit) if isinstance(check.limit, float) else str(check.limit or "")
    value = "" if check.value is None else number(check.value)
    return Line(check.name, (Shown(VERDICTS[check.ok]), Shown(value), Shown(limit), Shown(check.detail)))


def _discarded(items: tuple[Discarded, ...]) -> Html:
    if not items:
        return element("p", "None.")
    return element("ul", [element("li", _reason(item)) for item in items])


def _reason(item: Discarded) -> Html:
    checks = item.run.verdict.checks if item.run else ()
    failed = [printable(check.detail) for check in checks if check.ok is False]
    reason = element("strong", printable(item.reason), class_="bad")
    return joined(element("code", printable(item.id)), ": ", reason, _notes(failed))


def _notes(notes: Sequence[str]) -> Html:
    return element("ul", [element("li", note) for note in notes], class_="notes") if notes else Html()


def _definitions(items: Mapping[str, str]) -> Html:
    return element("dl", [joined(element("dt", name), element("dd", text)) for name, text in items.items()])


def _heading(level: str, text: str, name: str) -> Html:
    link = element("a", "#", href=f"#{_anchor(name)}", class_="anchor", aria_label=f"Link to {text}")
    return element(level, text, link, id=_anchor(name))


def _box(child: Html, name: str) -> Html:
    """A place that scrolls by itself, also by keyboard, so that the page never has to."""
    return element("div", child, class_="box", tabindex="0", role="region", aria_label=name)


def _anchor(name: str) -> str:
    return slug(name)
