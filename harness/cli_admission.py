"""The command that shows what admission control does in front of a database: admission."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from harness import admission as conditions
from harness import admission_rows
from harness.bench import Job, interleaved
from harness.cli_common import layout_for, prepare, reported, run_one, running
from harness.display_admission import show_admission
from harness.errors import EXIT_INVALID, ScenarioError

TARGETS = ("threadpool", "asyncio", "trio", "gevent")


@click.command()
@click.argument("names", metavar="[TARGET]...", nargs=-1)
@click.option("--scenario", "name", default="admission", show_default=True, help="name, or a TOML file")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="as of harness run")
@click.option("--targets", "files", multiple=True, type=Path, help="TOML file with targets of your own")
@click.option(
    "--threads",
    "pools",
    type=click.IntRange(1),
    multiple=True,
    default=conditions.POOLS,
    show_default=True,
    help="sizes of a pool of threads: one below the tipping point and one above it",
)
@click.option("--runs", type=click.IntRange(1, 100), default=1, show_default=True, help="repeats of each row")
@running
def admission(
    names: tuple[str, ...],
    name: str,
    sets: tuple[str, ...],
    files: tuple[Path, ...],
    pools: tuple[int, ...],
    runs: int,
    results: Path,
    port: int | None,
    as_json: bool,
) -> None:
    """Overload a database behind each TARGET (all four, if left out), without a semaphore and with one."""
    with reported():
        wanted, found = prepare(names or TARGETS, name, None, None, None, sets, files)
        if wanted.database is None:
            raise ScenarioError(f"--scenario {name}: it has no [database]; use admission, or add that table")
        tried = conditions.conditions(wanted, found, pools)
        settings = {}
        for label, (target, part) in tried.items():  # what cannot run is refused before anything starts
            pod = layout_for(part, target)
            settings[label] = conditions.setting(part, pod.options, pod.workers, pod.pool_size)
        jobs = [Job(label, *condition) for label, condition in tried.items()]
        ran = interleaved(jobs, runs, lambda job: run_one(job.scenario, job.target, results, port).run)
        rows = [
            admission_rows.row_of(tried[label].target.name, settings[label], *ran[label]) for label in tried
        ]
        if as_json:
            click.echo(msgspec.json.encode(rows))
        else:
            show_admission(rows)
        if any(row.verdict != admission_rows.VALID for row in rows):
            raise SystemExit(EXIT_INVALID)
