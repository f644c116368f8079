"""The gate against this machine's real noise: unchanged code must not fail, a tenth more cost must be found.

Four kinds of run, interleaved in random order: twice the code as it is, once with a tenth more CPU a request, once
with a tenth more bytes a request in flight. A comparison is PAIRS of the ROUNDS, drawn at random, and in each of
them which of the two unchanged runs stands on which side. So the comparisons of one kind share runs: "20 of 20"
says less than 20 experiments would.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from harness import gate as judged
from harness import gating, preflight, scenario, targets
from harness.floor import noise_floor
from harness.perf.figure import Figure, at_most, once
from harness.run import Run

MODEL = "asyncio"
SCENARIO = "gate"
ROUNDS = 12
PAIRS = 10
UNCHANGED, WORSE = 20, 10  # comparisons
UNCHANGED_KINDS = ("base", "same")
MORE = 0.10
COMPARISON_S = 300.0

Values = Mapping[str, Sequence[float | None]]


def gate() -> Iterator[Figure]:
    """Comparisons that failed, of unchanged code and of worse code, and how long one takes."""
    kinds = _kinds(once(MODEL, {}, SCENARIO))
    runs: dict[str, list[Run]] = {kind: [] for kind in kinds}
    chance, started = Random(1), time.monotonic()
    for _ in range(ROUNDS):
        for kind in chance.sample(list(kinds), len(kinds)):
            runs[kind].append(once(MODEL, kinds[kind], SCENARIO))
    run_s = (time.monotonic() - started) / (ROUNDS * len(kinds))
    target = targets.get_target(MODEL, targets.load_targets())
    limits = gating.limits_of(scenario.load(SCENARIO), target, preflight.Host.here())
    values = {kind: judged.measure(made, limits, gating.RATE_RPS) for kind, made in runs.items()}

    def words(head: str, count: int) -> list[str]:
        return [_compare(values, head, chance) for _ in range(count)]

    same = words("same", UNCHANGED)
    yield at_most(
        "gate, unchanged", f"regressed, of {UNCHANGED}", same.count("regressed"), "", 0, _note(same)
    )
    for head in ("cpu", "memory"):
        found = words(head, WORSE)
        yield Figure(
            f"gate, {MORE:.0%} more {head}",
            f"regressed, of {WORSE}",
            found.count("regressed"),
            "",
            f"≥ {0.9 * WORSE:g}",
            found.count("regressed") >= 0.9 * WORSE,
            f"{_setting(kinds[head])}; {_note(found)}",
        )
    yield at_most("gate", f"one comparison, {PAIRS} pairs", 2 * PAIRS * run_s, "s", COMPARISON_S)


def _kinds(pilot: Run) -> dict[str, dict[str, str]]:
    """What each kind of run changes; the added costs are shares of what the pilot measured."""
    cpu_s, held_bytes = pilot.resources.cpu_s_per_request, pilot.resources.bytes_per_request_in_flight
    assert cpu_s is not None
    assert held_bytes is not None
    return {
        "base": {},
        "same": {},
        "cpu": {"pod.cpu_us": str(round(MORE * cpu_s * 1e6))},
        "memory": {"pod.ballast_bytes": str(round(MORE * held_bytes))},
    }


def _compare(values: Mapping[str, Values], head: str, chance: Random) -> str:
    """The verdict over PAIRS rounds drawn at random, which stay in the order of time."""
    before: dict[str, list[float | None]] = {name: [] for name in judged.METRICS}
    after: dict[str, list[float | None]] = {name: [] for name in judged.METRICS}
    for i in sorted(chance.sample(range(ROUNDS), PAIRS)):
        base, other = chance.sample(UNCHANGED_KINDS, 2)
        for side, kind in ((before, base), (after, other if head in UNCHANGED_KINDS else head)):
            for name, column in side.items():
                column.append(values[kind][name][i])
    return judged.judge(before, after, noise_floor(before, after, paired=True), paired=True).verdict


def _note(verdicts: Sequence[str]) -> str:
    return ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))


def _setting(changes: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in changes.items())
