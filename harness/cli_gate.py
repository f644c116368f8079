"""The commands that answer "did it get worse": gate and baseline."""

from __future__ import annotations

import os
from pathlib import Path

import click

from harness import gate_report, gating, preflight, scenario
from harness.cli_common import RESULTS, needs_a_rate, prepare, reported, run_one
from harness.gate import GateVerdict
from harness.spelling import ROOT

PAIRS = 10
BASELINE_RUNS = 20

_target = click.argument("target")
_scenario = click.option("--scenario", "name", default="gate", show_default=True)
_set = click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="as of harness run")
_files = click.option("--targets", "files", multiple=True, type=Path, help="as of harness run")
_baseline = click.option(
    "--baseline", "path", type=Path, default=RESULTS / "baseline.json", show_default=True
)


@click.command()
@_target
@_scenario
@_set
@_files
@_baseline
@click.option("--base-ref", help="a git revision to run against, instead of a baseline")
@click.option(
    "--runs", type=click.IntRange(1, 100), default=PAIRS, show_default=True, help="or pairs of runs"
)
@click.option("--report", type=Path, default=RESULTS / "gate", help="directory for JUnit XML and Markdown")
def gate(
    target: str,
    name: str,
    sets: tuple[str, ...],
    files: tuple[Path, ...],
    path: Path,
    base_ref: str | None,
    runs: int,
    report: Path,
) -> None:
    """Say whether TARGET carries less than before: pass, regressed, inconclusive or invalid."""
    with reported():
        host = preflight.Host.here()
        wanted, (found,) = prepare((target,), name, None, None, None, sets, files)
        needs_a_rate(wanted)
        limits = gating.limits_of(wanted, found, host)
        rate_rps = gating.unsaturated(wanted, found, host).load.rate_rps
        # As a file: the base may not have this scenario yet, or another one of this name.
        words = [
            ("--scenario", str(scenario.find(name).resolve())),
            ("--rate", f"{rate_rps}/s"),
            *(("--set", each) for each in sets),
        ]
        words += [("--targets", str(file.resolve())) for file in files]
        arguments = [target, *(word for pair in words for word in pair)]
        verdict: GateVerdict
        if base_ref is None:
            verdict = gating.against_baseline(path, target, runs, lambda: gating.run_in(ROOT, arguments))
        else:
            with gating.revision(base_ref) as tree:
                verdict = gating.against_revision(
                    limits,
                    runs,
                    lambda: gating.run_in(tree, arguments),
                    lambda: gating.run_in(ROOT, arguments),
                )
        gate_report.write(report, verdict, target, os.environ)
        click.echo(verdict.line)
        raise SystemExit(verdict.exit_code)


@click.command()
@_target
@_scenario
@_set
@_files
@_baseline
@click.option("--runs", type=click.IntRange(1, 100), default=BASELINE_RUNS, show_default=True)
def baseline(
    target: str, name: str, sets: tuple[str, ...], files: tuple[Path, ...], path: Path, runs: int
) -> None:
    """Measure what TARGET is held against later, and how far apart runs of the same code come here."""
    with reported():
        host = preflight.Host.here()
        wanted, (found,) = prepare((target,), name, None, None, None, sets, files)
        needs_a_rate(wanted)
        limits = gating.limits_of(wanted, found, host)
        wanted = gating.unsaturated(wanted, found, host)
        made = gating.make_baseline(
            path, target, limits, runs, lambda: run_one(wanted, found, RESULTS, None).run
        )
        click.echo(f"{path}: {target}, {runs} runs at {made.commit or 'no commit'}")
        for metric, floor in made.floor.items():
            click.echo(f"  {metric}: runs of the same code come {floor:.1%} apart")
