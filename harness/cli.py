"""The commands, nothing else: options in, one clear line and an exit code out."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from harness import bench as benches
from harness import display, measures, preflight, records, repeats, targets
from harness.cli_admission import admission
from harness.cli_common import (
    RESULTS,
    layout_for,
    needs_a_rate,
    prepare,
    reported,
    run_one,
    running,
    selection,
)
from harness.cli_gate import baseline, gate
from harness.cli_pinning import pinning
from harness.cli_sizing import capacity, plan
from harness.cli_sweep import sweep
from harness.errors import EXIT_INVALID
from harness.run import Run
from harness.scenario import Scenario


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """How many pods does a rate take, under which execution model, and what binds."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> None:
    raise KeyboardInterrupt  # as Ctrl-C does: everything on the way out is cleaned up


@main.command()
@click.argument("target")
@selection
@running
def run(target: str, results: Path, port: int | None, as_json: bool, **chosen: Any) -> None:
    """Run one scenario once against TARGET."""
    with reported():
        wanted, (found,) = prepare((target,), **chosen)
        outcome = run_one(wanted, found, results, port)
        if as_json:
            click.echo((outcome.path / records.RUN).read_text(), nl=False)
        else:
            display.show_run(outcome.run)
            click.echo(f"  kept in {outcome.path}")
        if not outcome.run.verdict.valid:
            raise SystemExit(EXIT_INVALID)


@main.command()
@click.argument("names", metavar="TARGET...", nargs=-1, required=True)
@selection
@running
@click.option("--runs", type=click.IntRange(1, 100), default=1, show_default=True, help="repeats of each row")
def bench(
    names: tuple[str, ...], results: Path, port: int | None, as_json: bool, runs: int, **chosen: Any
) -> None:
    """Make the table row of each TARGET, their runs interleaved in random order."""
    with reported():
        wanted, found = prepare(names, **chosen)
        needs_a_rate(wanted)
        host = preflight.Host.here()
        made: dict[str, list[Run]] = {}

        def once(target: targets.Target, part: Scenario) -> Run:
            run = run_one(part, target, results, port).run
            if run.verdict.valid:
                made.setdefault(f"{target.name} at {part.load.rate_rps:.4g}/s", []).append(run)
            return run

        rows = benches.bench(wanted, found, host, runs, once)
        if as_json:
            click.echo(msgspec.json.encode(rows))
        else:
            display.show_rows(rows)
            for note in repeats.notes(made):
                click.echo(note)
        if not all(row.valid for row in rows):
            raise SystemExit(EXIT_INVALID)


@main.command()
@click.argument("target")
@selection
@click.option("--json", "as_json", is_flag=True, help="the layout as JSON on stdout")
def check(target: str, as_json: bool, **chosen: Any) -> None:
    """Preflight only: what a run would need and what is predicted of it."""
    with reported():
        wanted, (found,) = prepare((target,), **chosen)
        layout = layout_for(wanted, found)
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
    with reported():
        places = (path, *(RESULTS / home / path for home in ("runs", "discarded")))
        display.show_run(records.read_run(next((place for place in places if place.exists()), path)))


@main.command()
@click.option("--results", type=Path, default=RESULTS, help="where runs are kept, and the report goes")
def report(results: Path) -> None:
    """Regenerate tables, figures and page from the runs on disk alone."""
    from harness.report import generate  # pandas and matplotlib take a second to import

    with reported():
        for path in generate(results):
            click.echo(path)


@main.command()
@click.argument("scenarios", metavar="[SCENARIO]...", nargs=-1)
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="of each condition")
@click.option("--requests-of", multiple=True, default=("rag",), show_default=True, help="scenarios to draw")
@click.option("--results", type=Path, default=RESULTS, help="where runs are kept")
def reference(scenarios: tuple[str, ...], runs: int, requests_of: tuple[str, ...], results: Path) -> None:
    """Keep the newest valid runs of each condition in results/reference, small enough for git."""
    from harness import reference as references  # as in `report`

    with reported():
        made = references.make(results, targets.load_targets(), scenarios, runs, requests_of)
        for each in made.kept:
            click.echo(each.line)
        click.echo(made.line)


@main.command()
def schema() -> None:
    """Print the JSON Schema of run.json."""
    click.echo(json.dumps(records.json_schema(), indent=2))


@main.command(name="targets")
@click.option("--targets", "files", multiple=True, type=Path, help="TOML file with targets of your own")
def list_targets(files: tuple[Path, ...]) -> None:
    """List what can be put under load."""
    with reported():
        for target in targets.load_targets(files).values():
            click.echo(f"{target.name:<14}{target.arm:<12}{target.description}")


for command in (sweep, pinning, admission, capacity, plan, baseline, gate):
    main.add_command(command)


if __name__ == "__main__":
    sys.exit(main())
