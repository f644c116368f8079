"""Targets: the registry as it is, what a user's own file may say, and what a scenario may ask."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from harness.errors import ScenarioError
from harness.targets import PLACEHOLDERS, Target, concurrency_limit, get_target, load_targets, render, resolve

VALUES: dict[str, str | int] = {
    "python": "/bin/python",
    "host": "127.0.0.1",
    "port": 8080,
    "upstream": "127.0.0.1:9000",
    "upstreams": "127.0.0.1:9000,127.0.0.2:9000",
    "metrics": "/tmp/m",
    "workers": 2,
    "db_hold_ms": "100",
}
OWN = """\
[mine]
model = "go"
command = ["./server", "--port={port}", "--size", "{size}", "{\\"json\\": 1}"]
pool = "size"
[mine.options]
size = 50
mode = ["fast", "safe"]
tag = "x"
"""


def own(directory: Path, text: str) -> dict[str, Target]:
    path = directory / "own.toml"
    path.write_text(text, encoding="utf-8")
    return load_targets([path])


@pytest.mark.parametrize("name", ["threadpool", "asyncio", "trio", "gevent"])
def test_the_controlled_arm_is_four_spellings_of_one_command(name: str) -> None:
    target = get_target(name, load_targets())
    argv = render(target, {**VALUES, **resolve(target, {})})
    assert argv[:4] == ("/bin/python", "-m", "servers", name)
    assert argv[4:14] == (
        *("--host", "127.0.0.1", "--port", "8080", "--upstream", "127.0.0.1:9000,127.0.0.2:9000"),
        *("--metrics", "/tmp/m", "--workers", "2"),
    )
    assert ("--gc", "default") in pairwise(argv)
    assert target.model == name
    assert target.arm == "controlled"
    assert target.gauges
    assert target.descriptors_per_request == 2


def test_only_a_pool_bounds_concurrency() -> None:
    targets = load_targets()
    pool = targets["threadpool"]
    assert concurrency_limit(pool, resolve(pool, {}), 1) == 200
    assert concurrency_limit(pool, resolve(pool, {"threads": 9_500}), 3) == 28_500
    assert concurrency_limit(targets["trio"], resolve(targets["trio"], {}), 1) is None


def test_a_users_own_target(tmp_path: Path) -> None:
    targets = own(tmp_path, OWN)
    mine = get_target("mine", targets)
    assert (mine.arm, mine.gauges) == ("own", False)
    options = resolve(mine, {"mode": "safe", "tag": 7})
    assert options == {"size": 50, "mode": "safe", "tag": "7"}
    assert render(mine, {**VALUES, **options}) == ("./server", "--port=8080", "--size", "50", '{"json": 1}')
    assert "threadpool" in targets


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": "abc"}, ["pod.threads: expected a whole number", "'abc'"]),
        ({"threads": 0}, ["pod.threads: ", "at least 1", "found 0"]),
        ({"backlog": -1}, ["pod.backlog: ", "at least 0"]),
        ({"gc": "of"}, ["pod.gc: unknown value 'of'", 'mean "off"?', "allowed: default, freeze, off"]),
        ({"gc": 1}, ["pod.gc: unknown value 1"]),
        ({"thread": 3}, ["pod.thread: threadpool has no such option", 'mean "threads"?']),
    ],
)
def test_options_are_refused(options: dict[str, str | int], words: list[str]) -> None:
    with pytest.raises(ScenarioError) as refused:
        resolve(load_targets()["threadpool"], options)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "{port}",
            "{prot}",
            ["own.toml:3: mine.command: unknown placeholder {prot}", 'mean "port"?', "workers"],
        ),
        ('pool = "size"', 'pool = "sise"', [":4: mine.pool: ", 'did you mean "size"?']),
        ('pool = "size"', 'pool = "tag"', [":4: mine.pool: ", "allowed: size"]),
        ('pool = "size"', "gauge = true", ["mine.gauge: unknown key", 'mean "gauges"?']),
        ('pool = "size"', 'arm = "both"', ["mine.arm: unknown value 'both'", "controlled, deployed, own"]),
        ('pool = "size"', 'name = "yours"', ["own.toml:1: mine: ", "without a key `name`"]),
        ("size = 50", "size = true", [":6: mine.options.size: expected ", "found True"]),
        ('["fast", "safe"]', "[]", [":7: mine.options.mode: ", "at least one"]),
        ('tag = "x"', "port = 1", [":8: mine.options.port: ", "sets this placeholder"]),
        ('model = "go"\n', "", ["mine.model: missing"]),
        ("[mine]", "[trio]", [":1: trio: ", "exists already"]),
    ],
)
def test_a_registry_is_refused_with_its_place(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    text = OWN.replace(old, new)
    if new == "[trio]":
        text = text.replace("mine.options", "trio.options")
    assert text != OWN
    with pytest.raises(ScenarioError) as refused:
        own(tmp_path, text)
    for word in words:
        assert word in str(refused.value)


def test_a_registry_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none.toml: not readable"):
        load_targets([tmp_path / "none.toml"])


def test_an_unknown_target_is_refused_with_the_list() -> None:
    with pytest.raises(
        ScenarioError, match=r'unknown target "asyncoi"; did you mean "asyncio"\? allowed: .*trio'
    ):
        get_target("asyncoi", load_targets())


@pytest.mark.parametrize("name", sorted(set(PLACEHOLDERS) - {"upstream"}))  # which asyncio does not use
def test_a_placeholder_without_a_value_is_refused(name: str) -> None:
    target = load_targets()["asyncio"]
    values = {**VALUES, **resolve(target, {})}
    del values[name]
    with pytest.raises(ScenarioError, match=rf"asyncio: no value for the placeholder \{{{name}\}}"):
        render(target, values)
