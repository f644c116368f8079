"""One scenario, done once: upstream, pod, sampler and generator in, one run directory out.

Whatever happens, the children are gone and the ports free when `run` returns or raises, and what was recorded
is in results/runs/ (valid) or results/discarded/ (with the reason).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
from pyarrow.lib import Table

from harness import gauges, locks, measures, pins, pod, postgres, provenance, records
from harness.bystander import Bystander
from harness.errors import HarnessError, MeasurementError
from harness.generator.messages import Account
from harness.loadgen import Events, read_columns, with_phase
from harness.preflight import Layout
from harness.program import Program
from harness.recorded import Recorded
from harness.run import HandlerPins, Phases, Run, Source
from harness.run import Target as RanTarget
from harness.sampler import Sampler
from harness.scenario import Scenario
from harness.targets import Target
from harness.validity import judge

STOP_S = 3.0
SETTLE_S = 5.0
READY_S = 90.0
SAMPLE_S = 1.0
SAMPLES_MIN = 8  # in a window, however short


class Moment(msgspec.Struct, frozen=True):
    """What is known while a run is under way, once a second."""

    phase: str
    t_s: float
    progress: Mapping[str, Any]
    sample: Mapping[str, float]


Watch = Callable[[Moment], None]


class Outcome(msgspec.Struct, frozen=True):
    """A run and where it lies."""

    run: Run
    path: Path


def run(
    scenario: Scenario, target: Target, layout: Layout, results: Path, watch: Watch, port: int | None
) -> Outcome:
    """Run `scenario` once against `target`; an invalid run is returned too, with its verdict.

    Raises TargetError, GeneratorError, MeasurementError or KeyboardInterrupt after discarding what there is.
    """
    created = datetime.now(UTC)
    run_id = records.new_id(target.name, scenario.name, created)
    with locks.machine(), locks.staging(results, run_id) as staging:
        locks.discard_orphans(results)
        try:
            attempt = _Attempt(scenario, target, layout, staging, watch, port)
            recorded = attempt.record()
            measured = measures.measure(recorded)
            verdict = judge(measured.figures, scenario.limits)
            made = Run(
                id=run_id,
                created=created.isoformat(timespec="seconds"),
                model=target.model,
                target=RanTarget(
                    name=target.name, argv=attempt.argv, options=layout.options, workers=layout.workers
                ),
                scenario=scenario,
                machine=provenance.machine(),
                versions=provenance.versions(),
                source=attempt.source,
                phases=attempt.phases,
                summary=measured.summary,
                resources=measured.resources,
                concurrency=measured.concurrency,
                pins=measured.pins,
                bystander=measured.bystander,
                database=measured.database,
                prediction=measured.prediction,
                verdict=verdict,
                notes=(*layout.notes, *attempt.notes),
            )
            records.write_run(staging, made, recorded.requests, recorded.samples)
            for name, columns in (("gc", recorded.pauses), ("bystander", recorded.probes)):
                if columns is not None:
                    pq.write_table(Table.from_pydict(dict(columns)), staging / f"{name}.parquet")
        except (HarnessError, KeyboardInterrupt) as error:
            _discard(staging, str(error).partition("\n")[0] or "interrupted")
            raise
        except OSError as error:
            _discard(staging, f"the run could not be written: {error}")
            raise MeasurementError(f"the run could not be written: {error}; free some space?") from error
        return Outcome(made, records.publish(staging, discarded=None if verdict.valid else verdict.reason))


def _discard(staging: Path, reason: str) -> None:
    try:
        records.publish(staging, discarded=reason)
    except MeasurementError:  # the disk is full: the hidden directory is swept by the next run
        return


class _Attempt:
    """The moving parts of one run."""

    def __init__(
        self,
        scenario: Scenario,
        target: Target,
        layout: Layout,
        staging: Path,
        watch: Watch,
        port: int | None,
    ) -> None:
        self._scenario = scenario
        self._target = target
        self._layout = layout
        self._staging = staging
        self._watch = watch
        self._port = port or pod.free_port()
        self._edges: list[float] = []
        self.argv: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.source = Source()
        self.phases = Phases(t0_s=0, window_start_s=0, window_end_s=0, drain_end_s=0)

    def record(self) -> Recorded:
        """Start everything, let the load run, stop everything; what was recorded."""
        commit, dirty = provenance.commit()
        hash_start = provenance.source_hash()
        with ExitStack() as stack:
            recorded = self._record(stack, self._staging / records.SCRATCH)
        hash_end = provenance.source_hash()
        self.source = Source(commit=commit, dirty=dirty, hash_start=hash_start, hash_end=hash_end)
        return msgspec.structs.replace(recorded, source_unchanged=hash_start == hash_end)

    def _record(self, stack: ExitStack, scratch: Path) -> Recorded:
        scenario, layout = self._scenario, self._layout
        pod_metrics, upstream_metrics, columns = (scratch / name for name in ("pod", "upstream", "columns"))
        for directory in (pod_metrics, upstream_metrics, columns):
            directory.mkdir(parents=True)
        upstream_port = pod.free_port()
        self.argv = pod.argv(self._target, scenario, layout, self._port, upstream_port, pod_metrics)
        self._say("start", f"{self._target.name} and its upstream")
        # First, because it takes longest to be ready; it sends nothing before it is told to.
        # First, because it takes longest to be ready; it sends nothing before it is told to.
        generator = stack.enter_context(
            pod.generator(
                scenario,
                layout,
                self._port,
                pod.sources(layout.sources),
                columns,
                self._staging / "generator.log",
            )
        )
        database = stack.enter_context(self._database()) if scenario.database else None
        upstream = stack.enter_context(
            pod.upstream(scenario, layout, upstream_port, upstream_metrics, self._staging / "upstream.log")
        )
        server = stack.enter_context(
            pod.pod(
                self._target,
                layout,
                self.argv,
                self._port,
                self._staging / "pod.log",
                {postgres.DSN_VARIABLE: database.dsn} if database else {},
            )
        )
        sampler = Sampler(
            server.pid,
            upstream=upstream.pid,
            generator=generator.pid,
            pod_metrics=pod_metrics if self._target.gauges else None,
            upstream_metrics=upstream_metrics,
            period_s=min(SAMPLE_S, scenario.load.window_s / SAMPLES_MIN),
        )
        events = Events(generator)
        events.expect("ready", READY_S)
        rest = _settled(sampler)
        with sampler, self._bystander() as bystander:
            events.go()
            t0_s = float(events.expect("start", READY_S)["t0_s"])
            self._say("warmup", "load")
            companions = (server, upstream, database.program if database else None)
            done = self._watch_load(events, sampler, [program for program in companions if program])
            drain_end_s = time.monotonic() - t0_s
            samples = sampler.stop()
            probes = None if bystander is None else bystander.stop()
        self._say("stop", "pod and upstream")
        server.stop(STOP_S)
        upstream.stop(STOP_S)
        load = scenario.load
        self.phases = Phases(
            t0_s=t0_s,
            window_start_s=load.warmup_s,
            window_end_s=load.warmup_s + load.window_s,
            drain_end_s=drain_end_s,
        )
        pauses = gauges.gc_pauses(pod_metrics)
        return Recorded(
            scenario=scenario,
            layout=layout,
            requests=with_phase(read_columns([Path(file) for file in done["files"]]), load),
            samples=samples | {"t_s": samples["t_s"] - t0_s},
            pauses={
                name: pauses[name] - (t0_s if name == "end_s" else 0) for name in pauses.dtype.names or ()
            },
            accounts=[msgspec.convert(account, Account) for account in done["workers"]],
            edge_pss_bytes=self._edges,
            rest=rest,
            processes_expected=int(rest["processes"]),
            samples_missed=sampler.missed,
            source_unchanged=True,
            pins=self._pins(pod_metrics),
            probes=probes and {**probes, "due_s": probes["due_s"] - t0_s},
        )

    def _bystander(self) -> AbstractContextManager[Bystander | None]:
        route = self._scenario.load.bystander
        return nullcontext() if route is None else Bystander(pod.HOST, self._port, route)

    def _pins(self, metrics: Path) -> Mapping[str, HandlerPins] | None:
        """By handler; None unless they were counted. (Threads that were told to count have none.)"""
        found = pins.read(metrics)
        return found if found or self._layout.options.get("pins") == "on" else None

    @contextmanager
    def _database(self) -> Iterator[postgres.Database]:
        """The database that the pod asks, on the harness's CPUs."""
        layout, log = self._layout, self._staging / "postgres.log"
        connections = int(layout.options["connections"]) * layout.workers
        with postgres.database(pod.free_port(), log, set(layout.harness_cpus), connections) as found:
            self.notes = (found.note,)
            yield found

    def _watch_load(
        self, events: Events, sampler: Sampler, companions: Sequence[Program]
    ) -> Mapping[str, Any]:
        """Follow the load to its end; raises what a companion's death or the generator's word calls for."""
        edges = {self._scenario.load.warmup_s, self._scenario.load.warmup_s + self._scenario.load.window_s}
        while True:
            event = events.next(0.2)
            for program in companions:
                if program.poll() is not None:
                    raise program.failure("ended during the run")
            sample = sampler.snapshot()
            if event is None:
                continue
            if event["event"] == "done":
                return event
            t_s = float(event["t_s"])
            for edge in [edge for edge in edges if edge <= t_s]:
                edges.discard(edge)
                if np.isnan(sample.get("pss_bytes", 0.0)):  # too dear each second: at the window's ends only
                    self._edges.append(sampler.pod_pss_bytes())
            self._watch(Moment(str(event["phase"]), t_s, event, sample))

    def _say(self, phase: str, what: str) -> None:
        self._watch(Moment(phase, 0.0, {"what": what}, {}))


def _settled(sampler: Sampler) -> Mapping[str, float]:
    """A sample of the pod at rest: once its memory and processes no longer change, or after SETTLE_S."""
    deadline = time.monotonic() + SETTLE_S
    last = sampler.sample()
    while True:
        time.sleep(0.5)
        sample = sampler.sample()
        same = ("processes", "os_threads", "rss_bytes")
        if all(sample[name] == last[name] for name in same) or time.monotonic() > deadline:
            return sample
        last = sample
