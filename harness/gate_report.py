"""A gate's verdict for those who read it: JUnit XML for a CI's test page, Markdown for its summary.

One test case per metric. JUnit knows no "inconclusive": such a metric is skipped, with the reason; what could
not be judged is an error, what got worse a failure. The exit code tells them apart in any case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from harness.errors import MeasurementError
from harness.gate import METRICS, GateVerdict, MetricVerdict, Word

_ELEMENTS: Mapping[Word, str] = {"regressed": "failure", "invalid": "error", "inconclusive": "skipped"}
_SUMMARY = "GITHUB_STEP_SUMMARY"

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(verdict: GateVerdict, target: str) -> str:
    """JUnit XML: a suite of one case per metric, whose class is the target."""
    counts = {
        name: sum(_ELEMENTS.get(metric.verdict) == element for metric in verdict.metrics)
        for name, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    suite = ElementTree.Element(
        "testsuite",
        {"name": "pods-per-lambda gate", "tests": str(len(verdict.metrics))}
        | {name: str(count) for name, count in counts.items()},
    )
    for metric in verdict.metrics:
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(f"gate.{target}"), name=metric.name)
        if element := _ELEMENTS.get(metric.verdict):
            ElementTree.SubElement(case, element, message=_xml(metric.detail))
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(metric.detail)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def markdown(verdict: GateVerdict, target: str) -> str:
    """A heading with the verdict, a table of the metrics, and the reason of each that did not pass."""
    lines = [
        f"### Pods per λ, {_cell(target)}: {verdict.verdict}",
        "",
        "| metric | verdict | base | head | change | limit | p (Holm) | runs |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(metric) for metric in verdict.metrics),
        "",
        *(f"- {_cell(metric.detail)}" for metric in verdict.metrics if metric.verdict != "pass"),
    ]
    return "\n".join(lines).rstrip() + "\n"


def write(directory: Path, verdict: GateVerdict, target: str, environment: Mapping[str, str]) -> None:
    """Write gate-TARGET.xml and gate-TARGET.md, and append the latter to $GITHUB_STEP_SUMMARY where it is set.

    Raises MeasurementError where they cannot be written.
    """
    summary = markdown(verdict, target)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", target)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"gate-{name}.xml").write_text(junit(verdict, target), encoding="utf-8")
        (directory / f"gate-{name}.md").write_text(summary, encoding="utf-8")
        if path := environment.get(_SUMMARY):
            with Path(path).open("a", encoding="utf-8") as page:
                page.write(summary)
    except OSError as error:
        raise MeasurementError(f"the gate's report could not be written: {error}") from error


def _row(metric: MetricVerdict) -> str:
    shown = METRICS[metric.name]

    def figure(value: float | None, form: str, unit: str = "") -> str:
        return "" if value is None else f"{value:{form}}{unit}"

    base, head = (
        figure(None if value is None else value * shown.shown, ".4g", f" {shown.unit}")
        for value in (metric.base, metric.head)
    )
    cells = (
        metric.name,
        metric.verdict,
        base,
        head,
        figure(metric.change, "+.2%"),
        figure(metric.effect, ".2%"),
        figure(metric.p_value, ".2g"),
        " / ".join(map(str, metric.runs)),
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Text that stays in its cell and its line, whatever it holds, and is no markup."""
    return re.sub(r"([\\`*<>|\[\]])", r"\\\1", " ".join(text.split()))


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
