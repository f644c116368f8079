"""`GET /db` against a real PostgreSQL: too much of it, and a database that goes away and comes back."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import psycopg
import pytest
from support import MODELS, Server, Start, free_port, needs_postgres, parse, wait_until

from harness import gauges
from harness.postgres import Postgres, postgres

pytestmark = needs_postgres

OK = (200, b'{"rows":1}')


@pytest.fixture(params=[name for name in MODELS if name != "asyncio-uvloop"])
def model(request: pytest.FixtureRequest) -> str:
    """Without uvloop, which changes nothing here."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def cluster() -> Iterator[Postgres]:
    with postgres(free_port()) as server:
        yield server


Serve = Callable[..., Server]


@pytest.fixture
def serve(start: Start, cluster: Postgres) -> Serve:
    """`serve(*options)`: the model under test, with the database."""
    return lambda *options: start("--threads", "16", *options, env={"PG_DSN": cluster.dsn})


def connections(cluster: Postgres) -> int:
    """How many there are, besides the one that asks."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        ((count,),) = connection.execute(query).fetchall()
    return int(count) - 1


def family(cluster: Postgres) -> list[psutil.Process]:
    assert cluster.program is not None
    postmaster = psutil.Process(cluster.program.pid)
    return [postmaster, *postmaster.children(recursive=True)]


def resume(cluster: Postgres) -> None:
    for process in family(cluster):
        process.resume()


@contextmanager
def stopped(cluster: Postgres) -> Iterator[None]:
    """Every process of it gets SIGSTOP: connections stay open, and nobody answers."""
    for process in family(cluster):
        process.suspend()
    try:
        yield
    finally:
        resume(cluster)


def statuses(server: Server, count: int) -> Counter[int]:
    return Counter(parse(response)[0] for response in server.get_together("/db", count))


def values(server: Server) -> dict[str, float]:
    return gauges.read(server.metrics)


def is_at_rest(server: Server) -> bool:
    figures = values(server)
    names = ("db_client_connection_used", "db_client_connection_pending_requests", "pod_permits_in_use")
    return not any(figures[name] for name in names)


def test_a_connection_is_held_by_one_at_a_time(serve: Serve, cluster: Postgres) -> None:
    server = serve("--connections", "4", "--pins")
    assert server.get("/db") == OK
    assert statuses(server, 12) == {200: 12}
    assert connections(cluster) <= 4
    pins = values(server).get('server_pins_total{handler="/db"}', 0)
    assert pins <= 2, "the driver waits as the model does; one that blocked would pin each time"
    wait_until(lambda: is_at_rest(server))


def test_whoever_waits_too_long_for_the_pool_gets_503(serve: Serve) -> None:
    server = serve("--connections", "1", "--connection-wait-ms", "250")
    assert server.get("/db") == OK
    found = statuses(server, 8)
    assert found[200] >= 1
    assert found[503] >= 4
    assert found.total() == found[200] + found[503] == 8
    assert server.get("/db") == OK, "nobody who gave up has taken a connection along"
    wait_until(lambda: is_at_rest(server))


def test_the_semaphore_refuses_with_429_and_nobody_waits_for_the_pool(serve: Serve) -> None:
    server = serve("--connections", "2", "--permits", "2", "--permit-wait-ms", "20")
    assert statuses(server, 2) == {200: 2}  # connected by now
    responses = server.get_together("/db", 8)
    found = Counter(parse(response)[0] for response in responses)
    assert found == {200: 2, 429: 6}
    refused = [response for response in responses if parse(response)[0] == 429]
    assert all(b"\r\nretry-after: 1\r\n" in response for response in refused)
    assert values(server)["pod_permits"] == 2
    wait_until(lambda: is_at_rest(server))
    assert statuses(server, 2) == {200: 2}, "every permit is back"


def test_killed_in_the_middle_it_is_503_and_then_it_recovers(serve: Serve, cluster: Postgres) -> None:
    server = serve("--connections", "4", "--connection-wait-ms", "300")
    assert statuses(server, 4) == {200: 4}
    try:
        with server.connect() as sock:
            sock.sendall(b"GET /db HTTP/1.1\r\nhost: test\r\n\r\n")
            wait_until(lambda: values(server)["db_client_connection_used"] == 1)
            cluster.kill()
            assert sock.recv(4096).startswith(b"HTTP/1.1 503")
        for _ in range(2):
            assert statuses(server, 6) == {503: 6}
        assert server.get("/health")[0] == 200
    finally:
        cluster.start()
    wait_until(lambda: server.get("/db")[0] == 200)
    wait_until(lambda: statuses(server, 4) == {200: 4})
    assert connections(cluster) <= 4
    wait_until(lambda: is_at_rest(server))
    assert server.log.read_text().count("database lost") == 1


@contextmanager
def load(server: Server, clients: int) -> Iterator[list[int]]:
    """Clients that ask again and again; the statuses that they got so far."""
    seen: list[int] = []
    stopping = threading.Event()

    def ask() -> None:
        while not stopping.is_set():
            seen.append(server.get("/db")[0])

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stopping.set()
        for thread in threads:
            thread.join(30)


@pytest.mark.parametrize(
    "guard", [(), ("--permits", "3", "--permit-wait-ms", "100")], ids=["pool", "semaphore"]
)
def test_killed_under_load_it_is_found_again_and_nothing_is_lost(
    serve: Serve, cluster: Postgres, guard: tuple[str, ...]
) -> None:
    server = serve("--connections", "3", "--connection-wait-ms", "300", "--db-hold-ms", "10", *guard)
    with load(server, 8) as seen:
        wait_until(lambda: 200 in seen)
        try:
            cluster.kill()
            mark = len(seen)
            wait_until(lambda: 503 in seen[mark + 8 :])
        finally:
            cluster.start()
        mark = len(seen)
        wait_until(lambda: seen[mark:].count(200) > 20)
    assert set(seen) <= {200, 429, 503}
    assert (429 in seen) <= bool(guard)
    wait_until(lambda: is_at_rest(server))
    assert connections(cluster) <= 3
    wait_until(lambda: statuses(server, 3) == {200: 3})  # every connection and permit is back


def test_one_that_stands_still_holds_up_only_who_waits_for_it(serve: Serve, cluster: Postgres) -> None:
    server = serve("--connections", "2", "--connection-wait-ms", "300")
    assert statuses(server, 2) == {200: 2}
    with stopped(cluster), load(server, 6) as seen:
        wait_until(lambda: seen.count(503) >= 4)
        assert server.get("/health")[0] == 200
        assert 200 not in seen
        resume(cluster)
        wait_until(lambda: 200 in seen)
    wait_until(lambda: is_at_rest(server))
    assert statuses(server, 2) == {200: 2}


def test_a_database_that_is_not_there_yet(start: Start) -> None:
    dsn = f"postgresql://nobody:none@127.0.0.1:{free_port()}/none"
    server = start("--threads", "4", "--connections", "2", "--connection-wait-ms", "200", env={"PG_DSN": dsn})
    assert server.get("/db")[0] == 503
    assert server.get("/health")[0] == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=10) == 0


def test_sigterm_leaves_no_connection(serve: Serve, cluster: Postgres) -> None:
    server = serve("--connections", "3")
    assert statuses(server, 3) == {200: 3}
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=10) == 0
    wait_until(lambda: connections(cluster) == 0)
    assert server.log.read_text() == ""
