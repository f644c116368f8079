"""`python -m harness.generator PLAN.json`: one load; see `conductor` for what is said on standard streams."""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

import msgspec

from harness.generator import plan as plans


def main() -> int:
    """The exit status: 0 done (or stopped), 1 after an error event, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog="harness.generator", description=__doc__)
    parser.add_argument("plan", type=Path, help="the plan, a JSON file")
    parser.add_argument(
        "--join", type=int, metavar="PORT", help="be a worker of the conductor on this loopback port"
    )
    arguments = parser.parse_args()
    try:
        plan = plans.load(arguments.plan)
        plan.share(0)
    except (OSError, ValueError, msgspec.DecodeError) as error:
        event = {"event": "error", "reason": "plan", "detail": f"{arguments.plan}: {error}"}
        sys.stdout.write(msgspec.json.encode(event).decode() + "\n")
        return 1
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    from harness.generator import run  # Locust patches the process on import: not for a wrong plan

    return run.conduct(plan, arguments.plan) if arguments.join is None else run.join(plan, arguments.join)


if __name__ == "__main__":
    sys.exit(main())
