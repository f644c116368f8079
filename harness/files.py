"""Files of records: whole or not there at all, and read as what they are or refused with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.errors import HarnessError

T = TypeVar("T")


@dataclass(frozen=True)
class Refusal:
    """How a file that cannot be used is refused: in which family of errors, in which words.

    The words follow the file's name and end in what to do; `absent` and `foreign` may show {why}.
    """

    error: type[HarnessError]
    absent: str
    foreign: str
    other_version: str = ""


class _Version(msgspec.Struct):
    schema_version: int


def encode(record: Any) -> bytes:
    """A record as JSON that people and git read: indented, and ended by a newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def read(file: Path, kind: type[T], refusal: Refusal, version: int | None = None) -> T:
    """The record of `kind` in `file`, whose schema_version must be `version` where one is given.

    Raises the refusal's error for a file that is absent, of another version, or not such a record.
    """
    try:
        text = file.read_bytes()
        if version is not None:
            found = msgspec.json.decode(text, type=_Version).schema_version
            if found != version:
                raise refusal.error(
                    f"{file}: schema version {found}, this harness reads {version}; {refusal.other_version}"
                )
        return msgspec.json.decode(text, type=kind)
    except OSError as error:
        raise refusal.error(f"{file}: {_because(refusal.absent, error.strerror)}") from None
    except msgspec.MsgspecError as error:
        raise refusal.error(f"{file}: {_because(refusal.foreign, error)}") from None


def write(file: Path, data: bytes) -> None:
    """Put `data` in the place of what `file` held, in one step; raises OSError, and then it still holds that."""
    partial = file.with_name(f".{file.name}.partial")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.write_bytes(data)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def _because(words: str, why: object) -> str:
    return words.replace("{why}", str(why))  # not format: words may hold a name with braces
