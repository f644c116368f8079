"""The programs of one run: upstream, pod and generator, each started, awaited and confined in the same way."""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from harness.errors import GeneratorError, MeasurementError, TargetError
from harness.generator.plan import Plan, Stage
from harness.preflight import Layout
from harness.program import Program
from harness.scenario import Database, Scenario
from harness.targets import Target, Value, render

HOST = "127.0.0.1"
START_S = 60.0
LOOK_S = 0.02
# Below the ephemeral range, where a client's connection could hold the port already.
PORTS = range(10_000, 32_000)


def free_port() -> int:
    """A port that nobody listens on, and new: connections of an earlier run may wait on its number."""
    for port in random.SystemRandom().sample(PORTS, 50):
        if port_is_free(port):
            return port
    raise MeasurementError(
        f"no free port found between {PORTS.start} and {PORTS.stop}: stop what listens there"
    )


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def sources(count: int) -> tuple[str, ...]:
    """Loopback addresses for a run's clients; random, so that no earlier run's TIME_WAIT is in the way."""
    chosen = random.SystemRandom()
    block = f"127.{chosen.randrange(1, 255)}.{chosen.randrange(0, 255)}"
    return tuple(f"{block}.{number}" for number in range(1, count + 1))


def upstream_hosts(layout: Layout) -> tuple[str, ...]:
    """Addresses of the upstream: 127.0.0.1 and those that follow."""
    return tuple(f"127.0.0.{number}" for number in range(1, layout.upstream_addresses + 1))


def upstream(scenario: Scenario, layout: Layout, port: int, metrics: Path, log: Path) -> Program:
    """Start the simulated vector database and LLM provider, and wait until it listens."""
    vector, llm = scenario.upstream.vector, scenario.upstream.llm
    argv = [sys.executable, "-m", "harness.upstream", "--port", str(port)]
    for host in upstream_hosts(layout):
        argv += ["--host", host]
    argv += [
        "--processes",
        str(layout.upstreams),
        "--metrics",
        str(metrics),
        "--seed",
        str(scenario.load.seed),
    ]
    argv += ["--vector", f"{vector.mean_s} s", "--vector-kind", vector.kind]
    argv += ["--llm", f"{llm.mean_s} s", "--llm-kind", llm.kind, "--sigma", str(llm.sigma)]
    program = Program(argv, log=log, name="the upstream", cpus=set(layout.harness_cpus))
    await_port(program, port)
    return program


def argv(
    target: Target, scenario: Scenario, layout: Layout, port: int, upstream_port: int, metrics: Path
) -> tuple[str, ...]:
    """The target's command line as it will run."""
    values: dict[str, Value] = {
        "python": sys.executable,
        "host": HOST,
        "port": port,
        "upstream": f"{HOST}:{upstream_port}",
        "upstreams": ",".join(f"{host}:{upstream_port}" for host in upstream_hosts(layout)),
        "metrics": str(metrics),
        "workers": layout.workers,
        "db_hold_ms": f"{1000 * (scenario.database or Database()).hold_s:g}",
    }
    return render(target, {**values, **layout.options})


def pod(
    target: Target,
    layout: Layout,
    command: tuple[str, ...],
    port: int,
    log: Path,
    variables: Mapping[str, str],
) -> Program:
    """Start the server under test on its own CPUs, and wait until it accepts connections.

    variables: added to its environment, for what no command line should show.
    """
    program = Program(
        command,
        log=log,
        name=target.name,
        cpus=set(layout.pod_cpus),
        descriptors=layout.descriptors,
        fault=TargetError,
        env={**os.environ, **variables},
    )
    await_port(program, port)
    return program


def generator(
    scenario: Scenario, layout: Layout, port: int, addresses: tuple[str, ...], directory: Path, log: Path
) -> Program:
    """Start the load generator; it says "ready" and waits for "go"."""
    load = scenario.load
    plan = Plan(
        host=HOST,
        port=port,
        path=load.route,
        arrivals=load.arrivals,
        rate_rps=load.rate_rps,
        stages=tuple(Stage(stage.duration_s, stage.rate_rps) for stage in load.stages),
        seed=load.seed,
        clients=load.clients,
        warmup_s=load.warmup_s,
        window_s=load.window_s,
        drain_s=load.drain_s,
        timeout_s=load.timeout_s,
        in_flight_max=load.in_flight_max,
        sources=addresses,
        processes=layout.generators,
        directory=str(directory),
    )
    file = directory / "plan.json"
    file.write_bytes(msgspec.json.encode(plan))
    return Program(
        [sys.executable, "-m", "harness.generator", str(file)],
        log=log,
        name="the generator",
        cpus=set(layout.harness_cpus),
        pipes=True,
        fault=GeneratorError,
        env=_quiet(os.environ),
    )


def _quiet(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the variables that Locust would take for options of its own."""
    return {name: value for name, value in environment.items() if not name.startswith("LOCUST_")}


def await_port(program: Program, port: int) -> None:
    """Return once `program` listens; kills it and raises its kind of error if it does not."""
    deadline = time.monotonic() + START_S
    while True:
        with socket.socket() as probe:
            # Closed by a reset: its port would wait in TIME_WAIT, and be taken over by one of the run's own.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if probe.connect_ex((HOST, port)) == 0:
                return
        if program.poll() is not None or time.monotonic() > deadline:
            error = program.failure("did not start")
            program.kill()
            raise error
        time.sleep(LOOK_S)
