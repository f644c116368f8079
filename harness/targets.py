"""The registry of servers under test: a target is a command line with placeholders and a table of options.

Nothing here knows one server from another: a user's own one is one more table in a TOML file. What the file
cannot mean (an unknown placeholder, a pool that is no option) is refused when it is read; what a scenario
cannot ask of a target (an unknown option, a value of the wrong type), when its options are resolved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from harness.errors import ScenarioError
from harness.spelling import ROOT, Source, parse, read, suggest

REGISTRY = ROOT / "servers" / "targets.toml"

# What the harness fills in, besides a target's own options.
PLACEHOLDERS: Mapping[str, str] = {
    "python": "path of the Python interpreter",
    "host": "address to listen on",
    "port": "port to listen on",
    "upstream": "the upstream's address, host:port",
    "upstreams": "all its addresses, host:port,host:port: for servers that can spread their connections",
    "metrics": "directory for the gauges' memory-mapped files",
    "workers": "number of processes",
    "db_hold_ms": "how long /db holds a connection, in milliseconds",
}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")

Value = str | int


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that can be started; options maps a name to its default, or to its choices, default first."""

    name: str
    model: str
    description: str = ""
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    options: dict[str, str | int | tuple[str, ...]] = {}
    pool: str | None = None
    descriptors_per_request: Annotated[int, Meta(ge=1)] = 2
    gauges: bool = False
    arm: Literal["controlled", "deployed", "own"] = "own"


def load_targets(extra: Sequence[Path] = ()) -> dict[str, Target]:
    """All targets by name, of servers/targets.toml and then of `extra` files; raises ScenarioError."""
    targets: dict[str, Target] = {}
    for path in (REGISTRY, *extra):
        tables, source = parse(path)
        for name, table in tables.items():
            if name in targets:
                raise source.refuse(name, "a target of this name exists already; choose another name")
            if not isinstance(table, dict) or "name" in table:
                raise source.refuse(name, f"expected a table [{name}] without a key `name`, found {table!r}")
            targets[name] = _checked(read(Target, {**table, "name": name}, source, name), source)
    return targets


def get_target(name: str, targets: Mapping[str, Target]) -> Target:
    """The target of this name; raises ScenarioError with the list and the closest match."""
    if name not in targets:
        raise ScenarioError(f'unknown target "{name}"{suggest(name, targets)}')
    return targets[name]


def resolve(target: Target, options: Mapping[str, Value]) -> dict[str, Value]:
    """The value of every option of `target`: its default, or a scenario's; raises ScenarioError."""
    for name in options:
        if name not in target.options:
            known = suggest(name, target.options)
            raise ScenarioError(f"pod.{name}: {target.name} has no such option{known}")
    return {
        name: _default(spec) if name not in options else _typed(target, name, spec, options[name])
        for name, spec in target.options.items()
    }


def concurrency_limit(target: Target, options: Mapping[str, Value], workers: int) -> int | None:
    """Requests that the pools of all workers hold at once; None for a target without a pool."""
    return None if target.pool is None else int(options[target.pool]) * workers


def render(target: Target, values: Mapping[str, Value]) -> tuple[str, ...]:
    """The command line, every placeholder replaced; `values` has PLACEHOLDERS and the resolved options."""
    missing = sorted(name for name in _used(target.command) if name not in values)
    if missing:
        raise ScenarioError(f"{target.name}: no value for the placeholder {{{missing[0]}}}")
    return tuple(_PLACEHOLDER.sub(lambda m: str(values[m.group(1)]), part) for part in target.command)


def _checked(target: Target, source: Source) -> Target:
    for option, spec in target.options.items():
        if option in PLACEHOLDERS:
            raise source.refuse(f"{target.name}.options.{option}", "the harness itself sets this placeholder")
        if spec == ():
            raise source.refuse(f"{target.name}.options.{option}", "a list of choices needs at least one")
    allowed = {*PLACEHOLDERS, *target.options}
    for name in _used(target.command):
        if name not in allowed:
            raise source.refuse(
                f"{target.name}.command", f"unknown placeholder {{{name}}}{suggest(name, allowed)}"
            )
    if target.pool is not None and not isinstance(target.options.get(target.pool), int):
        numbers = [name for name, spec in target.options.items() if isinstance(spec, int)]
        raise source.refuse(
            f"{target.name}.pool", f'"{target.pool}" is no numeric option{suggest(target.pool, numbers)}'
        )
    return target


def _used(command: Sequence[str]) -> list[str]:
    return [name for part in command for name in _PLACEHOLDER.findall(part)]


def _default(spec: Value | tuple[str, ...]) -> Value:
    return spec[0] if isinstance(spec, tuple) else spec


def _typed(target: Target, name: str, spec: Value | tuple[str, ...], value: Value) -> Value:
    place = f"pod.{name}"
    if isinstance(spec, str):
        return str(value)
    if isinstance(spec, tuple):
        if str(value) not in spec:
            raise ScenarioError(f"{place}: unknown value {value!r}{suggest(str(value), spec)}")
        return str(value)
    least = 1 if name == target.pool else 0
    if not isinstance(value, int) or value < least:
        raise ScenarioError(
            f"{place}: expected a whole number of at least {least}, such as {spec}, found {value!r}"
        )
    return value
