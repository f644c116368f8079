"""What the generator is told: one JSON file, refused whole if any of it is wrong. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.arrivals import Share, offsets, share

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Port = Annotated[int, Meta(ge=1, le=65535)]
Visible = Annotated[
    str, Meta(pattern="^[!-~]+$")
]  # no blank, no control character: safe inside a request head


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A linear ramp to `rate_rps` from the last stage's rate (at first from 0); a stage of 0 s is a jump."""

    duration_s: NotNegative
    rate_rps: NotNegative


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole load: what is asked of whom, when, from where, and for how long.

    Requests are due in [0, warmup_s + window_s); after that, at most `drain_s` are waited for answers. A
    request's deadline is `timeout_s` after it was DUE. A closed load has no schedule, but `clients`, each due to
    send again when it was answered; `rate_rps` then is the most that they can send. `in_flight_max` is the cap
    of all processes together; `sources` are the local addresses that connections are bound to, in turn. Column
    files go to `directory`.
    """

    host: Visible
    port: Port
    path: Annotated[str, Meta(pattern="^/[!-~]*$")]
    arrivals: Literal["constant", "stages", "poisson", "closed"]
    rate_rps: Positive
    window_s: Positive
    timeout_s: Positive
    drain_s: NotNegative
    directory: str
    warmup_s: NotNegative = 0.0
    method: Literal["GET"] = "GET"
    stages: tuple[Stage, ...] = ()
    seed: int = 1
    clients: Annotated[int, Meta(ge=1)] | None = None
    in_flight_max: Annotated[int, Meta(ge=1)] | None = None
    sources: tuple[Visible, ...] = ()
    processes: Annotated[int, Meta(ge=1, le=64)] = 1
    lead_s: NotNegative = 0.5
    web_port: Port | None = None

    def __post_init__(self) -> None:
        if self.arrivals == "stages" and not self.stages:
            raise ValueError('arrivals "stages" needs at least one stage')
        if (self.arrivals == "closed") != (self.clients is not None):
            raise ValueError('clients and arrivals "closed" need each other')
        if self.clients is not None and self.processes > 1:
            raise ValueError("a closed load is sent by one process")
        if len(self.sources) > 127:
            raise ValueError("at most 127 sources: the column that names them is one signed byte")
        if self.in_flight_max is not None and self.in_flight_max < self.processes:
            raise ValueError(
                f"in_flight_max {self.in_flight_max} leaves some of {self.processes} processes without"
            )

    @property
    def end_s(self) -> float:
        """The offset at which sending ends and draining begins."""
        return self.warmup_s + self.window_s

    def share(self, k: int) -> Share:
        """What worker `k` sends, and when. Raises ValueError if there is no such worker or schedule."""
        if self.arrivals == "closed":  # nobody knows before the answers are there
            return Share(range(0), array("d"))
        due_s = offsets(self.arrivals, self.rate_rps, self.stages, self.end_s, self.seed)
        return share(due_s, k, self.processes)

    def cap(self, k: int) -> int | None:
        """Worker `k`'s part of `in_flight_max`; the parts differ by at most one and add up to the whole."""
        if self.in_flight_max is None:
            return None
        part, rest = divmod(self.in_flight_max, self.processes)
        return part + (k < rest)

    def request(self) -> bytes:
        """The bytes of every request: nothing in them varies, so making them costs nothing during a run."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        head = (
            f"{self.method} {self.path} HTTP/1.1",
            f"Host: {host}:{self.port}",
            "User-Agent: pods-per-lambda",
            "Accept: */*",
        )
        return "\r\n".join((*head, "", "")).encode("ascii")

    def phase(self, offset_s: float) -> str:
        """Which part of the run an offset lies in."""
        ends: Mapping[str, float] = {"warmup": self.warmup_s, "window": self.end_s}
        return next((phase for phase, end_s in ends.items() if offset_s < end_s), "drain")


def load(path: Path) -> Plan:
    """Reads a plan. Raises OSError, or msgspec.DecodeError (ValidationError names the wrong place)."""
    return msgspec.json.decode(path.read_bytes(), type=Plan)
