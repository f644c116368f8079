"""What a pin monitor leaves in a directory, read back: by handler, with stacks that name no machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness import pins
from harness.spelling import ROOT

# As a server does: the metrics directory is known before prometheus_client is imported.
COUNT = """
import os, sys
os.environ["PROMETHEUS_MULTIPROC_DIR"] = sys.argv[1]
from servers.metrics import Metrics
metrics = Metrics(sys.argv[1])
for number in range(3):
    metrics.count_pin("/hold/sync-striped", 0.25, ("a.py:1 f", f"b.py:{number} g"))
metrics.count_pin("/hold/sync-striped", 0.25, ("a.py:1 f", "b.py:0 g"))
metrics.count_pin('say "when"', 0.5, ())
"""


def counted(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", COUNT, str(directory)], cwd=ROOT, check=True)


def test_pins_are_read_by_handler_over_all_processes(tmp_path: Path) -> None:
    counted(tmp_path)
    counted(tmp_path)
    found = pins.read(tmp_path)
    assert [(name, each.count, each.seconds) for name, each in found.items()] == [
        ("/hold/sync-striped", 8, 2.0),
        ('say "when"', 2, 1.0),
    ]
    assert found["/hold/sync-striped"].stacks == tuple(
        ("a.py:1 f", f"b.py:{number} g") for number in range(3)
    )
    assert found['say "when"'].stacks == ()


def test_a_half_written_line_is_left_out(tmp_path: Path) -> None:
    counted(tmp_path)
    (tmp_path / "pins_1.jsonl").write_text('{"handler": "/hold/sync-striped", "sta')
    assert len(pins.read(tmp_path)["/hold/sync-striped"].stacks) == 3


def test_at_most_a_few_stacks_are_kept(tmp_path: Path) -> None:
    counted(tmp_path)
    lines = (json.dumps({"handler": "/hold/sync-striped", "stack": [f"{n}"]}) for n in range(50))
    (tmp_path / "pins_0.jsonl").write_text("\n".join(lines) + "\n")
    assert [stack[0] for stack in pins.read(tmp_path)["/hold/sync-striped"].stacks] == ["0", "1", "2"]


def test_nothing_counted_is_nothing(tmp_path: Path) -> None:
    assert pins.read(tmp_path) == {}
    assert pins.read(tmp_path / "absent") == {}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{ROOT}/servers/hold.py:58 hold", "servers/hold.py:58 hold"),
        (
            f"{ROOT}/.venv/lib/python3.11/site-packages/trio/_core/_run.py:9 f",
            "site-packages/trio/_core/_run.py:9 f",
        ),
        (
            "/usr/lib/python3.11/asyncio/events.py:80 Handle._run",
            "python3.11/asyncio/events.py:80 Handle._run",
        ),
        ("/srv/mine/app.py:3 main", "/srv/mine/app.py:3 main"),
        ("<string>:1 <module>", "<string>:1 <module>"),
    ],
)
def test_a_place_is_named_from_the_repository_or_library_on(text: str, place: str) -> None:
    assert pins.place(text) == place
