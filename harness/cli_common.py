"""What commands share: options, errors as one line and an exit code, and the way from options to a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import click

from harness import display, experiment, pod, postgres, preflight, scenario, targets
from harness.errors import EXIT_INTERRUPTED, HarnessError, ScenarioError
from harness.spelling import ROOT

RESULTS = ROOT / "results"

Command = Callable[..., Any]


def options(*chosen: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""
    return lambda command: reduce(lambda wrapped, option: option(wrapped), reversed(chosen), command)


changing = options(
    click.option("--rate", help='requests per second ("500", "30/min")'),
    click.option("--duration", help='the window ("60", "1 min")'),
    click.option("--warmup", help='before the window ("25 s")'),
    click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="e.g. pod.threads=400"),
    click.option("--targets", "files", multiple=True, type=Path, help="TOML file with targets of your own"),
)
selection = options(
    click.option("--scenario", "name", default="rag", show_default=True, help="name, or a TOML file"),
    changing,
)
running = options(
    click.option("--results", type=Path, default=RESULTS, help="where runs are kept"),
    click.option("--port", type=click.IntRange(1, 65535), help="of the pod; free ones are found otherwise"),
    click.option("--json", "as_json", is_flag=True, help="the result as JSON on stdout"),
)


@contextmanager
def reported() -> Iterator[None]:
    """Turns the harness's errors into one line on stderr and their exit code."""
    try:
        yield
    except HarnessError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        click.echo("interrupted: what ran was stopped, the run is discarded", err=True)
        raise SystemExit(EXIT_INTERRUPTED) from None


def prepare(
    names: tuple[str, ...],
    name: str,
    rate: str | None,
    duration: str | None,
    warmup: str | None,
    sets: tuple[str, ...],
    files: tuple[Path, ...],
) -> tuple[scenario.Scenario, list[targets.Target]]:
    """Everything that can be refused before anything starts, is refused here."""
    changes = overrides(rate, duration, warmup, sets)
    known = targets.load_targets(files)
    found = [targets.get_target(target, known) for target in names]
    return scenario.load(name, changes), found


def overrides(
    rate: str | None, duration: str | None, warmup: str | None, sets: tuple[str, ...]
) -> dict[str, str]:
    """What the options change in a scenario, as scenario.load takes it."""
    shorthands = {"rate": rate, "duration": duration, "warmup": warmup}
    found = {key: text for key, text in shorthands.items() if text is not None}
    for entry in sets:
        key, equals, text = entry.partition("=")
        if not equals or not key:
            raise ScenarioError(f"--set {entry}: write KEY=VALUE, for example pod.threads=400")
        found[key.strip()] = text.strip()
    return found


def layout_for(wanted: scenario.Scenario, target: targets.Target) -> preflight.Layout:
    layout = preflight.plan(wanted, target, preflight.Host.here())
    if wanted.database is not None:
        postgres.require()
    for warning in scenario.warnings(wanted):
        click.echo(f"warning: {warning}", err=True)
    return layout


def needs_a_rate(wanted: scenario.Scenario) -> None:
    """Refuse a load that has none to vary. Raises ScenarioError."""
    if wanted.load.clients is not None:
        raise ScenarioError(
            f"{wanted.name}: a closed model has no rate to vary; use harness run, or harness pinning"
        )


def run_one(
    wanted: scenario.Scenario, target: targets.Target, results: Path, port: int | None
) -> experiment.Outcome:
    layout = layout_for(wanted, target)
    if port is not None and not pod.port_is_free(port):
        raise ScenarioError(f"--port {port}: already in use; stop what listens there, or leave it out")
    load = wanted.load
    title = f"{target.name}, {wanted.name}: {load.offer} on {load.route}"
    with display.Progress(title, layout) as progress:
        return experiment.run(wanted, target, layout, results, progress, port)
