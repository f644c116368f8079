"""Scenarios: TOML and options to frozen structs; each refusal with place, finding and what is allowed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import scenario, statistics
from harness.errors import EXIT_USAGE, ScenarioError
from harness.scenario import Database, Delay, Limits, Load, Scenario

PLAIN = """\
description = "a test"

[load]
rate = "10/s"
warmup = "2 s"
window = "60 s"
drain = "2 s"
timeout = "9 s"

[upstream]
vector = "20 ms"
llm = {mean = "1 s", kind = "lognormal"}

[pod]
threads = 20
"""
STAGES = """
arrivals = "stages"
[[load.stages]]
duration = "2 s"
rate = "0/s"
[[load.stages]]
duration = "60 s"
rate = "20/s"
"""
STAGED = PLAIN.replace('rate = "10/s"\n', "").replace("\n[upstream]", f"{STAGES}\n[upstream]")


def load_text(directory: Path, text: str, **overrides: str) -> Scenario:
    path = directory / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return scenario.load(str(path), {key.replace("__", "."): value for key, value in overrides.items()})


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    read = load_text(tmp_path, PLAIN)
    assert read.name == "mine"
    assert read.load == Load(rate_rps=10.0, warmup_s=2.0, window_s=60.0, drain_s=2.0, timeout_s=9.0)
    assert read.upstream.vector == Delay(mean_s=0.02)
    assert read.upstream.llm == Delay(kind="lognormal", mean_s=1.0)
    assert read.pod.options == {"threads": 20}
    assert (read.pod.cpus, read.pod.workers, read.pod.descriptors) == (1, "auto", None)
    assert read.limits == Limits()
    assert read.w_s == pytest.approx(1.02)
    assert read.in_flight == pytest.approx(10.2)


def test_a_scenario_is_frozen_and_survives_json(tmp_path: Path) -> None:
    read = load_text(tmp_path, STAGED)
    assert msgspec.json.decode(msgspec.json.encode(read), type=Scenario) == read
    with pytest.raises(AttributeError):
        read.load.rate_rps = 1.0  # type: ignore[misc]


def test_options_change_the_file(tmp_path: Path) -> None:
    read = load_text(
        tmp_path,
        PLAIN,
        rate="7.5",
        duration="2 min",
        warmup="30",
        load__in_flight_max="500",
        load__regime="saturated",
        upstream__llm__kind="exponential",
        upstream__vector="50 ms",
        pod__workers="2",
        pod__threads="400",
        pod__gc="off",
        limits__send_lag_p99="25 ms",
    )
    assert (read.load.rate_rps, read.load.window_s, read.load.warmup_s) == (7.5, 120.0, 30.0)
    assert (read.load.in_flight_max, read.load.regime) == (500, "saturated")
    assert read.upstream.llm == Delay(kind="exponential", mean_s=1.0)
    assert read.upstream.vector == Delay(mean_s=0.05)
    assert (read.pod.workers, read.pod.options) == (2, {"threads": 400, "gc": "off"})
    assert read.limits.send_lag_p99_s == 0.025


CLOSED = PLAIN.replace('rate = "10/s"', 'arrivals = "closed"\nclients = 100')


def test_a_closed_load_has_clients_and_the_rate_that_they_can_ask_for(tmp_path: Path) -> None:
    read = load_text(tmp_path, CLOSED, load__bystander="/health")
    assert (read.load.arrivals, read.load.clients, read.load.bystander) == ("closed", 100, "/health")
    assert read.load.rate_rps == pytest.approx(100 / 1.02)
    assert read.in_flight == 100
    assert scenario.arrivals_in_window(read.load) == pytest.approx(60 * 100 / 1.02)
    assert read.load.offer == "100 clients, closed model"
    assert scenario.warnings(read) == []
    assert msgspec.json.decode(msgspec.json.encode(read), type=Scenario) == read


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("clients = 100", "", ["mine.toml:3: load.clients: missing", "clients = 100"]),
        ("clients = 100", "clients = 0", [":5: load.clients: ", ">= 1"]),
        ("clients = 100", 'clients = 100\nrate = "5/s"', [":6: load.rate: the clients", "leave it out"]),
        ("clients = 100", "clients = 100\nin_flight_max = 100", [":6: load.in_flight_max: the clients"]),
        ('"closed"', '"poisson"', [':5: load.clients: clients need arrivals = "closed"', 'found "poisson"']),
        ("clients = 100", "clients = 100\nbystander = 'health'", [":6: load.bystander: "]),
        (
            "clients = 100",
            'clients = 100\nstages = [{duration = "2 s", rate = "1/s"}]',
            ['load.stages: stages need arrivals = "stages", found "closed"'],
        ),
    ],
)
def test_a_closed_load_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    assert old in CLOSED
    with pytest.raises(ScenarioError) as refused:
        load_text(tmp_path, CLOSED.replace(old, new))
    for word in words:
        assert word in str(refused.value)


def test_a_rate_given_to_a_closed_load_is_refused_by_the_option() -> None:
    with pytest.raises(ScenarioError, match=r"--rate: load.rate: the clients of a closed load"):
        scenario.load("pinning", {"rate": "5"})


@pytest.mark.parametrize(
    ("route", "w_s"), [("/rag", 1.02), ("/mine", 1.02), ("/hold/plain", 1.0), ("/hold/sync-shared", 1.0)]
)
def test_w_is_that_of_the_calls_that_a_route_makes(tmp_path: Path, route: str, w_s: float) -> None:
    assert load_text(tmp_path, PLAIN, load__route=route).w_s == pytest.approx(w_s)


@pytest.mark.parametrize("name", ["pinning", "pinning-compressed"])
def test_the_labs_that_come_with_the_project(name: str) -> None:
    """One after the other, the last client waits for all; a turn may serve them backwards, so for twice as many."""
    read = scenario.load(name)
    clients = read.load.clients or 0
    assert read.load.drain_s > clients * read.w_s
    assert read.load.timeout_s > 2 * clients * read.w_s
    assert read.pod.options == {"hold": "on", "pins": "on"}
    assert read.load.bystander == "/health"


@pytest.mark.parametrize("name", ["rag", "rag-compressed"])
def test_the_scenarios_that_come_with_the_project(name: str) -> None:
    read = scenario.load(name)
    assert read.name == name
    assert scenario.warnings(read) == []
    assert read.load.warmup_s > read.w_s
    periods = read.load.window_s / read.w_s
    assert periods == pytest.approx(round(periods))
    completions = 200 / read.w_s * read.load.window_s
    assert 1 / completions < 0.003
    assert name in scenario.names()


@pytest.mark.parametrize("name", ["admission", "admission-compressed"])
def test_the_scenarios_before_a_database(name: str) -> None:
    read = scenario.load(name)
    assert scenario.warnings(read) == []
    assert read.database is not None
    assert read.w_s == read.database.hold_s
    wait_s = int(read.pod.options["connection_wait_ms"]) / 1000
    turns = read.load.window_s / wait_s
    assert turns == pytest.approx(round(turns)), "threads that wait in step are counted in whole turns"
    assert (read.load.in_flight_max or 0) / 100 < read.load.timeout_s, "100/s are answered: nobody gives up"
    assert (read.load.in_flight_max or 0) / 100 <= read.load.drain_s


def test_a_connection_held_is_part_of_w(tmp_path: Path) -> None:
    held = load_text(tmp_path, PLAIN + "[database]\n")
    assert held.database == Database(hold_s=0.1)
    assert held.w_s == pytest.approx(1.12)
    assert load_text(tmp_path, PLAIN, database__hold="30 ms").w_s == pytest.approx(1.05)
    only = load_text(tmp_path, PLAIN, database__hold="30 ms", load__route="/db")
    assert only.w_s == pytest.approx(0.03), "/db calls no upstream"


def test_the_compressed_scenario_ends_within_30_s() -> None:
    load = scenario.load("rag-compressed").load
    assert load.warmup_s + load.window_s + load.drain_s < 25


REFUSED: list[tuple[str, str, list[str]]] = [
    (
        'rate = "10/s"',
        'ratee = "10/s"',
        [":4: load.ratee: unknown key", 'did you mean "rate"?', "allowed: arrivals,"],
    ),
    ('rate = "10/s"', "rate = 10", [":4: load.rate: ", "no unit", '"500/s"']),
    ('rate = "10/s"', 'rate = "10 s"', [":4: load.rate: ", 'unknown unit "s"', "/s, /min, /h"]),
    ('rate = "10/s"', 'rate = "0/s"', [":4: load.rate: ", "> 0.0", "found '0/s'"]),
    ('rate = "10/s"', 'rate = "-1/s"', [":4: load.rate: ", "> 0.0"]),
    ('rate = "10/s"', 'rate = "nan/s"', [":4: load.rate: ", "not a finite number"]),
    ('rate = "10/s"', "", [":3: load.rate: ", "missing", '"500/s"']),
    ('window = "60 s"', "", [":3: load.window: ", "missing"]),
    ('window = "60 s"', 'window = "0 s"', [":6: load.window: ", "> 0.0"]),
    ('window = "60 s"', 'window = "1 s"', [":6: load.window: 1 s is shorter than W = 1.02 s"]),
    ('window = "60 s"', 'window = "1e999 s"', [":6: load.window: ", "too large"]),
    ('warmup = "2 s"', 'warmup = "-1 s"', [":5: load.warmup: ", ">= 0.0"]),
    ('drain = "2 s"', 'drain = "-1 ms"', [":7: load.drain: ", ">= 0.0", "'-1 ms'"]),
    ('timeout = "9 s"', 'timeout = "0 s"', [":8: load.timeout: ", "> 0.0"]),
    (
        'timeout = "9 s"',
        'timeout = "9 s"\nin_flight_max = 0',
        [":9: load.in_flight_max: ", ">= 1", "found 0"],
    ),
    (
        'timeout = "9 s"',
        'timeout = "9 s"\nin_flight_max = 10',
        ["10 is below λW", "10/s × 1.02 s = 10", "at least 11"],
    ),
    ('timeout = "9 s"', 'timeout = "9 s"\nseed = "x"', [":9: load.seed: expected int, found 'x'"]),
    ('timeout = "9 s"', 'timeout = "9 s"\nroute = "rag"', [":9: load.route: "]),
    (
        'timeout = "9 s"',
        'timeout = "9 s"\narrivals = "poison"',
        ["unknown value 'poison'", 'mean "poisson"?'],
    ),
    ('timeout = "9 s"', 'timeout = "9 s"\narrivals = "stages"', [":9: load.arrivals: ", "[[load.stages]]"]),
    ('timeout = "9 s"', f'timeout = "9 s"{STAGES}', [":4: load.rate: ", "leave it out"]),
    (
        'timeout = "9 s"',
        'timeout = "9 s"\nstages = [{duration = "62 s", rate = "1/s"}]',
        ['need arrivals = "stages"'],
    ),
    (
        'timeout = "9 s"',
        'timeout = "9 s"\nstages = "up"',
        ["load.stages: expected a list of tables, found 'up'"],
    ),
    (
        'timeout = "9 s"',
        'timeout = "9 s"\nstages = [{rte = "1/s"}]',
        ["load.stages[0].rte: unknown key", '"rate"'],
    ),
    ('vector = "20 ms"', "", [":10: upstream.vector: missing"]),
    ('vector = "20 ms"', "vector = 20", [":11: upstream.vector.mean: ", "no unit"]),
    (
        'kind = "lognormal"',
        'kind = "normal"',
        ["upstream.llm.kind: unknown value 'normal'", "allowed: constant,"],
    ),
    ("threads = 20", "threads = 1.5", [":15: pod.threads: ", "found 1.5"]),
    ("threads = 20", "threads = true", [":15: pod.threads: ", "found True"]),
    ("threads = 20", 'workers = "all"', [":15: pod.workers: ", "above 0 or one of: auto", "'all'"]),
    ("threads = 20", "workers = 0", [":15: pod.workers: ", "above 0"]),
    ("threads = 20", "cpus = -1", [":15: pod.cpus: ", ">= 0"]),
    ("threads = 20", "[limits]\nlittle_share = 2.0", [":16: limits.little_share: ", "<= 1.0"]),
    ("threads = 20", "[limit]\nx = 1", ["limit: unknown key", 'did you mean "limits"?']),
    ("[pod]\nthreads = 20", "pods = 3", ["upstream.pods: unknown key"]),
    ("[load]", "[load", ["not readable as TOML", "line 3"]),
    ("[pod]", "[database]\nhold = 5\n[pod]", [":15: database.hold: ", "no unit"]),
    ("[pod]", '[database]\nhold = "0 s"\n[pod]', [":15: database.hold: ", "> 0.0"]),
    ("[pod]", "[database]\nwait = 5\n[pod]", [":15: database.wait: unknown key", "allowed: hold"]),
    ('description = "a test"', "database = 3", [":1: database: expected a table"]),
    ('timeout = "9 s"', 'timeout = "9 s"\nroute = "/db"', [":9: load.route: ", "a table [database]"]),
]


@pytest.mark.parametrize(("old", "new", "words"), REFUSED)
def test_refused_with_its_place(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    assert old in PLAIN
    with pytest.raises(ScenarioError) as refused:
        load_text(tmp_path, PLAIN.replace(old, new))
    assert refused.value.exit_code == EXIT_USAGE
    for word in ("mine.toml", *words):
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"rate": "0"}, ["--rate: load.rate: ", "> 0.0"]),
        ({"rate": "5 furlongs"}, ["--rate: ", 'unknown unit "furlongs"', "/s, /min, /h"]),
        ({"duration": "1"}, ["--duration: load.window: 1 s is shorter than W"]),
        ({"load.ratee": "5"}, ["--set load.ratee: unknown key", 'mean "rate"?']),
        ({"load.rate.x": "5"}, ["--set load.rate.x", "not a table"]),
        ({"load.window": "1 s"}, ["--set load.window: 1 s is shorter"]),
        ({"upstream.llm": "5 m"}, ["--set upstream.llm: upstream.llm.mean: ", 'unknown unit "m"']),
        ({"upstream": "5"}, ["--set upstream: expected a table"]),
        ({"upstream.llm": "0", "upstream.vector": "0"}, ["W must be above 0"]),
        ({"pod.threads": "[1]"}, ["--set pod.threads: ", "[1]"]),
        ({"limits.little_share": "0.1", "limits.drift": "1"}, ["--set limits.drift: unknown key"]),
        ({"": "1"}, ["unknown key"]),
    ],
)
def test_an_option_is_refused_by_its_name(
    tmp_path: Path, overrides: dict[str, str], words: list[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PLAIN, encoding="utf-8")
    with pytest.raises(ScenarioError) as refused:
        scenario.load(str(path), overrides)
    for word in words:
        assert word in str(refused.value)


def test_an_unknown_scenario_is_refused_with_the_list() -> None:
    with pytest.raises(
        ScenarioError, match=r'unknown scenario "rga"; did you mean "rag"\? allowed: .*rag-compressed'
    ):
        scenario.load("rga")
    with pytest.raises(ScenarioError, match=r"nowhere\.toml: no such scenario file"):
        scenario.load("nowhere.toml")


def test_stages_give_the_rate_and_the_arrivals(tmp_path: Path) -> None:
    load = load_text(tmp_path, STAGED).load
    assert load.rate_rps == 20.0
    # a ramp from 0 to 20/s over the whole window: λT/2
    assert scenario.arrivals_in_window(load) == 600
    # 10 s of the ramp fall into the warm-up (16.7 requests), the last rate is held for 10 s more
    later = load_text(tmp_path, STAGED, warmup="12").load
    assert scenario.arrivals_in_window(later) == 600 + 200 - 17


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({}, None),
        ({"rate": "6.14"}, None),
        ({"rate": "6.1"}, ["366 requests", "368", "stays empty"]),
        ({"warmup": "1.02"}, None),
        ({"warmup": "1"}, ["load.warmup 1 s is shorter than W = 1.02 s", "steady state"]),
        ({"load.drain": "1"}, ["load.drain 1 s is shorter", "unfinished"]),
        ({"load.drain": "1", "load.regime": "saturated"}, None),
        ({"load.timeout": "1"}, ["load.timeout 1 s is not above W"]),
    ],
)
def test_warnings(tmp_path: Path, overrides: dict[str, str], words: list[str] | None) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PLAIN, encoding="utf-8")
    warnings = scenario.warnings(scenario.load(str(path), overrides))
    assert len(warnings) == (words is not None)
    for word in words or ():
        assert word in warnings[0]


def test_the_fewest_arrivals_are_those_of_the_statistics() -> None:
    assert statistics.least_n(99) == scenario.LEAST_ARRIVALS_FOR_P99


def test_a_cap_at_lambda_w_is_allowed() -> None:
    assert scenario.load("rag", {"load.in_flight_max": "10010"}).load.in_flight_max == 10_010


@given(key=st.text(min_size=1, max_size=20), value=st.text(max_size=20))
def test_whatever_is_set_is_read_or_refused_by_name(key: str, value: str) -> None:
    message = key
    try:
        scenario.load("rag", {key: value})
    except ScenarioError as refused:
        message = str(refused)
    assert key in message
