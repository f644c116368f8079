"""Locust as a library: which runner, which processes, and how they end.

`import locust` monkey-patches this process. Master and page are bound to 127.0.0.1: neither asks who is
calling.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import gevent
from locust.env import Environment
from locust.exception import RPCError
from locust.stats import stats_history

from harness.generator.conductor import Abort, Conductor, emit
from harness.generator.crew import Crew, end_with_conductor, free_port
from harness.generator.plan import Plan
from harness.generator.worker import Worker, scheduler_user

LOOPBACK = "127.0.0.1"

# A request's greenlet needs no memory of who spawned it, which gevent would keep as long as it lives.
gevent.config.track_greenlet_tree = False


def conduct(plan: Plan, plan_file: Path) -> int:
    """Runs a plan; the exit status."""
    try:
        return _alone(plan) if plan.processes == 1 else _with_crew(plan, plan_file)
    except Abort as abort:
        emit("error", reason=abort.reason, detail=abort.detail)
    except (OSError, RPCError) as error:
        emit("error", reason="system", detail=str(error))
    return 1


def join(plan: Plan, port: int) -> int:
    """Is one worker of the crew of the conductor on that loopback port; the exit status."""
    end_with_conductor()
    worker = Worker(plan)
    environment = _environment(worker.run)
    runner = environment.create_worker_runner(LOOPBACK, port)
    worker.attach(runner)
    runner.greenlet.join()
    return 0


def _alone(plan: Plan) -> int:
    worker = Worker(plan)
    environment = _environment(worker.run)
    runner = environment.create_local_runner()
    worker.attach(runner)
    _conduct(Conductor(plan, runner, None), environment, plan)
    runner.quit()
    return 0


def _with_crew(plan: Plan, plan_file: Path) -> int:
    environment = _environment(lambda: None)
    port = free_port()
    runner = environment.create_master_runner(LOOPBACK, port)
    crew = Crew(plan_file, port, plan.processes)
    try:
        _conduct(Conductor(plan, runner, crew), environment, plan)
        runner.quit()  # every report is in: the half second that it grants the workers is no loss
        crew.dismiss()
    finally:
        crew.dismiss(wait_s=0.0)
        runner.greenlet.kill()  # before its socket goes, which they would try to mend
        runner.server.close(linger=0)
    return 0


def _conduct(conductor: Conductor, environment: Environment, plan: Plan) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, conductor.halt)
    if plan.web_port:
        _serve_page(environment, plan.web_port)
    conductor.conduct()


def _serve_page(environment: Environment, port: int) -> None:
    page = environment.create_web_ui(LOOPBACK, port)
    environment.events.init.fire(environment=environment, runner=environment.runner, web_ui=page)
    gevent.spawn(stats_history, environment.runner)


def _environment(run: Callable[[], None]) -> Environment:
    return Environment(user_classes=[scheduler_user(run)])
