"""Which runs belong together, and what they are called.

Runs are of one condition if they agree in everything but the rate offered and chance: scenario, target and its
options, processes, delays, arrivals, CPUs, route, machine. Only such runs are repeats of each other. A
condition is named by its target and the options that differ from the target's defaults; what else sets it apart
is named where it varies within a scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from harness import targets
from harness.run import Run
from harness.scenario import Delay

Value = str | int
Options = tuple[tuple[str, Value], ...]
Registry = Mapping[str, targets.Target]

ARMS = {
    "controlled": "Controlled arm: the same HTTP stack and handlers, only the execution model differs",
    "deployed": "Deployed arm: each stack as its users run it",
    "own": "Own targets",
}


def _shape(delay: Delay) -> str:
    return f"lognormal σ={delay.sigma:g}" if delay.kind == "lognormal" else delay.kind


# What sets conditions apart besides the target and its options: how it is named, and its text. Which part of W
# is the vector's does not matter to a pod.
FACTS: Mapping[str, Callable[[Run], str]] = {
    "W": lambda run: f"{run.scenario.w_s:g} s",
    "delays": lambda run: " + ".join(map(_shape, (run.scenario.upstream.vector, run.scenario.upstream.llm))),
    "arrivals": lambda run: run.scenario.load.arrivals,
    "route": lambda run: run.scenario.load.route,
    "clients": lambda run: str(run.scenario.load.clients or "open model"),
    "cpus": lambda run: str(run.scenario.pod.cpus or "all"),
    "machine": lambda run: f"{run.machine.class_name}, {run.machine.python}",
}


@dataclass(frozen=True)
class Condition:
    """What one set of repeats has in common; `changed` are the options that differ from the defaults."""

    scenario: str
    arm: str
    rank: int  # of the target in the registry, which is the order of a table's rows
    target: str
    model: str
    options: Options
    changed: Options
    workers: int
    pool: int | None  # requests that all workers' pools hold at once
    w_s: float
    facts: tuple[tuple[str, str], ...]

    def label(self, varying: Iterable[str] = ()) -> str:
        """Its name where the facts `varying` set conditions apart; one printable line."""
        words = [self.target, *(f"{name}={value}" for name, value in self.changed)]
        if self.workers > 1:
            words.append(f"workers={self.workers}")
        words += [f"{name}={text}" for name, text in self.facts if name in set(varying)]
        return printable(" ".join(words))


def order(condition: Condition) -> tuple[object, ...]:
    """Sorts rows: arms, targets as in the registry, plain before changed, numbers by size."""
    changed = tuple((name, isinstance(value, str), value) for name, value in condition.changed)
    arm = list(ARMS).index(condition.arm)
    setting = (condition.workers, condition.w_s, condition.facts)
    return arm, condition.rank, condition.target, len(changed), changed, *setting


def condition_of(run: Run, registry: Registry) -> Condition:
    """The condition that `run` is a repeat of; a target outside the registry has no defaults."""
    target = registry.get(run.target.name)
    options = tuple(sorted(run.target.options.items()))
    defaults = {} if target is None else targets.resolve(target, {})
    return Condition(
        scenario=run.scenario.name,
        arm="own" if target is None else target.arm,
        rank=len(registry) if target is None else list(registry).index(target.name),
        target=run.target.name,
        model=run.model,
        options=options,
        changed=tuple((name, value) for name, value in options if defaults.get(name) != value),
        workers=run.target.workers,
        pool=_pool(target, run),
        w_s=run.scenario.w_s,
        facts=tuple((name, text(run)) for name, text in FACTS.items()),
    )


def _pool(target: targets.Target | None, run: Run) -> int | None:
    if target is None or target.pool not in run.target.options:
        return None
    return targets.concurrency_limit(target, run.target.options, run.target.workers)


def varying(conditions: Iterable[Condition]) -> tuple[str, ...]:
    """Names of the facts in which these conditions differ."""
    texts: dict[str, set[str]] = {}
    for condition in conditions:
        for name, text in condition.facts:
            texts.setdefault(name, set()).add(text)
    return tuple(name for name, found in texts.items() if len(found) > 1)


def printable(text: str) -> str:
    """One line without control or invisible characters, which no table, figure or terminal should meet."""
    return "".join(character if character.isprintable() else "�" for character in text)
