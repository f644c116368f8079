"""The commands that answer "how many": capacity and plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from harness import fleet, preflight, quantities, sizing
from harness.cli_common import RESULTS, needs_a_rate, prepare, reported, run_one, running, selection
from harness.display_sizing import show_fleet, show_sizing


@click.command()
@click.argument("target")
@selection
@running
def capacity(target: str, results: Path, port: int | None, as_json: bool, **chosen: Any) -> None:
    """Find λ max of one pod of TARGET, and what binds it."""
    with reported():
        wanted, (found,) = prepare((target,), **chosen)
        needs_a_rate(wanted)
        sized = sizing.size(
            wanted, found, preflight.Host.here(), lambda part: run_one(part, found, results, port).run
        )
        sizing.keep(results, wanted.name, sized)
        if as_json:
            click.echo(msgspec.json.encode(sized))
        else:
            show_sizing(sized)


@click.command()
@click.option("--rate", required=True, help='of the whole fleet ("50000")')
@click.option("--w", "w", help="seconds that a request takes; as measured, if left out")
@click.option(
    "--scenario", "name", default="capacity", show_default=True, help="whose measured capacities to use"
)
@click.option("--wait-probability", type=float, default=0.01, show_default=True, help="of finding no place")
@click.option("--nodes", type=int, default=3, show_default=True, help="of which one may be lost")
@click.option("--max-unavailable", default="25%", show_default=True, help="of a rolling update")
@click.option("--max-surge", default="25%", show_default=True, help="of a rolling update")
@click.option("--slack", help='how far p99 may lie above W ("50 ms"); 1 % of W, if left out')
@click.option("--results", type=Path, default=RESULTS, help="where capacities are kept")
@click.option("--json", "as_json", is_flag=True, help="the rows as JSON on stdout")
def plan(
    rate: str, w: str | None, name: str, slack: str | None, results: Path, as_json: bool, **options: Any
) -> None:
    """How many pods of each measured target a rate takes: by the mean, and under random arrivals."""
    with reported():
        measured = [sized.measured for sized in sizing.load(results, name).values()]
        demand = fleet.Demand(
            rate_rps=quantities.parse_rate(rate, "/s"),
            w_s=measured[0].w_s if w is None else quantities.parse_duration(w, "s"),
            slack_s=None if slack is None else quantities.parse_duration(slack, "s"),
            **options,
        )
        rows = fleet.plan(demand, measured)
        if as_json:
            click.echo(msgspec.json.encode(rows))
        else:
            show_fleet(demand, rows)
