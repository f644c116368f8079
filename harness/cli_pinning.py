"""The command of the pinning laboratory."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import click
import msgspec

from harness import deadlock, lab, preflight
from harness.cli_common import RESULTS, prepare, reported, run_one
from harness.display_pinning import show_cells, show_deadlocks
from harness.errors import EXIT_INVALID
from harness.expected import ENDPOINTS
from harness.run import Run
from harness.scenario import Scenario
from harness.targets import Target


@click.command()
@click.argument("names", metavar="[TARGET]...", nargs=-1)
@click.option("--scenario", "name", default="pinning", show_default=True, help="name, or a TOML file")
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="of each endpoint")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="as of harness run")
@click.option("--targets", "files", multiple=True, type=Path, help="TOML file with targets of your own")
@click.option("--results", type=Path, default=RESULTS, help="where runs are kept")
@click.option("--json", "as_json", is_flag=True, help="the result as JSON on stdout")
def pinning(
    names: tuple[str, ...],
    name: str,
    runs: int,
    sets: tuple[str, ...],
    files: tuple[Path, ...],
    results: Path,
    as_json: bool,
) -> None:
    """What each kind of lock does to each TARGET (all four models, if none is named), beside what it should."""
    with reported():
        wanted, found = prepare(names or lab.TARGETS, name, None, None, None, sets, files)
        lab.check(wanted, found, preflight.Host.here())
        numbers, total = count(1), len(found) * len(ENDPOINTS) * runs

        def run_once(target: Target, part: Scenario) -> Run:
            click.echo(f"window {next(numbers)} of {total}", err=True)
            return run_one(part, target, results, None).run

        cells = lab.run(wanted, found, runs, run_once)
        if not as_json:
            show_cells(cells)  # now: what the pods of the sixth do must not cost an hour's table
        deadlocks = []
        for target in found:
            deadlocks.append(deadlock.provoke(wanted, target))
            deadlock.keep(results, wanted.name, deadlocks[-1])
        if as_json:
            click.echo(msgspec.json.encode({"cells": cells, "deadlocks": deadlocks}))
        else:
            show_deadlocks(deadlocks)
        if not all(each.valid for each in cells) or not all(each.as_expected for each in deadlocks):
            raise SystemExit(EXIT_INVALID)
