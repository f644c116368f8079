"""From a TOML table to a frozen struct: one walk, driven by the struct itself, that refuses with a place.

A struct's fields are the only list of keys there is. A field's suffix is its unit, and TOML spells the unit
in the value instead: `window_s: float` is written `window = "60 s"`. A refusal names the file and line, or
the command-line option; the path of the key; what was found, what is allowed, and the closest match.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from harness.errors import ScenarioError
from harness.quantities import parse_duration, parse_rate, parse_size

T = TypeVar("T", bound=msgspec.Struct)

ROOT = Path(__file__).resolve().parent.parent

# suffix of a field -> its parser, and the unit that a bare number on the command line means
_UNITS: Mapping[str, tuple[Callable[[object, str | None], float], str]] = {
    "_s": (parse_duration, "s"),
    "_rps": (parse_rate, "/s"),
    "_bytes": (parse_size, "B"),
}
_HEADER = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


@dataclass(frozen=True)
class Source:
    """Where values came from: a file's name and text, and what else set a path: an option, or a place of the file."""

    name: str
    text: str = ""
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def option(self, path: str) -> str | None:
        """The option that set `path` or a table around it, or None if the file did."""
        outer = [set_ for set_ in self.options if _within(path, set_)]
        return self.options[max(outer, key=len)] if outer else None

    def override(self, raw: dict[str, Any], path: str, text: str, flag: str) -> Source:
        """Set `path` in `raw` to `text`, read as TOML if it is TOML; returns the source that knows of it."""
        options = {**self.options, path: flag}
        source = replace(self, options=options)
        *tables, key = path.split(".")
        for depth, name in enumerate(tables, start=1):
            if name not in raw:
                options[".".join(tables[:depth])] = flag
            raw = raw.setdefault(name, {})
            if not isinstance(raw, dict):
                raise source.refuse(path, f'"{name}" is a value, not a table of keys')
        try:
            raw[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raw[key] = text
        return source

    def merge(self, raw: dict[str, Any], changes: Mapping[str, Any], place: str) -> Source:
        """Lay tables over `raw`, key by key; returns the source that knows that they came from `place`."""
        return replace(self, options={**self.options, **dict.fromkeys(_lay(changes, raw), place)})

    def where(self, path: str) -> str:
        """A key of the file for people: the file, the line if it can be told, and the path."""
        line = _line(self.text, path)
        place = f"{self.name}:{line}" if line else self.name
        return f"{place}: {path}" if path else place

    def refuse(self, path: str, message: str) -> ScenarioError:
        """The error to raise for the key at `path` ("" for the file as a whole)."""
        if flag := self.option(path):
            return ScenarioError(
                f"{flag}: {message}" if flag.endswith(path) else f"{flag}: {path}: {message}"
            )
        return ScenarioError(f"{self.where(path)}: {message}")


def parse(path: Path) -> tuple[dict[str, Any], Source]:
    """A TOML file's tables and where they came from; raises ScenarioError if it cannot be read."""
    shown = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text), Source(shown, text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioError(f"{shown}: not readable as TOML: {error}") from None


def read(kind: type[T], raw: object, source: Source, path: str = "") -> T:
    """Build `kind` from a TOML table; raises ScenarioError at the first key that is wrong."""
    if not isinstance(raw, dict):
        raise source.refuse(path, f"expected a table of keys, found {raw!r}")
    fields = {_spelled(f.name): f for f in msgspec.structs.fields(kind)}
    hints = get_type_hints(kind, include_extras=True)
    for key in raw:
        if key not in fields:
            raise source.refuse(_join(path, key), f"unknown key{suggest(key, fields)}")
    for key, f in fields.items():
        if f.required and key not in raw:
            raise source.refuse(_join(path, key), "missing; it has no default")
    values = {
        fields[key].name: _value(hints[fields[key].name], fields[key].name, value, source, _join(path, key))
        for key, value in raw.items()
    }
    return kind(**values)


def suggest(word: str, allowed: Iterable[str]) -> str:
    """The tail of a refusal: `; did you mean "rate"? allowed: …`, with the closest match if there is one."""
    names = sorted(allowed)
    close = difflib.get_close_matches(word, names, n=1)
    hint = f'; did you mean "{close[0]}"?' if close else ";"
    return f"{hint} allowed: {', '.join(names) or 'none'}"


def _value(hint: Any, name: str, raw: object, source: Source, path: str) -> object:
    if (struct := _struct(hint)) is not None:
        return read(struct, raw, source, path)
    if get_origin(hint) is tuple and (item := _struct(get_args(hint)[0])) is not None:
        if not isinstance(raw, list):
            raise source.refuse(path, f"expected a list of tables, found {raw!r}")
        return tuple(read(item, entry, source, f"{path}[{i}]") for i, entry in enumerate(raw))
    if get_origin(hint) is dict and isinstance(raw, dict):
        return {
            key: _value(get_args(hint)[1], "", entry, source, _join(path, key)) for key, entry in raw.items()
        }
    try:
        value = _with_unit(name, raw, from_option=(source.option(path) or "").startswith("--"))
    except ScenarioError as error:
        raise source.refuse(path, str(error)) from None
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        raise source.refuse(path, _explain(error, hint, raw)) from None


def _with_unit(name: str, raw: object, *, from_option: bool) -> object:
    for suffix, (parse, unit) in _UNITS.items():
        if name.endswith(suffix):
            return parse(raw, unit if from_option else None)
    return raw


def _explain(error: msgspec.ValidationError, hint: Any, raw: object) -> str:
    choices = list(_choices(hint))
    if get_origin(hint) is Literal:
        return f"unknown value {raw!r}{suggest(str(raw), choices)}"
    if choices:
        return f"expected a whole number above 0 or one of: {', '.join(choices)}, found {raw!r}"
    expected = str(error).partition(", got")[0].replace("`", "")
    return f"{expected[0].lower()}{expected[1:]}, found {raw!r}"


def _choices(hint: Any) -> Iterable[str]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        for part in get_args(hint):
            yield from _choices(part)


def _lay(changes: Mapping[str, Any], raw: dict[str, Any], path: str = "") -> Iterable[str]:
    """Lay tables over `raw`; the path of each value that was set."""
    for key, value in changes.items():
        here = _join(path, key)
        if isinstance(value, dict) and isinstance(raw.get(key), dict):
            yield from _lay(value, raw[key], here)
        else:
            raw[key] = deepcopy(value)  # what is laid over another time must not change meanwhile
            yield here


def _spelled(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in _UNITS if name.endswith(suffix)), name)


def _struct(hint: Any) -> type[msgspec.Struct] | None:
    """The struct that a hint asks for, be it as `Struct | None`."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)), None)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def _line(text: str, path: str) -> int | None:
    """Line of the key, else of the nearest table around it; 1-based, None if neither is spelled plainly."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = header.group(1)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(_join(table, key.group(1)), number)
    path = path.partition("[")[0]
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path)
