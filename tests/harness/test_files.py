"""Files of records: replaced whole or left alone, read as what they are or refused with what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import files
from harness.errors import MeasurementError, ScenarioError


class Shelf(msgspec.Struct):
    schema_version: Literal[2]
    books: dict[str, int]


REFUSAL = files.Refusal(
    ScenarioError,
    absent="no shelf ({why}); build one",
    foreign="not a shelf: {why}; build it anew",
    other_version="carry it over",
)


def test_a_record_is_read_back_as_it_was(tmp_path: Path) -> None:
    file, shelf = tmp_path / "deep" / "shelf.json", Shelf(schema_version=2, books={"Little": 1961})
    files.write(file, files.encode(shelf))
    assert files.read(file, Shelf, REFUSAL, 2) == shelf
    assert file.read_text().endswith("1961\n  }\n}\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no shelf (No such file or directory); build one"),
        (b"", "not a shelf: Input data was truncated; build it anew"),
        (b'{"books": {}}', "not a shelf: Object missing required field `schema_version`; build it anew"),
        (b'{"schema_version": 3, "books": []}', "schema version 3, this harness reads 2; carry it over"),
        (b'{"schema_version": 2, "books": []}', "not a shelf: Expected `object`, got `array` - at `$.books`"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_to_do(tmp_path: Path, text: bytes | None, said: str) -> None:
    file = tmp_path / "shelf.json"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(ScenarioError) as refused:
        files.read(file, Shelf, REFUSAL, 2)
    assert str(refused.value).startswith(f"{file}: {said}")


@given(st.text(min_size=1))
def test_words_may_hold_any_name(name: str) -> None:
    refusal = files.Refusal(MeasurementError, absent=f"nothing of {name}", foreign="")
    with pytest.raises(MeasurementError) as refused:
        files.read(Path("nowhere/at/all"), Shelf, refusal)
    assert name in str(refused.value) or "{why}" in name


def test_a_version_is_asked_for_only_where_there_is_one(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    files.write(file, files.encode({"a": 1}))
    assert files.read(file, dict[str, int], REFUSAL) == {"a": 1}


def test_writing_replaces_the_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "perf.md"
    files.write(file, b"one and more")
    files.write(file, b"two")
    assert file.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [file]


def test_what_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "perf.md"
    files.write(file, b"one")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        files.write(file, b"two")
    assert file.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [file]
