"""What a report says, before it is Markdown or HTML: sections of tables, notes and pictures.

Every word that came from a run is plain text here; who renders it escapes it.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.report import article
from harness.report.conditions import Condition, printable
from harness.report.drawing import Drawing
from harness.report.load import Discarded, Shelf
from harness.report.metrics import given
from harness.report.rows import Chapter
from harness.report.tables import Table
from harness.run import Run

TITLE = "How many pods for λ"

HOW_TO_READ: Mapping[str, str] = {
    "λ max / pod": "The rate that one pod completed while more was offered than it can carry. “≥”: it was never "
    "saturated; this is the highest rate that it carried in a valid run.",
    "at capacity": "Latency and resources come from the steady runs at the condition's highest rate, given in "
    "“at λ”. A pod that was only run full has its resources from there, and no latency. Latency counts from when a "
    "request was due, so a late send is not forgiven.",
    "RSS, CPU": "Of the pod's whole process tree, averaged over the window. 100 % is one core; MB and KB are "
    "powers of ten.",
    "sustained concurrency": "Requests in flight inside the handlers, by the server's own gauge; “(client)”: the "
    "server has none, counted at the client.",
    f"pods for λ = {article.RATE_RPS:g}/s": "⌈λ / λ max⌉: what the mean asks for. Arrivals at random need more.",
    "predicted rate": "The smallest λ that any single resource allows, computed before the run; “bound by” names "
    "that resource.",
    "measured / predicted": "Saturated: λ max over the predicted rate. Not saturated: requests in flight over λW.",
    "unsent": "Requests that the generator could not send at their time. They are counted, never caught up.",
    "a–b": "The value is the median over runs; a–b is its 95 % interval, bootstrapped over runs (with few runs it "
    "cannot reach beyond them, and is short of 95 %). It is left out for a single run, and where it reads like the "
    "value itself.",
    "pins": "How often a loop or hub was held without working, counted in the pod over the whole run: a wall time of "
    "1 ms or more off the CPU between two switches. “Of its own handler”: the part of the requests whose pin is laid "
    "at the door of the endpoint that was asked.",
    "expected": "From the number of clients, W and the endpoint alone, before anything ran.",
    "bystander": "How long another, light request waited meanwhile. “≥”: the probe timed out.",
    "–": "Not measured; the reason stands below the table.",
    "article": "Measured by its authors on a JVM with 4 CPUs. It does not say of what its CPU percentage is a "
    "share. “>” marks a limit that was not reached.",
    "valid": "Each run checks itself (below). A run that fails a check is kept aside and enters nothing here.",
}


@dataclass(frozen=True)
class Picture:
    """A drawn figure: file name without its kind, and its bytes by kind."""

    name: str
    title: str
    caption: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Part:
    """One arm of a scenario: its tables by name, its figures, and which come first."""

    title: str
    tables: Mapping[str, Table]
    pictures: tuple[Picture, ...]
    pictures_first: bool = False


@dataclass(frozen=True)
class Section:
    """One scenario; `discarded` says how many of its runs do not count and why, and which are not kept whole."""

    scenario: str
    name: str  # safe in a path and as an anchor
    description: str
    facts: Mapping[str, str]
    parts: tuple[Part, ...]
    discarded: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """The whole; `runs` and `discarded` for the list of verdicts."""

    sections: tuple[Section, ...]
    runs: tuple[Run, ...]
    discarded: tuple[Discarded, ...]
    where: Mapping[str, str]

    @property
    def summary(self) -> str:
        """One sentence: how many runs, from when to when."""
        days = [run.created[:10] for run in self.runs]
        span = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
        return f"{_count(len(self.runs), 'valid run')} of {span}; {_count(len(self.discarded), 'run')} discarded."


def section(
    scenario: str,
    chapters: Sequence[Chapter],
    shelf: Shelf,
    never_valid: Mapping[Condition, list[Discarded]],
    part: Callable[[Chapter], Part],
) -> Section:
    """One scenario's section; `part` shows a chapter."""
    runs = [run for chapter in chapters for run in chapter.runs]
    return Section(
        scenario=printable(scenario),
        name=slug(scenario),
        description=printable(runs[-1].scenario.description),
        facts=_facts(runs),
        parts=tuple(map(part, chapters)),
        discarded=tuple(_discarded(scenario, shelf, never_valid)),
    )


def where(runs: Iterable[Run]) -> dict[str, str]:
    """Machines, versions and commits of the runs."""
    runs = list(runs)
    versions = {f"{name} {version}" for run in runs for name, version in run.versions.items()}
    return {
        "machine": _several(run.machine.class_name for run in runs),
        "kernel": _several(run.machine.kernel for run in runs),
        "Python": _several(run.machine.python for run in runs),
        "versions": ", ".join(sorted(map(printable, versions))),
        "commit": _several(map(_commit, runs)),
    }


def slug(text: str) -> str:
    """A file name and anchor for any text: itself where it is one, else its plain characters and a checksum."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:60]
    return text if text and plain == text else f"{plain or 'unnamed'}-{zlib.crc32(text.encode()):08x}"


def picture(drawing: Drawing, home: str, files: Mapping[str, bytes]) -> Picture:
    """A drawing that was rendered, in the namespace `home` of a scenario and arm."""
    return Picture(f"{home}-{drawing.slug}", drawing.title, drawing.caption, files)


def _facts(runs: Sequence[Run]) -> dict[str, str]:
    return {
        "W": _range([run.scenario.w_s for run in runs], " s"),
        **_offered(runs),
        "arrivals": _several(run.scenario.load.arrivals for run in runs),
        "window": _range([run.scenario.load.window_s for run in runs], " s"),
        "CPUs of the pod": _several(str(run.scenario.pod.cpus or "not confined") for run in runs),
        "commit": _several(map(_commit, runs)),
    }


def _offered(runs: Sequence[Run]) -> dict[str, str]:
    loads = [run.scenario.load for run in runs]
    rates = [load.rate_rps for load in loads if load.clients is None]
    clients = [float(load.clients) for load in loads if load.clients is not None]
    return {
        name: _range(values, unit)
        for name, values, unit in (("λ", rates, "/s"), ("clients", clients, ""))
        if values
    }


def _range(values: Sequence[float], unit: str) -> str:
    """Each value there is, or where they are many their range."""
    found = sorted(set(values))
    if len(found) > 4:
        return f"{given(found[0])} to {given(found[-1])}{unit}"
    return ", ".join(f"{given(value)}{unit}" for value in found)


def _commit(run: Run) -> str:
    if run.source.commit is None:
        return "not in git"
    return run.source.commit[:10] + (" with uncommitted changes" if run.source.dirty else "")


def _several(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(map(printable, texts)))


def _discarded(
    scenario: str, shelf: Shelf, never_valid: Mapping[Condition, list[Discarded]]
) -> Iterable[str]:
    items = [item for item in shelf.discarded if item.is_of(scenario)]
    yield f"{_count(len(items), 'run')} discarded{': ' + _reasons(items) if items else ''}."
    kept = [stored.has_requests for stored in shelf.valid if stored.run.scenario.name == scenario]
    if not all(kept):
        yield f"Requests were kept of {sum(kept)} of {_count(len(kept), 'valid run')}."
    for condition, lost in never_valid.items():
        if condition.scenario == scenario:
            yield f"{condition.label()}: no valid run ({_reasons(lost)})."


def _reasons(items: Sequence[Discarded]) -> str:
    counts = Counter(printable(item.reason) for item in items)
    return "; ".join(f"{reason} ({n})" for reason, n in counts.most_common())


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
