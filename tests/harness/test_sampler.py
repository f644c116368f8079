"""The sampler: its accounts on made-up processes, its columns on real ones."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from harness import procfs, sampler
from harness.errors import MeasurementError
from harness.procfs import Stat
from harness.program import Program
from harness.sampler import COLUMNS, Sampler, Tree, next_tick, total

HOLDER = """
import os, sys, threading, time
for line in sys.stdin:
    word, _, number = line.strip().partition(" ")
    if word == "threads":
        for _ in range(int(number)):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if word == "memory":
        held = b"x" * int(number)
    if word == "descriptors":
        files = [open(os.devnull) for _ in range(int(number))]
    if word == "fork" and os.fork() == 0:
        time.sleep(60)
    if word == "burn":
        end = time.process_time() + float(number)
        while time.process_time() < end:
            pass
    if word == "waited":
        if (pid := os.fork()) == 0:
            while time.process_time() < float(number):
                pass
            os._exit(0)
        os.waitpid(pid, 0)
    print("done", flush=True)
"""


def stat(pid: int, ppid: int, cpu_s: float, children_cpu_s: float = 0.0, state: str = "S") -> Stat:
    return Stat(pid, "x", state, ppid, cpu_s, children_cpu_s, 1, start=pid)


def machine(*stats: Stat) -> dict[int, Stat]:
    return {each.pid: each for each in stats}


ROOT = stat(10, 1, 1.0)


@pytest.mark.parametrize(
    ("then", "cpu_s", "alive"),
    [
        # (10 has used 1 s, its child 11 has used 2 s, a grandchild 12 has used 4 s: 7 s in all.)
        (machine(ROOT, stat(11, 10, 2), stat(12, 11, 4)), 7, {10, 11, 12}),
        (machine(ROOT, stat(11, 10, 2, 4)), 7, {10, 11}),  # 12 ended, 11 waited for it
        (machine(ROOT, stat(11, 10, 2, 4.5)), 7.5, {10, 11}),  # and 12 had used a little more
        (machine(ROOT, stat(11, 10, 2)), 7, {10, 11}),  # 12 ended, nobody waited
        (machine(stat(10, 1, 1.0, 6)), 7, {10}),  # 11 and 12 ended, waited for all the way up
        (machine(stat(10, 1, 1.0, 2)), 7, {10}),  # 11 was waited for, 12 was not
        (machine(ROOT, stat(11, 10, 2), stat(12, 11, 4, state="Z")), 7, {10, 11}),  # not waited for yet
        (machine(ROOT, stat(12, 1, 4)), 7, {10, 12}),  # 11 ended, 12 was adopted outside
        (machine(ROOT, stat(12, 1, 4), stat(13, 12, 3)), 10, {10, 12, 13}),  # and goes on having children
        (machine(ROOT, stat(11, 10, 2, 4), stat(13, 10, 8)), 15, {10, 11, 13}),  # one ends, another begins
        (machine(stat(10, 1, 1.0, 7)), 8, {10}),  # a child that came and went unseen
        ({}, 7, set()),  # all gone
    ],
)  # fmt: skip
def test_cpu_of_a_tree(then: dict[int, Stat], cpu_s: float, alive: set[int]) -> None:
    tree = Tree(ROOT)
    tree.update(machine(ROOT, stat(11, 10, 2), stat(12, 11, 4), stat(99, 1, 50)))
    members = tree.update(then)
    assert tree.cpu_s == pytest.approx(cpu_s)
    assert {member.pid for member in members} == alive


def test_a_root_that_has_ended_is_an_empty_tree() -> None:
    tree = Tree(None)
    assert tree.update(machine(ROOT)) == []
    assert tree.cpu_s == 0


@given(
    st.lists(
        st.dictionaries(st.integers(11, 15), st.tuples(st.floats(0, 100), st.floats(0, 100))), max_size=6
    )
)
def test_cpu_of_a_tree_never_falls(steps: list[dict[int, tuple[float, float]]]) -> None:
    """Whatever comes and goes; the counters of a process that stays do not fall, by the kernel's word."""
    tree, used, last = Tree(ROOT), dict.fromkeys(range(11, 16), (0.0, 0.0)), 0.0
    for step in steps:
        for pid, (own, children) in step.items():
            used[pid] = (used[pid][0] + own, used[pid][1] + children)
        tree.update(machine(ROOT, *(stat(pid, 10, *used[pid]) for pid in step)))
        assert tree.cpu_s >= last - 1e-9
        last = tree.cpu_s


@pytest.mark.parametrize(
    ("tick", "elapsed_s", "following"),
    [(0, 0.004, 1), (3, 3.4, 4), (3, 4.0, 4), (3, 4.2, 5), (3, 7.5, 8), (0, 0.0, 1)],
)
def test_ticks_stay_where_they_are(tick: int, elapsed_s: float, following: int) -> None:
    assert next_tick(tick, elapsed_s, 1.0) == following


def test_a_total_is_of_what_is_there() -> None:
    assert total({"a": 1.0, "b": 2.0}, ("a", "b")) == 3
    assert total({"a": 1.0}, ("a", "b")) == 1
    assert math.isnan(total({"c": 1.0}, ("a", "b")))
    labelled = {'pins{handler="a"}': 1.0, 'pins{handler="b"}': 2.0, "pins_created": 9.0}
    assert total(labelled, ("pins{",)) == 3


class Holder:
    """A real process that does as it is told."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pid = program.pid

    def tell(self, line: str) -> None:
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        print(line, file=self.program.stdin, flush=True)
        assert self.program.stdout.readline() == "done\n"


def hold(directory: Path) -> Program:
    return Program([sys.executable, "-S", "-c", HOLDER], log=directory / "log", name="holder", pipes=True)


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return met


def test_each_column_follows_what_the_pod_does(tmp_path: Path) -> None:
    with hold(tmp_path) as program:
        holder, watch = Holder(program), Sampler(program.pid)
        rows = [watch.sample()]
        for line in ("threads 50", "memory 50000000", "descriptors 30", "fork", "burn 0.3", "waited 0.3"):
            holder.tell(line)
            rows.append(watch.sample())
        start, threads, memory, descriptors, fork, burn, waited = rows
    assert threads["os_threads"] == start["os_threads"] + 50
    assert memory["rss_bytes"] - threads["rss_bytes"] == pytest.approx(50e6, rel=0.05)
    assert memory["pss_bytes"] - threads["pss_bytes"] == pytest.approx(50e6, rel=0.05)
    assert descriptors["descriptors"] == memory["descriptors"] + 30
    assert fork["processes"] == start["processes"] + 1 == 2
    assert fork["rss_bytes"] > 1.5 * descriptors["rss_bytes"]  # shared pages count twice here,
    assert fork["pss_bytes"] < 1.2 * descriptors["pss_bytes"]  # and are split here
    assert burn["cpu_s"] - fork["cpu_s"] == pytest.approx(0.3, abs=0.05)
    assert waited["cpu_s"] - burn["cpu_s"] == pytest.approx(0.3, abs=0.05)
    assert waited["processes"] == 2


def test_pss_is_left_out_where_it_is_dear_but_can_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "PSS_THREADS_MAX", 20)
    with hold(tmp_path) as program:
        watch = Sampler(program.pid)
        assert watch.sample()["pss_bytes"] > 0
        Holder(program).tell("threads 20")
        assert math.isnan(watch.sample()["pss_bytes"])
        assert watch.pod_pss_bytes() > 0


def test_a_pod_that_ends_keeps_its_cpu_and_has_no_memory(tmp_path: Path) -> None:
    with hold(tmp_path) as program:
        watch = Sampler(program.pid)
        Holder(program).tell("burn 0.1")
        before = watch.sample()
        program.stop(0)
        after = watch.sample()
    assert after["cpu_s"] == before["cpu_s"] >= 0.09
    assert (after["processes"], after["os_threads"], after["descriptors"]) == (0, 0, 0)
    assert math.isnan(after["rss_bytes"])
    assert math.isnan(after["pss_bytes"])


def test_the_harness_side_is_measured_beside_the_pod(tmp_path: Path) -> None:
    with hold(tmp_path) as pod, hold(tmp_path) as upstream:
        Holder(upstream).tell("burn 0.2")
        row = Sampler(pod.pid, upstream=upstream.pid).sample()
    assert row["upstream_cpu_s"] >= 0.19 > row["cpu_s"]
    assert row["upstream_rss_bytes"] > 0
    assert row["harness_cpu_s"] > 0
    assert math.isnan(row["generator_cpu_s"])


def test_gauges_become_columns_and_nan_where_there_are_none(tmp_path: Path) -> None:
    file = MmapedDict(str(tmp_path / "gauge_livesum_1.db"))
    for name, labels, value in [
        ("http_server_active_requests", {}, 7.0),
        ("upstream_active_requests", {"route": "chat"}, 5.0),
        ("upstream_active_requests", {"route": "search"}, 1.0),
        ("upstream_requests_total", {"route": "chat"}, 40.0),
    ]:
        file.write_value(mmap_key(name, name, list(labels), list(labels.values()), ""), value, 0.0)
    file.close()
    with hold(tmp_path) as pod:
        row = Sampler(pod.pid, pod_metrics=tmp_path, upstream_metrics=tmp_path).sample()
        bare = Sampler(pod.pid).sample()
    assert row["in_flight"] == 7
    assert row["upstream_active"] == 6
    assert row["upstream_chat_total"] == 40
    assert math.isnan(row["permits"])
    assert math.isnan(bare["in_flight"])
    assert tuple(row) == tuple(bare) == COLUMNS


def test_it_samples_at_its_ticks_from_a_thread(tmp_path: Path) -> None:
    with hold(tmp_path) as pod, Sampler(pod.pid, period_s=0.05) as watch:
        assert within(10, lambda: bool(watch.snapshot()))
        first_s = watch.snapshot()["t_s"]
        assert within(10, lambda: watch.snapshot()["t_s"] > first_s + 0.5)
        columns = watch.stop()
    assert tuple(columns) == COLUMNS
    assert {len(column) for column in columns.values()} == {len(columns["t_s"])}
    ticks = (columns["t_s"] - columns["t_s"][0]) / 0.05
    assert np.all(np.diff(columns["t_s"]) > 0)
    assert len(ticks) + watch.missed >= round(ticks[-1])
    assert np.all(np.diff(columns["cpu_s"]) >= 0)
    assert np.all(columns["os_threads"] == 1)


def test_ticks_that_pass_are_counted_and_not_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> dict[int, Stat]:
        time.sleep(0.12)
        return {}

    monkeypatch.setattr(procfs, "read_processes", slow)
    with hold(tmp_path) as pod, Sampler(pod.pid, period_s=0.05) as watch:
        assert within(10, lambda: watch.missed >= 4)
        columns = watch.stop()
    assert len(columns["t_s"]) < watch.missed
    assert np.all(np.diff(columns["t_s"]) > 0.1)


def test_a_sampler_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> float:
        raise OSError("no more")

    monkeypatch.setattr(procfs, "read_steal_s", broken)
    with hold(tmp_path) as pod, Sampler(pod.pid, period_s=0.01) as watch:
        with pytest.raises(MeasurementError, match="no more"):
            watch.stop()
        with pytest.raises(MeasurementError, match="no more"):
            watch.snapshot()
