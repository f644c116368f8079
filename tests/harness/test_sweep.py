"""Sweeps: what a table [sweep] means, what is refused of it, and what is run of it, in which order."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_run

from harness import arrivals, preflight, scenario, sweeping, targets
from harness.bench import Job, interleaved
from harness.errors import ScenarioError, TargetError
from harness.run import Run
from harness.sweep import Sweep, points

HOST = preflight.Host(cpus=(0, 1), descriptors=20_000, ports=28_232)
KNOWN = targets.load_targets()
BASE = """\
[load]
rate = "10/s"
warmup = "2 s"
window = "60 s"
drain = "2 s"
timeout = "9 s"
[upstream]
vector = "20 ms"
llm = {mean = "1 s", kind = "lognormal"}
"""
GC = """\
[sweep]
axis = "pod.gc"
targets = ["asyncio", "trio"]
values = ["default", "off"]
"""
W = """\
[sweep]
axis = "upstream.llm"
targets = ["asyncio"]
values = [
  "40 ms",
  { upstream.llm = "5 s", load.warmup = "6 s" },
  { upstream.llm.mean = "2 s", pod.gc = "off" },
]
"""
SWEEPS = [name for name in scenario.names() if scenario.load(name).sweep is not None]


def written(directory: Path, sweep: str) -> str:
    path = directory / "mine.toml"
    path.write_text(BASE + sweep, encoding="utf-8")
    return str(path)


def planned(name: str, *chosen: str, **changes: str) -> sweeping.Planned:
    overrides = {key.replace("__", "."): text for key, text in changes.items()}
    return sweeping.plan(name, overrides, chosen, KNOWN, HOST)


def test_every_value_meets_every_target(tmp_path: Path) -> None:
    found = planned(written(tmp_path, GC))
    assert [job.row for job in found.jobs] == [
        "asyncio pod.gc=default",
        "trio pod.gc=default",
        "asyncio pod.gc=off",
        "trio pod.gc=off",
    ]
    assert [job.scenario.pod.options for job in found.jobs[1:3]] == [{"gc": "default"}, {"gc": "off"}]
    assert {job.scenario.name for job in found.jobs} == {"mine"}
    assert found.refused == []


def test_a_value_may_be_several_keys_that_change_together(tmp_path: Path) -> None:
    short, long, mean = (job.scenario for job in planned(written(tmp_path, W)).jobs)
    assert short.upstream.llm == scenario.Delay(mean_s=0.04)
    assert (long.upstream.llm.mean_s, long.load.warmup_s, long.load.window_s) == (5.0, 6.0, 60.0)
    assert mean.upstream.llm == scenario.Delay(mean_s=2.0, kind="lognormal"), "what a value leaves out stays"
    assert (mean.load.warmup_s, mean.pod.options) == (2.0, {"gc": "off"}), (
        "and one value leaves none to the next"
    )


def test_options_come_last_and_targets_can_be_chosen(tmp_path: Path) -> None:
    found = planned(written(tmp_path, W), "trio", "gevent", "trio", warmup="7", load__rate="5")
    assert [job.target.name for job in found.jobs] == ["trio", "gevent"] * 3
    assert {(job.scenario.load.warmup_s, job.scenario.load.rate_rps) for job in found.jobs} == {(7.0, 5.0)}


def test_the_file_itself_is_one_point(tmp_path: Path) -> None:
    read = scenario.load(written(tmp_path, W))
    assert read.upstream.llm.mean_s == 1.0
    assert read.sweep is not None
    assert [point.name for point in points(read.sweep)] == [
        "upstream.llm=40 ms",
        "upstream.llm=5 s",
        "upstream.llm={'mean': '2 s'}",
    ]
    assert msgspec.json.decode(msgspec.json.encode(read), type=scenario.Scenario) == read


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("axis =", "axes =", [":11: sweep.axes: unknown key", 'did you mean "axis"?']),
        ('axis = "pod.gc"\n', "", [":10: sweep.axis: missing"]),
        ('"pod.gc"', '"gc"', [":11: sweep.axis: ", "found 'gc'"]),
        ('["default", "off"]', "[]", [":13: sweep.values: ", "found []"]),
        ('["default", "off"]', '"off"', [":13: sweep.values: expected array"]),
        ('["default", "off"]', "[true]", [":13: sweep.values: "]),
        ('["default", "off"]', '["off", "off"]', [":13: sweep.values[1]: pod.gc=off is there twice"]),
        ('"default", "off"', '{ load.rate = "5/s" }', ["sweep.values[0]: sets no pod.gc", "axis"]),
        ('["asyncio", "trio"]', "[]", [":12: sweep.targets: "]),
        ('["asyncio", "trio"]', '["asyncoi"]', ['unknown target "asyncoi"', 'mean "asyncio"?']),
        ('["default", "off"]', '["on"]', ["no condition can be started; asyncio pod.gc=on: pod.gc: unknown"]),
        (
            '"off"]',
            '{ pod.gc = "off", load.rtae = "5/s" }]',
            [":13: sweep.values[1]: load.rtae: unknown key", 'mean "rate"?'],
        ),
        (
            '"off"]',
            '{ pod.gc = "off", load.window = "1 s" }]',
            ["sweep.values[1]: load.window: 1 s is shorter than W"],
        ),
        (
            '"off"]',
            '{ pod.gc = "off", load.window = 90 }]',
            ["sweep.values[1]: load.window: ", "no unit"],
        ),
        (
            '"off"]',
            '{ pod.gc = "off", upstream = 3 }]',
            ["sweep.values[1]: upstream: expected a table"],
        ),
        (GC, "", ["mine.toml: has no table [sweep]"]),
    ],
)
def test_refused_with_its_place(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    assert old in GC
    with pytest.raises(ScenarioError) as refused:
        planned(written(tmp_path, GC.replace(old, new)))
    for word in words:
        assert word in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("key", ["upstream__llm", "upstream__llm__mean", "upstream"])
def test_an_option_cannot_set_what_the_sweep_sets(tmp_path: Path, key: str) -> None:
    value = '{vector = "1 ms", llm = "1 s"}' if key == "upstream" else "1 s"
    with pytest.raises(ScenarioError, match=r"the sweep itself sets upstream\.llm"):
        planned(written(tmp_path, W), **{key: value})


def test_a_condition_that_cannot_be_started_costs_itself_only() -> None:
    small = preflight.Host(cpus=(0, 1), descriptors=4_000, ports=28_232)
    found = sweeping.plan("sweep-threads", {}, (), KNOWN, small)
    assert [job.row.partition("=")[2] for job in found.jobs] == ["50", "200", "1000"]
    assert [job.row.partition("=")[2] for job, _ in found.refused] == ["5000", "9500"]
    rows = sweeping.run(found, 1, lambda job: make_run())
    assert [row.valid for row in rows] == [True, True, True, False, False]
    assert all(row.reasons[0].startswith("not started: too few descriptors") for row in rows[3:])


def test_a_run_that_breaks_costs_its_condition_only(tmp_path: Path) -> None:
    def run_once(job: Job) -> Run:
        if job.row == "trio pod.gc=off":
            raise TargetError("trio ended during the run\nlog…")
        return make_run()

    rows = sweeping.run(planned(written(tmp_path, GC)), 2, run_once)
    assert [(row.target, len(row.runs), row.valid) for row in rows] == [
        ("asyncio pod.gc=default", 2, True),
        ("trio pod.gc=default", 2, True),
        ("asyncio pod.gc=off", 2, True),
        ("trio pod.gc=off", 0, False),
    ]
    assert rows[3].reasons == ("trio ended during the run",) * 2


@given(st.integers(1, 5), st.integers(0, 1_000))
def test_each_repeat_runs_everything_once_in_an_order_that_the_seed_gives(repeats: int, seed: int) -> None:
    read = scenario.load("rag-compressed")
    jobs = [Job(f"row {n // 2}", KNOWN["asyncio"], read) for n in range(12)]

    def order() -> list[str]:
        done: list[str] = []

        def run_once(job: Job) -> Run:
            done.append(job.row)
            raise TargetError("enough")

        interleaved(jobs, repeats, run_once, seed)
        return done

    done = order()
    assert done == order()
    for repeat in range(repeats):
        assert sorted(done[12 * repeat : 12 * (repeat + 1)]) == sorted(job.row for job in jobs)
    assert done != [job.row for job in jobs] * repeats


def test_the_sweeps_that_come_with_the_project() -> None:
    assert [f"sweep-{what}" for what in ("cpu", "gc", "loop", "threads", "w", "workers")] == SWEEPS
    plans = {name: planned(name) for name in SWEEPS}
    assert all(not each.refused for each in plans.values())
    assert sum(each.seconds for each in plans.values()) <= 22 * 60
    for each in plans.values():
        for job in each.jobs:
            assert job.scenario.load.warmup_s >= job.scenario.w_s
            assert scenario.warnings(job.scenario) == []


def test_pools_are_full_within_their_warm_up() -> None:
    for job in planned("sweep-threads").jobs:
        threads, load = int(job.scenario.pod.options["threads"]), job.scenario.load
        assert load.rate_rps > 1.01 * threads / job.scenario.w_s
        assert threads / load.rate_rps < load.warmup_s


def test_random_arrivals_carry_a_p99() -> None:
    load = scenario.load("sweep-cpu").load
    due = arrivals.offsets("poisson", load.rate_rps, (), load.warmup_s + load.window_s, load.seed)
    assert len(due) - bisect_left(due, load.warmup_s) >= scenario.LEAST_ARRIVALS_FOR_P99


def test_a_sweep_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Sweep(axis="pod.gc", values=("off",), targets=("asyncio",)).axis = "pod.loop"  # type: ignore[misc]
