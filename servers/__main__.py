"""`python -m servers MODEL`: one pod of the controlled arm.

Models are imported only in the process that serves, and after the metrics directory is known: importing one
model must not cost another memory, and prometheus_client decides at import where its values live.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import math
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from servers.io import Address
from servers.settings import Settings

MODULES = {
    "threadpool": "servers.threadpool",
    "asyncio": "servers.asyncio_",
    "trio": "servers.trio_",
    "gevent": "servers.gevent_",
}
EXIT_USAGE = 2
EXIT_UNFINISHED = 1


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value}: at least {least}")
        return value

    return parse


def _milliseconds(text: str) -> float:
    """In seconds, the unit of everything within."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{value}: at least 0")
    return value / 1000


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise argparse.ArgumentTypeError(f"{text!r}: on or off")
    return text == "on"


def _address(text: str) -> Address:
    host, colon, port = text.removeprefix("http://").rstrip("/").rpartition(":")
    if not colon or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: give http://HOST:PORT")
    return host, int(port)


def _addresses(text: str) -> tuple[Address, ...]:
    return tuple(_address(part) for part in text.split(","))


def parse(arguments: list[str]) -> Settings:
    """Settings from a command line; argparse ends the process with one line where they are wrong."""
    parser = argparse.ArgumentParser(prog="servers", description="One pod of the controlled arm.")
    parser.add_argument("model", choices=MODULES)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument(
        "--upstream", type=_addresses, default="127.0.0.1:8081", help="HOST:PORT, or several after commas"
    )
    parser.add_argument("--workers", type=_count(1), default=1, help="processes that share the port")
    parser.add_argument("--threads", type=_count(1), default=200, help="threadpool: size of the pool")
    parser.add_argument("--queue", type=_count(0), default=0, help="threadpool: may wait; 0: no bound")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio", help="asyncio: the loop")
    parser.add_argument("--gc", choices=("default", "freeze", "off"), default="default")
    parser.add_argument("--backlog", type=_count(1), default=4096)
    parser.add_argument("--grace", type=float, default=30.0, dest="grace_s", help="seconds after SIGTERM")
    parser.add_argument("--request-timeout", type=float, default=10.0, dest="request_s", help="then 408")
    parser.add_argument("--upstream-timeout", type=float, default=120.0, dest="upstream_s", help="then 504")
    parser.add_argument("--metrics", help="directory for counters and gauges")
    _add_laboratory(parser)
    given = vars(parser.parse_args(arguments))
    given["dsn"] = os.environ.get("PG_DSN", "")
    if given["connections"] and not given["dsn"]:
        parser.error("--connections needs a database: set PG_DSN to postgresql://USER:PASSWORD@HOST/NAME")
    if given["guard_s"] and not given["hold"]:
        parser.error("--guard adds a route to those of --hold: give both")
    if given["permits"] and not given["connections"]:
        parser.error("--permits guards the database: give --connections too")
    return Settings(address=(given.pop("host"), given.pop("port")), **given)


def _add_laboratory(parser: argparse.ArgumentParser) -> None:
    switch: dict[str, Any] = {"type": _switch, "nargs": "?", "const": True, "default": False}
    parser.add_argument("--pins", **switch, help="count what holds the loop or hub")
    parser.add_argument("--hold", **switch, help="routes /hold/…: one call, holding a lock meanwhile")
    parser.add_argument(
        "--guard", type=float, default=0.0, dest="guard_s", help="/hold/deadlock, ended after so many seconds"
    )
    parser.add_argument("--connections", type=_count(0), default=0, help="route /db: its pool, to $PG_DSN")
    wait: dict[str, Any] = {"type": _milliseconds, "metavar": "MS"}
    parser.add_argument("--db-hold-ms", **wait, default="100", dest="db_hold_s", help="/db holds one for it")
    parser.add_argument(
        "--connection-wait-ms", **wait, default="2000", dest="connection_wait_s", help="then 503"
    )
    parser.add_argument("--permits", type=_count(0), default=0, help="before the pool; 0: no semaphore")
    parser.add_argument("--permit-wait-ms", **wait, default="100", dest="permit_wait_s", help="then 429")
    parser.add_argument("--cpu-us", type=_count(0), default=0, help="CPU work of each /rag, in microseconds")
    parser.add_argument("--ballast-bytes", type=_count(0), default=0, help="that each /rag holds in flight")


def _serve_one_process(settings: Settings) -> int:
    from servers.listener import Listener

    model = importlib.import_module(MODULES[settings.model])
    try:
        listener = Listener(settings.address, settings.backlog, shared=settings.workers > 1)
    except OSError as error:
        host, port = settings.address
        print(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port", file=sys.stderr)
        return EXIT_USAGE
    _apply_gc_policy(settings.gc)
    drained: bool = model.serve(listener, settings)
    if not drained:
        print(f"requests were still in flight {settings.grace_s:g} s after SIGTERM", file=sys.stderr)
    sys.stderr.flush()
    # Threads that hold an unfinished request would keep the interpreter from ending.
    os._exit(0 if drained else EXIT_UNFINISHED)


def _apply_gc_policy(policy: str) -> None:
    if policy == "freeze":
        gc.collect()
        gc.freeze()
    elif policy == "off":
        gc.disable()


def main() -> int:
    settings = parse(sys.argv[1:])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if settings.metrics is not None:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = settings.metrics
    if settings.workers == 1:
        return _serve_one_process(settings)
    from servers.supervisor import supervise

    return supervise(settings, _serve_one_process)


if __name__ == "__main__":
    sys.exit(main())
