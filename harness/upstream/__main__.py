"""Command line of the upstream: `python -m harness.upstream --help`."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from pathlib import Path

import msgspec

from harness.errors import EXIT_USAGE, ScenarioError
from harness.quantities import parse_duration
from harness.scenario import Delay

KINDS = ("constant", "lognormal", "exponential")


def duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ScenarioError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1")
    return number


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harness.upstream",
        description="Simulates a vector database (POST /search) and an LLM (POST /v1/chat/completions).",
    )
    parser.add_argument(
        "--host", action="append", help="address to listen on; may be repeated (default 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, required=True, help="0 for any that is free")
    parser.add_argument("--processes", type=positive, default=1, help="that share the port (default 1)")
    parser.add_argument(
        "--vector", type=duration, default=0.02, help='mean delay of /search (default "20 ms")'
    )
    parser.add_argument("--vector-kind", choices=KINDS, default="constant")
    parser.add_argument(
        "--llm", type=duration, default=20.0, help='mean delay of a completion (default "20 s")'
    )
    parser.add_argument("--llm-kind", choices=KINDS, default="constant")
    parser.add_argument("--sigma", type=float, default=0.5, help="shape of lognormal delays (default 0.5)")
    parser.add_argument("--seed", type=int, default=1, help="of the delays (default 1)")
    parser.add_argument(
        "--metrics", type=Path, required=True, help="directory for the memory-mapped counters"
    )
    return parser


def delay(parser: argparse.ArgumentParser, options: argparse.Namespace, part: str) -> Delay:
    fields = {
        "kind": getattr(options, f"{part}_kind"),
        "mean_s": getattr(options, part),
        "sigma": options.sigma,
    }
    try:
        return msgspec.convert(fields, Delay)
    except msgspec.ValidationError as error:
        parser.error(f"--{part}: {error}")


def main(argv: list[str] | None = None) -> int:
    parser = arguments()
    options = parser.parse_args(argv)
    vector, llm = (delay(parser, options, part) for part in ("vector", "llm"))
    options.metrics.mkdir(parents=True, exist_ok=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(options.metrics)  # read when prometheus_client is imported
    from harness.upstream import supervisor

    hosts = options.host or ["127.0.0.1"]
    try:
        listeners = supervisor.bind(hosts, options.port, options.processes)
    except OSError as error:
        place = f"{hosts[0]}:{options.port}"
        in_use = error.errno == errno.EADDRINUSE
        reason = "is in use; stop what listens there, or take another --port" if in_use else error.strerror
        print(f"upstream: {place} {reason}", file=sys.stderr)
        return EXIT_USAGE
    return supervisor.supervise(listeners, vector, llm, options.seed)


if __name__ == "__main__":
    sys.exit(main())
