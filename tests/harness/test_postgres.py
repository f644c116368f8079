"""The database of the harness's own: it starts, dies, comes back, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

import psycopg
import pytest
from support import free_port

from harness import postgres as module
from harness.errors import MeasurementError
from harness.postgres import database, find_binaries, postgres


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private directories are made in this test; pytest's own is closed to PostgreSQL's user."""
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


def test_one_that_was_named_is_used_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_DSN", "postgresql://db.example/x")
    monkeypatch.setattr(module, "postgres", lambda port: pytest.fail("started one"))
    with database(free_port()) as dsn:
        assert dsn == "postgresql://db.example/x"


def test_without_any_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MeasurementError, match="PG_DSN"):
        find_binaries()


def test_the_newest_one_installed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [Path(f"/usr/lib/postgresql/{version}/bin/postgres") for version in ("9.6", "15", "10")]
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(installed))
    assert find_binaries() == Path("/usr/lib/postgresql/15/bin")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_root_runs_it_as_somebody_else(scratch: Path) -> None:
    with postgres(free_port()) as server:
        assert server._program is not None
        assert Path(f"/proc/{server._program.pid}").stat().st_uid != 0
    shutil.rmtree(scratch)
