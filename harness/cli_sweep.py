"""The command that answers "what does this option do": sweep."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import msgspec

from harness import display, preflight, sweeping, targets
from harness.bench import Job
from harness.cli_common import changing, overrides, reported, run_one, running
from harness.errors import EXIT_INVALID
from harness.run import Run


@click.command()
@click.argument("name", metavar="SCENARIO")
@click.argument("chosen", metavar="[TARGET]...", nargs=-1)
@changing
@running
@click.option("--runs", type=click.IntRange(1, 100), default=1, show_default=True, help="of each condition")
def sweep(
    name: str,
    chosen: tuple[str, ...],
    files: tuple[Path, ...],
    results: Path,
    port: int | None,
    as_json: bool,
    runs: int,
    **changes: Any,
) -> None:
    """Run SCENARIO at every value of its [sweep], against its own targets or TARGET, in random order.

    A condition that cannot be started is said and left out. The exit code is 3 unless each one has valid runs only.
    """
    with reported():
        host = preflight.Host.here()
        planned = sweeping.plan(name, overrides(**changes), chosen, targets.load_targets(files), host)
        for job, reason in planned.refused:
            click.echo(f"skipped: {job.row}: {reason}", err=True)
        total, minutes = len(planned.jobs) * runs, math.ceil(planned.seconds * runs / 60)
        click.echo(f"{name}: {total} runs, about {minutes} min", err=True)
        begun = iter(range(1, total + 1))

        def once(job: Job) -> Run:
            click.echo(f"{next(begun)}/{total} {job.row}", err=True)
            return run_one(job.scenario, job.target, results, port).run

        rows = sweeping.run(planned, runs, once)
        if as_json:
            click.echo(msgspec.json.encode(rows))
        else:
            display.show_rows(rows)
        if not all(row.valid for row in rows):
            raise SystemExit(EXIT_INVALID)
