"""The database of the harness's own: it starts, dies, comes back, and leaves nothing."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest
from support import free_port, needs_postgres

from harness import postgres as module
from harness.errors import MeasurementError
from harness.postgres import database, find_binaries, postgres


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private directories are made in this test; pytest's own is closed to PostgreSQL's user."""
    monkeypatch.delenv("PG_DSN", raising=False)
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def answer(dsn: str) -> int:
    with psycopg.connect(dsn, connect_timeout=5) as connection:
        ((value,),) = connection.execute("SELECT 40 + 2").fetchall()
    return int(value)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@needs_postgres
def test_it_runs_dies_comes_back_and_leaves_nothing(scratch: Path) -> None:
    port = free_port()
    with postgres(port) as server:
        assert answer(server.dsn) == 42
        with pytest.raises(psycopg.OperationalError, match="password"):
            answer(server.dsn.replace("@", "x@"))
        server.kill()
        assert not listens(port)
        server.start()
        assert answer(server.dsn) == 42
    assert not listens(port)
    assert list(scratch.iterdir()) == []
    scratch.rmdir()


@needs_postgres
def test_a_port_in_use_is_said_with_the_servers_own_words(scratch: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(MeasurementError, match=r"does not start(?s:.*)Address already in use"),
            postgres(port),
        ):
            pass
    assert list(scratch.iterdir()) == []
    scratch.rmdir()


def use(directory: Path) -> AbstractContextManager[module.Database]:
    return database(free_port(), directory / "postgres.log", os.sched_getaffinity(0), 3)


@needs_postgres
def test_one_of_our_own_says_what_it_is_and_logs_where_it_is_told(scratch: Path, tmp_path: Path) -> None:
    with use(tmp_path) as found:
        assert answer(found.dsn) == 42
        assert found.program is not None
        assert re.fullmatch(r"database: PostgreSQL \d+\.\d+ of the harness's own", found.note)
        assert "ready to accept connections" in (tmp_path / "postgres.log").read_text()
        password = found.dsn.split(":")[2].partition("@")[0]
        argv = Path(f"/proc/{found.program.pid}/cmdline").read_bytes()
        assert password.encode() not in argv
    assert list(scratch.iterdir()) == []
    scratch.rmdir()


@needs_postgres
def test_one_that_was_named_is_used_and_left_alone(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres(free_port()) as server:
        monkeypatch.setenv("PG_DSN", server.dsn)
        monkeypatch.setattr(module, "postgres", lambda *_, **__: pytest.fail("started one"))
        with use(tmp_path) as found:
            assert (found.dsn, found.program) == (server.dsn, None)
            assert found.note.endswith("named by PG_DSN")
        assert answer(server.dsn) == 42
    scratch.rmdir()


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("postgresql://u:secret@127.0.0.1:1/x", "no database answers"),
        ("u:secret@127.0.0.1", "names no database: write postgresql://"),
        ("postgresql://u:secret@h:port/x", "PG_DSN"),
    ],
)
def test_one_that_does_not_answer_is_said_in_a_line_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsn: str, said: str
) -> None:
    monkeypatch.setenv("PG_DSN", dsn)
    with pytest.raises(MeasurementError) as raised, use(tmp_path):
        pass
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@needs_postgres
def test_what_a_killed_harness_left_is_removed_and_what_is_in_use_is_not(scratch: Path) -> None:
    left, new = scratch / f"{module.PREFIX}left", scratch / f"{module.PREFIX}new"
    for directory in (left, new):
        (directory / "data").mkdir(parents=True)
    os.utime(left, (0, 0))
    with postgres(free_port()) as server:
        assert not left.exists()
        assert new.exists(), "its owner may be about to claim it"
        (own,) = set(scratch.iterdir()) - {new}
        os.utime(own, (0, 0))
        module._sweep()
        assert answer(server.dsn) == 42
        assert own.exists()
    shutil.rmtree(scratch)


def test_without_any_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PG_DSN", raising=False)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for find in (find_binaries, module.require):
        with pytest.raises(MeasurementError, match="PG_DSN"):
            find()
    monkeypatch.setenv("PG_DSN", "postgresql://db.example/x")
    module.require()


def test_the_newest_one_installed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [Path(f"/usr/lib/postgresql/{version}/bin/postgres") for version in ("9.6", "15", "10")]
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(installed))
    assert find_binaries() == Path("/usr/lib/postgresql/15/bin")


@needs_postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_root_runs_it_as_somebody_else(scratch: Path) -> None:
    with postgres(free_port()) as server:
        assert server.program is not None
        assert Path(f"/proc/{server.program.pid}").stat().st_uid != 0
    shutil.rmtree(scratch)
