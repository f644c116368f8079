"""Parsers of /proc on text as the kernel writes it, and their readers on this very process."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import procfs
from harness.procfs import TICK_S, Stat, Status

FIELDS = (
    "4194560 931 50 1 2 250 50 30 20 20 0 7 0 8841 233074688 4100 18446744073709551615 1 1 0 0 0 0 0 "
    "16781312 134235136 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0"
)


def stat(pid: int, ppid: int, start: int = 0) -> Stat:
    return Stat(pid, "x", "S", ppid, 0.0, 0.0, 1, start)


@pytest.mark.parametrize("name", ["python3", "tmux: server", "(sd-pam)", "a) S 1 (b", ") R 1", "", "a\nb"])
def test_a_stat_with_any_name(name: str) -> None:
    assert procfs.parse_stat(f"77 ({name}) S 12 77 77 0 -1 {FIELDS}\n") == Stat(
        pid=77,
        name=name,
        state="S",
        ppid=12,
        cpu_s=300 * TICK_S,
        children_cpu_s=50 * TICK_S,
        threads=7,
        start=8841,
    )


@given(st.text(st.characters(codec="latin-1"), max_size=15))
def test_no_name_moves_the_fields(name: str) -> None:
    parsed = procfs.parse_stat(f"77 ({name}) S 12 77 77 0 -1 {FIELDS}\n")
    assert (parsed.name, parsed.ppid, parsed.threads) == (name, 12, 7)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Name:\tpython\nVmHWM:\t   20 kB\nVmRSS:\t   16400 kB\nThreads:\t2001\n", Status(2001, 16_793_600)),
        ("Name:\ta: b\nState:\tZ (zombie)\nThreads:\t1\n", Status(1, 0)),
    ],
)
def test_a_status(text: str, status: Status) -> None:
    assert procfs.parse_status(text) == status


def test_a_smaps_rollup_has_a_head_line_of_another_form() -> None:
    head = "55afe710d000-7ffdf5225000 ---p 00000000 00:00 0    [rollup]\n"
    text = head + "Rss:   1696 kB\nPss:    376 kB\nPss_Dirty: 1 kB\n"
    assert procfs.parse_pss(text) == 376 * 1024


@pytest.mark.parametrize(
    ("text", "counters"),
    [
        ("TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 0 17\nIpExt: A\nIpExt: 1\n",
         {"SyncookiesSent": 0, "ListenOverflows": 17}),
        ("IpExt: A B\nIpExt: 1 2\nTcpExt: TWRecycled\nTcpExt: 3\n", {"TWRecycled": 3}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_netstat(text: str, counters: dict[str, int]) -> None:
    assert procfs.parse_netstat(text) == counters


def test_steal_is_the_eighth_figure_of_all_cpus_together() -> None:
    text = "cpu  3912 0 1716 280386 197 0 39 9 0 0\ncpu0 1 0 1 1 1 0 1 5 0 0\n"
    assert procfs.parse_steal_s(text) == pytest.approx(9 * TICK_S)


def test_a_tree_is_what_hangs_below_its_roots() -> None:
    processes = {s.pid: s for s in (stat(1, 0), stat(5, 1), stat(6, 5), stat(7, 6), stat(8, 1), stat(9, 8))}
    assert set(procfs.tree([(5, 0)], processes)) == {5, 6, 7}
    assert set(procfs.tree([(5, 0), (7, 0), (9, 0)], processes)) == {5, 6, 7, 9}
    assert procfs.tree([(4, 0)], processes) == {}


def test_a_pid_used_again_is_another_process() -> None:
    processes = {5: stat(5, 1, start=200), 6: stat(6, 5, start=201)}
    assert procfs.tree([(5, 100)], processes) == {}
    assert set(procfs.tree([(5, 200)], processes)) == {5, 6}


def test_the_readers_see_this_process() -> None:
    me = procfs.read_stat(os.getpid())
    assert me is not None
    assert (me.pid, me.ppid) == (os.getpid(), os.getppid())
    assert me.threads == len(os.listdir("/proc/self/task"))
    assert me.cpu_s <= sum(os.times()[:2]) + 2 * TICK_S
    assert procfs.read_processes()[me.pid].start == me.start


def test_a_thread_and_a_descriptor_more_are_seen() -> None:
    threads, descriptors = threads_and_descriptors()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    with socket.socket(), socket.socket():
        assert threads_and_descriptors() == (threads + 1, descriptors + 2)
    done.set()
    thread.join()


def threads_and_descriptors() -> tuple[int, int]:
    status = procfs.read_status(os.getpid())
    descriptors = procfs.read_descriptors(os.getpid())
    assert status is not None
    assert descriptors is not None
    return status.threads, descriptors


def test_descriptors_are_listed_where_the_folder_has_no_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "7" / "fd"
    folder.mkdir(parents=True)
    for name in ("0", "1", "2"):
        (folder / name).touch()
    monkeypatch.setattr(procfs, "PROC", tmp_path)
    sizes = {"st_size": 0}
    monkeypatch.setattr(os, "stat", lambda _: type("Result", (), sizes))
    assert procfs.read_descriptors(7) == 3


def test_pss_is_a_part_of_rss() -> None:
    pss, status = procfs.read_pss_bytes(os.getpid()), procfs.read_status(os.getpid())
    assert pss is not None
    assert status is not None
    assert 0 < pss <= status.rss_bytes * 1.1  # read one after the other


def test_nothing_is_read_of_a_process_that_has_ended() -> None:
    pid = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(pid, 0)
    for read in (procfs.read_stat, procfs.read_status, procfs.read_pss_bytes, procfs.read_descriptors):
        assert read(pid) is None


def test_the_kernel_has_the_counters_that_are_sampled() -> None:
    counters = procfs.read_netstat()
    assert {"ListenOverflows", "TCPSynRetrans", "PAWSTimewait", "TWRecycled"} <= set(counters)
    assert procfs.read_steal_s() >= 0
