"""What to run: a TOML file, changed by options, as frozen and validated structs.

Everything that can be refused from the file alone is refused here, before anything starts; what needs the
machine (descriptors, ports, CPUs) belongs to the preflight. W, the wait that a request cannot escape, is the
sum of the mean delays of its upstream calls and of the time that it holds a connection to a database; it
sets the least window and the least cap on requests in flight (L = λW).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from harness import arrivals
from harness.errors import ScenarioError
from harness.routes import calls
from harness.spelling import ROOT, Source, parse, read, suggest
from harness.sweep import Point, Sweep, check

DIRECTORY = ROOT / "scenarios"
SHORTHANDS: Mapping[str, str] = {"rate": "load.rate", "duration": "load.window", "warmup": "load.warmup"}

_POD_KEYS = ("cpus", "workers", "descriptors")

# statistics.least_n(99), written out: reading a scenario should not load scipy.
LEAST_ARRIVALS_FOR_P99 = 368

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
Route = Annotated[str, Meta(pattern="^/[!-~]*$")]


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A linear ramp from the last stage's rate (at first 0) to `rate_rps`; 0 s is a jump (arrivals.py)."""

    duration_s: NotNegative
    rate_rps: NotNegative


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An open-model load, or with arrivals="closed" as many `clients`, each with one request under way.

    rate_rps is the highest rate: that of the stages, or the most that the clients can ask for, clients / W.
    `bystander` is a route that is asked beside the load all the time, to see whether others are served.
    """

    route: Route = "/rag"
    arrivals: Literal["constant", "stages", "poisson", "closed"] = "constant"
    rate_rps: Positive = 0.0
    clients: Count | None = None
    stages: tuple[Stage, ...] = ()
    warmup_s: NotNegative
    window_s: Positive
    drain_s: NotNegative
    timeout_s: Positive
    seed: int = 1
    in_flight_max: Count | None = None
    regime: Literal["steady", "saturated"] = "steady"
    bystander: Route | None = None

    @property
    def offer(self) -> str:
        """What is asked of the pod, in words."""
        return f"{self.rate_rps:g}/s" if self.clients is None else f"{self.clients} clients, closed model"


class Delay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the upstream waits before it answers; sigma is the lognormal's shape."""

    kind: Literal["constant", "lognormal", "exponential"] = "constant"
    mean_s: NotNegative
    sigma: Positive = 0.5


class Upstream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The two calls of the pipeline, one after the other; a route need not make both (routes.py)."""

    vector: Delay
    llm: Delay


class Database(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A PostgreSQL has to run beside the pod, and each request holds a connection to it for `hold_s`."""

    hold_s: Positive = 0.1


class Pod(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server under test; cpus = 0 does not confine it, descriptors = None is the process's hard limit."""

    cpus: Annotated[int, Meta(ge=0)] = 1
    workers: Count | Literal["auto"] = "auto"
    descriptors: Count | None = None
    options: dict[str, str | int] = {}


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the verdict (validity.py), each of which a scenario may widen; a share is a part of 1."""

    failures_share: Share = 0.0
    unsent_share: Share = 0.0
    latency_grain_s: NotNegative = 0.001
    send_lag_p99_s: NotNegative = 0.010
    send_lag_share_of_w: Share = 0.0025
    generator_cpu_share: Share = 0.90
    generator_gc_pause_s: NotNegative = 0.050
    upstream_cpu_share: Share = 0.90
    little_share: Share = 0.02
    drift_share_of_w: Share = 0.01
    throughput_share: Share = 0.01
    saturation_share: Share = 0.99
    database_share: Share = 0.90
    kernel_events: Annotated[int, Meta(ge=0)] = 0
    descriptors_share: Share = 0.98
    timeout_share: Share = 0.99
    samples_missed_share: Share = 0.05
    cpu_shared_share: Share = 0.80
    cpu_steal_share: Share = 0.05
    pins_per_request: NotNegative | None = None  # None: shown, not judged


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario; all durations in seconds, all rates in requests per second."""

    name: str
    description: str = ""
    load: Load
    upstream: Upstream
    database: Database | None = None
    pod: Pod = Pod()
    limits: Limits = Limits()
    sweep: Sweep | None = None

    @property
    def w_s(self) -> float:
        """W: the mean wait of one request, at the upstream and with a connection to the database, in seconds."""
        held_s = self.database.hold_s if self.database else 0.0
        return sum((delay.mean_s for delay in self.delays), held_s)

    @property
    def delays(self) -> tuple[Delay, ...]:
        """Those that one request meets."""
        return tuple(getattr(self.upstream, call) for call in calls(self.load.route))

    @property
    def in_flight(self) -> float:
        """L = λW, Little's law, at the highest rate; of a closed load its clients."""
        return self.load.clients or self.load.rate_rps * self.w_s


def load(
    name_or_path: str, overrides: Mapping[str, str] | None = None, point: Point | None = None
) -> Scenario:
    """Read a scenario by its name in scenarios/ or by the path of a TOML file.

    `point` is one of its sweep, laid over the file. `overrides` come last: a dotted key ("load.rate",
    "pod.threads") or one of SHORTHANDS, and its text; a bare number there means seconds or requests per second.
    Raises ScenarioError.
    """
    path = find(name_or_path)
    raw, source = parse(path)
    if point is not None:
        _delays_as_tables(raw)
        source = source.merge(raw, point.changes, source.where(point.path))
    for key, text in (overrides or {}).items():
        _delays_as_tables(raw)
        dotted = SHORTHANDS.get(key, key)
        source = source.override(raw, dotted, text, flag=f"--set {key}" if dotted == key else f"--{key}")
    _delays_as_tables(raw)
    _options_apart(raw, source)
    raw.setdefault("name", path.stem)
    return _checked(read(Scenario, raw, source), source)


def find(name_or_path: str) -> Path:
    """The file of a scenario given by its name in scenarios/ or by a path; raises ScenarioError."""
    path = Path(name_or_path)
    if path.suffix == ".toml" or len(path.parts) > 1:
        if path.is_file():
            return path
        raise ScenarioError(f"{name_or_path}: no such scenario file; or name one of: {', '.join(names())}")
    if name_or_path not in names():
        raise ScenarioError(f'unknown scenario "{name_or_path}"{suggest(name_or_path, names())}')
    return DIRECTORY / f"{name_or_path}.toml"


def names() -> list[str]:
    """The scenarios that come with the project, sorted."""
    return sorted(path.stem for path in DIRECTORY.glob("*.toml"))


def arrivals_in_window(load: Load) -> float:
    """Number of requests due inside the window; of random arrivals the mean, of a closed load the most."""
    if load.arrivals != "stages":
        return load.rate_rps * load.window_s
    end_s = load.warmup_s + load.window_s
    schedule = arrivals.offsets(load.arrivals, load.rate_rps, load.stages, end_s, load.seed)
    return len(schedule) - bisect_left(schedule, load.warmup_s)


def warnings(scenario: Scenario) -> list[str]:
    """What is allowed but weakens the result; each one sentence with the figures and the remedy."""
    load, w_s = scenario.load, scenario.w_s
    steady, least_s = load.regime == "steady", w_s * (1 - 1e-9)
    n = arrivals_in_window(load)
    found = []
    if steady and n < LEAST_ARRIVALS_FOR_P99:
        more = "raise load.rate" if load.clients is None else "give it more load.clients"
        found.append(
            f"the window holds about {n:.0f} requests, a p99 needs {LEAST_ARRIVALS_FOR_P99}: it stays empty; "
            f"lengthen load.window or {more}"
        )
    if load.warmup_s < least_s:
        found.append(
            f"load.warmup {load.warmup_s:g} s is shorter than W = {w_s:g} s: "
            "the window starts before steady state, and the run will be invalid; lengthen it"
        )
    if steady and load.drain_s < least_s:
        found.append(
            f"load.drain {load.drain_s:g} s is shorter than W = {w_s:g} s: "
            "the last requests stay unfinished, and the run will be invalid; lengthen it"
        )
    if steady and load.timeout_s <= w_s:
        found.append(
            f"load.timeout {load.timeout_s:g} s is not above W = {w_s:g} s: requests time out; raise it"
        )
    return found


def _delays_as_tables(raw: dict[str, Any]) -> None:
    upstream = raw.get("upstream")
    if isinstance(upstream, dict):
        for call, delay in upstream.items():
            upstream[call] = delay if isinstance(delay, dict) else {"mean": delay}


def _options_apart(raw: dict[str, Any], source: Source) -> None:
    """Keys of [pod] that are not the pod's own are the target's options; targets.py checks them."""
    pod = raw.get("pod")
    if isinstance(pod, dict):
        options = {key: pod.pop(key) for key in list(pod) if key not in _POD_KEYS}
        for key, value in options.items():
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                raise source.refuse(f"pod.{key}", f"expected a string or a whole number, found {value!r}")
        pod["options"] = options


def _checked(scenario: Scenario, source: Source) -> Scenario:
    w_s, route = scenario.w_s, scenario.load.route
    if not w_s and not calls(route):
        raise source.refuse("load.route", f"{route} asks a database: add a table [database]")
    if not w_s:
        raise source.refuse("upstream", f"{route} waits for nothing: W must be above 0")
    load = _with_rate(scenario.load, w_s, source)
    scenario = msgspec.structs.replace(scenario, load=load)
    in_flight = scenario.in_flight
    if load.window_s < w_s * (1 - 1e-9):
        raise source.refuse(
            "load.window", f"{load.window_s:g} s is shorter than W = {w_s:g} s; use a multiple of W"
        )
    if scenario.sweep is not None:
        check(scenario.sweep, source)
    if load.in_flight_max is not None and load.in_flight_max < in_flight * (1 - 1e-9):
        raise source.refuse(
            "load.in_flight_max",
            f"{load.in_flight_max} is below λW = {load.rate_rps:g}/s × {w_s:g} s = {in_flight:.0f}; "
            f"use at least {math.ceil(in_flight)}, or leave it out",
        )
    return scenario


def _with_rate(load: Load, w_s: float, source: Source) -> Load:
    """The load with its highest rate, by what its arrivals are made of; nothing that they are not made of."""
    for kind, key in (("stages", "stages"), ("closed", "clients")):
        if load.arrivals != kind and getattr(load, key):
            raise source.refuse(f"load.{key}", f'{key} need arrivals = "{kind}", found "{load.arrivals}"')
    if load.arrivals == "closed":
        return _closed(load, w_s, source)
    if load.arrivals != "stages":
        if not load.rate_rps:
            raise source.refuse("load.rate", 'missing; write for example rate = "500/s"')
        return load
    if not load.stages:
        raise source.refuse(
            "load.arrivals", 'arrivals = "stages" needs [[load.stages]] with duration and rate'
        )
    if load.rate_rps:
        raise source.refuse("load.rate", "the stages give the rate; leave it out")
    peak = max(stage.rate_rps for stage in load.stages)
    if not peak:
        raise source.refuse("load.stages", "every rate is 0: no request would be sent")
    return msgspec.structs.replace(load, rate_rps=peak)


def _closed(load: Load, w_s: float, source: Source) -> Load:
    if load.clients is None:
        raise source.refuse(
            "load.clients", 'missing: arrivals = "closed" needs them, for example clients = 100'
        )
    for name, given in (("rate", load.rate_rps), ("in_flight_max", load.in_flight_max)):
        if given:
            raise source.refuse(
                f"load.{name}", "the clients of a closed load bound it by themselves; leave it out"
            )
    return msgspec.structs.replace(load, rate_rps=load.clients / w_s)
