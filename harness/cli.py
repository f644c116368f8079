"""The commands, nothing else: options in, one clear line and an exit code out."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import click
import msgspec

from harness import bench as benches
from harness import display, experiment, measures, pod, preflight, records, scenario, targets
from harness.errors import EXIT_INTERRUPTED, EXIT_INVALID, HarnessError, ScenarioError
from harness.spelling import ROOT

RESULTS = ROOT / "results"

Command = Callable[..., Any]


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""
    return lambda command: reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


_selection = _with(
    click.option("--scenario", "name", default="rag", show_default=True, help="name, or a TOML file"),
    click.option("--rate", help='requests per second ("500", "30/min")'),
    click.option("--duration", help='the window ("60", "1 min")'),
    click.option("--warmup", help='before the window ("25 s")'),
    click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="e.g. pod.threads=400"),
    click.option("--targets", "files", multiple=True, type=Path, help="TOML file with targets of your own"),
)
_running = _with(
    click.option("--results", type=Path, default=RESULTS, help="where runs are kept"),
    click.option("--port", type=click.IntRange(1, 65535), help="of the pod; free ones are found otherwise"),
    click.option("--json", "as_json", is_flag=True, help="the result as JSON on stdout"),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """How many pods does a rate take, under which execution model, and what binds."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> None:
    raise KeyboardInterrupt  # as Ctrl-C does: everything on the way out is cleaned up


@main.command()
@click.argument("target")
@_selection
@_running
def run(target: str, results: Path, port: int | None, as_json: bool, **chosen: Any) -> None:
    """Run one scenario once against TARGET."""
    with _reported():
        wanted, (found,) = _prepare((target,), **chosen)
        outcome = _run(wanted, found, results, port)
        if as_json:
            click.echo((outcome.path / records.RUN).read_text(), nl=False)
        else:
            display.show_run(outcome.run)
            click.echo(f"  kept in {outcome.path}")
        if not outcome.run.verdict.valid:
            raise SystemExit(EXIT_INVALID)


@main.command()
@click.argument("names", metavar="TARGET...", nargs=-1, required=True)
@_selection
@_running
@click.option("--runs", type=click.IntRange(1, 100), default=1, show_default=True, help="repeats of each row")
def bench(
    names: tuple[str, ...], results: Path, port: int | None, as_json: bool, runs: int, **chosen: Any
) -> None:
    """Make the table row of each TARGET, their runs interleaved in random order."""
    with _reported():
        wanted, found = _prepare(names, **chosen)
        host = preflight.Host.here()
        rows = benches.bench(
            wanted, found, host, runs, lambda target, part: _run(part, target, results, port).run
        )
        if as_json:
            click.echo(msgspec.json.encode(rows))
        else:
            display.show_rows(rows)
        if not all(row.valid for row in rows):
            raise SystemExit(EXIT_INVALID)


@main.command()
@click.argument("target")
@_selection
@click.option("--json", "as_json", is_flag=True, help="the layout as JSON on stdout")
def check(target: str, as_json: bool, **chosen: Any) -> None:
    """Preflight only: what a run would need and what is predicted of it."""
    with _reported():
        wanted, (found,) = _prepare((target,), **chosen)
        layout = _plan(wanted, found)
        if as_json:
            click.echo(
                msgspec.json.encode({"layout": layout, "prediction": measures.predict(layout, wanted)})
            )
            return
        click.echo(f"{found.name}, {wanted.name}: {display.predicted(layout)}")
        click.echo(
            f"pod: {layout.workers} processes on CPUs {layout.pod_cpus}, {layout.descriptors:,} descriptors each; "
            f"harness: {layout.generators} generator and {layout.upstreams} upstream processes on CPUs "
            f"{layout.harness_cpus}, {layout.sources} source addresses"
        )
        for note in layout.notes:
            click.echo(note)


@main.command()
@click.argument("path", type=Path)
def show(path: Path) -> None:
    """Show a run: a directory of results/runs/, or its id."""
    with _reported():
        places = (path, *(RESULTS / home / path for home in ("runs", "discarded")))
        display.show_run(records.read_run(next((place for place in places if place.exists()), path)))


@main.command()
def schema() -> None:
    """Print the JSON Schema of run.json."""
    click.echo(json.dumps(records.json_schema(), indent=2))


@main.command(name="targets")
@click.option("--targets", "files", multiple=True, type=Path, help="TOML file with targets of your own")
def list_targets(files: tuple[Path, ...]) -> None:
    """List what can be put under load."""
    with _reported():
        for target in targets.load_targets(files).values():
            click.echo(f"{target.name:<14}{target.arm:<12}{target.description}")


@contextmanager
def _reported() -> Iterator[None]:
    """Turns the harness's errors into one line on stderr and their exit code."""
    try:
        yield
    except HarnessError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        click.echo("interrupted: what ran was stopped, the run is discarded", err=True)
        raise SystemExit(EXIT_INTERRUPTED) from None


def _prepare(
    names: tuple[str, ...],
    name: str,
    rate: str | None,
    duration: str | None,
    warmup: str | None,
    sets: tuple[str, ...],
    files: tuple[Path, ...],
) -> tuple[scenario.Scenario, list[targets.Target]]:
    """Everything that can be refused before anything starts, is refused here."""
    shorthands = {"rate": rate, "duration": duration, "warmup": warmup}
    overrides = {key: text for key, text in shorthands.items() if text is not None}
    for entry in sets:
        key, equals, text = entry.partition("=")
        if not equals or not key:
            raise ScenarioError(f"--set {entry}: write KEY=VALUE, for example pod.threads=400")
        overrides[key.strip()] = text.strip()
    known = targets.load_targets(files)
    found = [targets.get_target(target, known) for target in names]
    return scenario.load(name, overrides), found


def _plan(wanted: scenario.Scenario, target: targets.Target) -> preflight.Layout:
    layout = preflight.plan(wanted, target, preflight.Host.here())
    for warning in scenario.warnings(wanted):
        click.echo(f"warning: {warning}", err=True)
    return layout


def _run(
    wanted: scenario.Scenario, target: targets.Target, results: Path, port: int | None
) -> experiment.Outcome:
    layout = _plan(wanted, target)
    if port is not None and not pod.port_is_free(port):
        raise ScenarioError(f"--port {port}: already in use; stop what listens there, or leave it out")
    title = f"{target.name}, {wanted.name} at {wanted.load.rate_rps:g}/s"
    with display.Progress(title, layout) as progress:
        return experiment.run(wanted, target, layout, results, progress, port)


if __name__ == "__main__":
    sys.exit(main())
