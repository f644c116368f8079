"""What a run will need, against what the machine has: refused, spread or accepted before anything starts.

Pure but for `Host.here`. Little's law sets the size: λW requests are in flight at once, and each one takes
descriptors of the pod, of the generator and of the upstream, and a port on each of two connections.
"""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path
from typing import Self

import msgspec

from harness import admission, little
from harness.errors import ScenarioError
from harness.scenario import Load, Scenario
from harness.targets import Target, Value, concurrency_limit, resolve

POD_BASE_DESCRIPTORS = 64  # listener, event loop, metrics files, log, shared objects
HARNESS_BASE_DESCRIPTORS = 128
# One process carries about 2,000/s of either on a core of its own; half of that keeps its queueing out of p99.
GENERATOR_RPS = 1500.0
UPSTREAM_RPS = 1000.0
SOURCES_MIN = 4
ADDRESSES_MAX = 16


class Host(msgspec.Struct, frozen=True):
    """The machine's limits: CPUs we may use, descriptors a process may open, ephemeral ports of an address."""

    cpus: tuple[int, ...]
    descriptors: int
    ports: int

    @classmethod
    def here(cls) -> Self:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return cls(tuple(sorted(os.sched_getaffinity(0))), hard, int(high) - int(low) + 1)


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod is made of, and the rate that each of its limits allows."""

    options: dict[str, Value]
    workers: int
    descriptors: int  # of one process
    pool_size: int | None  # of all workers
    bounds: tuple[little.Bound, ...]
    notes: tuple[str, ...]

    @property
    def binding(self) -> little.Bound:
        """The bound that a growing rate meets first."""
        return little.binding(self.bounds)


class Layout(Forecast, frozen=True, kw_only=True):
    """How a run is spread over processes, CPUs and addresses."""

    generators: int
    upstreams: int
    upstream_addresses: int
    sources: int
    ports: int  # of one address towards another
    pod_cpus: tuple[int, ...]
    harness_cpus: tuple[int, ...]
    in_flight: float  # predicted inside the pod's handlers

    @property
    def shared_cpus(self) -> bool:
        return bool(set(self.pod_cpus) & set(self.harness_cpus))


def forecast(scenario: Scenario, target: Target, host: Host) -> Forecast:
    """Predict what a pod carries, whatever is offered; raises ScenarioError where it cannot be started."""
    options = resolve(target, scenario.pod.options)
    descriptors = scenario.pod.descriptors or host.descriptors
    if descriptors > host.descriptors:
        raise ScenarioError(
            f"pod.descriptors: {descriptors:,} is above the {host.descriptors:,} that a process may open here; "
            "lower it, or raise the machine's hard limit (ulimit -Hn)"
        )
    workers, notes = _workers(scenario, target, options, descriptors)
    pool = concurrency_limit(target, options, workers)
    database = _database_bounds(scenario, target, options, workers)
    return Forecast(
        options=options,
        workers=workers,
        descriptors=descriptors,
        pool_size=pool,
        bounds=(*database, *_bounds(scenario, target, pool, workers, descriptors, host)),
        notes=notes,
    )


def plan(scenario: Scenario, target: Target, host: Host) -> Layout:
    """Lay a run out on `host`; raises ScenarioError where it cannot fit, with the numbers and what to set."""
    pod = forecast(scenario, target, host)
    in_pod, taken_rps = _inside(scenario, pod)
    at_client = _client_peak(scenario, in_pod, taken_rps)
    _check_descriptors(scenario, target, at_client, in_pod, pod)
    addresses = _addresses(scenario, in_pod, host)
    pod_cpus, harness_cpus, warning = _cpus(scenario.pod.cpus, host.cpus)
    usable, rate_rps = host.descriptors - HARNESS_BASE_DESCRIPTORS, scenario.load.rate_rps
    return Layout(
        **{name: getattr(pod, name) for name in Forecast.__struct_fields__ if name != "notes"},
        notes=(*pod.notes, *warning),
        generators=_generators(scenario.load, at_client, usable),
        upstreams=max(little.processes_needed(in_pod, usable), math.ceil(rate_rps / UPSTREAM_RPS)),
        upstream_addresses=addresses,
        sources=max(SOURCES_MIN, little.processes_needed(at_client, _easy_ports(host))),
        ports=host.ports,
        pod_cpus=pod_cpus,
        harness_cpus=harness_cpus,
        in_flight=in_pod,
    )


def _workers(
    scenario: Scenario, target: Target, options: dict[str, Value], descriptors: int
) -> tuple[int, tuple[str, ...]]:
    asked = scenario.pod.workers
    if asked != "auto":
        return asked, ()
    pool = concurrency_limit(target, options, 1)
    if pool is not None:  # each process would bring a pool of its own: that is for the user to ask for
        return 1, ()
    places = little.descriptor_places(descriptors, POD_BASE_DESCRIPTORS, target.descriptors_per_request)
    if not places:
        raise ScenarioError(f"pod.descriptors: {descriptors:,} leave no room for a request; raise it")
    workers = little.processes_needed(scenario.in_flight, places)
    return workers, (
        f"workers: {workers}, the fewest whose {descriptors:,} descriptors each hold λW = "
        f"{scenario.in_flight:,.0f} requests at {target.descriptors_per_request} a request "
        f"({places:,} in one process, {little.HEADROOM:.0%} kept free)",
    )


def _inside(scenario: Scenario, pod: Forecast) -> tuple[float, float]:
    """Requests inside the pod once it holds as many as it can, and the rate at which it takes them."""
    pool = math.inf if pod.pool_size is None else pod.pool_size
    before = admission.setting(scenario, pod.options, pod.workers, pod.pool_size)
    if before is not None:
        return before.inside, before.taken_rps
    return min(scenario.in_flight, pool), pool / scenario.w_s


def _client_peak(scenario: Scenario, in_pod: float, taken_rps: float) -> float:
    """Most requests in flight at the client: what the pod does not take queues as long as load comes.

    (That of a closed load does not: its clients wait.)
    """
    load = scenario.load
    if load.clients is not None:
        return load.clients
    queued = max(0.0, load.rate_rps - taken_rps) * (load.warmup_s + load.window_s)
    return min(in_pod + queued, load.in_flight_max or math.inf)


def _bounds(
    scenario: Scenario, target: Target, pool: int | None, workers: int, descriptors: int, host: Host
) -> tuple[little.Bound, ...]:
    w_s = scenario.w_s
    bounds = [
        little.by_descriptors(
            descriptors, POD_BASE_DESCRIPTORS, target.descriptors_per_request, workers, w_s
        ),
        little.by_ports(_easy_ports(host), ADDRESSES_MAX, w_s),
    ]
    if pool is not None:
        bounds.insert(0, little.by_pool(pool // workers, workers, w_s))
    return tuple(bounds)


def _database_bounds(
    scenario: Scenario, target: Target, options: dict[str, Value], workers: int
) -> list[little.Bound]:
    if scenario.database is None:
        return []
    connections, permits = (int(options.get(name, 0)) for name in ("connections", "permits"))
    if not connections:
        raise ScenarioError(
            f"pod.connections: the scenario has a [database], and {target.name} no connection to it; set it, "
            "for example to 10 (a target of your own has to have an option of that name)"
        )
    hold_s = scenario.database.hold_s
    bounds = [little.by_connections(connections, workers, hold_s)]
    return [*bounds, little.by_permits(permits, workers, hold_s)] if permits else bounds


def _check_descriptors(
    scenario: Scenario, target: Target, at_client: float, in_pod: float, pod: Forecast
) -> None:
    wanted = at_client + (target.descriptors_per_request - 1) * in_pod
    needed = math.ceil(wanted / pod.workers) + POD_BASE_DESCRIPTORS
    if needed <= pod.descriptors:
        return
    load, binding = scenario.load, pod.binding
    enough = math.ceil(wanted / max(1, pod.descriptors - POD_BASE_DESCRIPTORS) * (1 + little.HEADROOM))
    less = "load.rate" if load.clients is None else "load.clients"
    remedy = f"set pod.workers to {enough} or more, or lower {less}"
    if binding.resource == "pool":
        remedy = f"lower load.rate: its pool carries {binding.rate_max_rps:.2f}/s, the rest only queues"
    raise ScenarioError(
        f"too few descriptors: λ = {load.rate_rps:g}/s × W = {scenario.w_s:g} s needs {needed:,} in each of "
        f"{pod.workers} pod processes, {pod.descriptors:,} may be opened; {remedy}"
    )


def _generators(load: Load, at_client: float, usable: int) -> int:
    needed = little.processes_needed(at_client, usable)
    if load.clients is None:
        return max(needed, math.ceil(load.rate_rps / GENERATOR_RPS))
    if needed > 1:
        raise ScenarioError(
            f"load.clients: {load.clients:,} need more than the {usable:,} descriptors of one generator process, "
            f"which sends a closed load; use at most {int(usable * (1 - little.HEADROOM)):,}"
        )
    return 1


def _easy_ports(host: Host) -> int:
    """Connections towards one address that cost no search.

    The kernel tries the ports of one parity first; once those are taken, every connect walks over all of them
    before it tries the others (net/ipv4/inet_hashtables.c, __inet_hash_connect).
    """
    return host.ports // 2


def _addresses(scenario: Scenario, in_pod: float, host: Host) -> int:
    addresses = little.processes_needed(in_pod, _easy_ports(host))
    if addresses > ADDRESSES_MAX:
        rate_rps = ADDRESSES_MAX * _easy_ports(host) * (1 - little.HEADROOM) / scenario.w_s
        raise ScenarioError(
            f"too few ports: {in_pod:,.0f} connections from the pod to its upstream, {_easy_ports(host):,} ports "
            f"on each of {ADDRESSES_MAX} addresses; lower load.rate to {rate_rps:.0f}/s, "
            "or widen net.ipv4.ip_local_port_range"
        )
    return addresses


def _cpus(asked: int, cpus: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], list[str]]:
    if asked and asked < len(cpus):
        return cpus[-asked:], cpus[:-asked], []
    if not asked:
        return cpus, cpus, ["the pod is not confined: it and the harness share all CPUs"]
    return (
        cpus,
        cpus,
        [f"pod.cpus: {asked} of {len(cpus)} CPUs leave the harness none of its own: they share"],
    )
