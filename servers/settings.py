"""What a server is started with; one frozen value that every part reads and none changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from servers.io import Address


@dataclass(frozen=True, slots=True)
class Settings:
    """Command-line settings of one server process, and the limits that it defends itself with."""

    model: str
    address: Address
    upstream: tuple[Address, ...]  # addresses of one service; connections go to each in turn
    workers: int = 1
    threads: int = 200
    queue: int = 0  # connections that may wait for a thread; 0: without a bound
    loop: str = "asyncio"
    gc: str = "default"
    backlog: int = 4096
    grace_s: float = 30.0
    metrics: str | None = None
    pins: bool = False
    hold: bool = False
    guard_s: float = 0.0  # /hold/deadlock is there, and watched; 0: it is not
    dsn: str = field(default="", repr=False)  # it may hold a password
    connections: int = 0  # to the database; 0: no /db
    connection_wait_s: float = 2.0  # for a free one, else 503
    db_hold_s: float = 0.1  # how long a request keeps it
    permits: int = 0  # in front of the pool; 0: no semaphore
    permit_wait_s: float = 0.1  # for a free one, else 429
    cpu_us: int = 0  # CPU work of each /rag, see burden.py
    ballast_bytes: int = 0  # memory that each /rag holds in flight

    keep_alive_s: float = 600.0  # a connection at rest is closed after this
    request_s: float = 10.0  # a request's head and body must arrive within this, else 408
    send_s: float = 30.0  # a response that the client does not read for this long is given up
    upstream_s: float = 120.0  # one upstream call, else 504
    body_bytes: int = 1 << 20  # a longer request body is refused with 413
