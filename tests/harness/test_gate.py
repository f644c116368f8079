"""The gate against scipy and by hand, against simulated changes, and on files that it must refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from synthetic import MACHINE, W_S, make_run

from harness import baseline, errors, gate, gate_report
from harness.capacity import PodLimits
from harness.errors import MeasurementError, ScenarioError
from harness.floor import noise_floor
from harness.gate import METRICS, GateVerdict, MetricVerdict, holm, judge, measure
from harness.run import Run
from harness.statistics import compare_independent, compare_paired

stats: Any = scipy.stats
LIMITS = PodLimits(cpus=1, memory_bytes=2**31, descriptors=19_600)
CPU, BYTES, P99 = "cpu_s_per_request", "bytes_per_request_in_flight", "p99_of_w"


class Bench:
    """A noisy machine: figures of a run vary by as much as those of a compressed run on two shared cores do."""

    def __init__(self, seed: int, noise: float = 0.025) -> None:
        self._rng = np.random.default_rng(seed)
        self._noise = noise
        self._drift = 0.0

    def run(self, cpu: float = 1.0, memory: float = 1.0, overhead_s: float = 0.0) -> Run:
        # The machine also drifts, as a neighbour comes and goes: what pairs are for.
        self._drift = 0.9 * self._drift + self._rng.normal(0, self._noise / 3)
        return make_run(
            cpu_s=0.0006 * cpu * math.exp(self._drift + self._rng.normal(0, self._noise)),
            each_bytes=6_400 * memory * math.exp(self._rng.normal(0, self._noise)),
            overhead_s=0.008 * math.exp(self._rng.normal(0, 0.3)) + overhead_s,
        )

    def floor(self, paired: bool = True) -> dict[str, float]:
        return noise_floor(measured([self.run() for _ in range(20)]), paired=paired)

    def pairs(self, n: int, **change: float) -> tuple[list[Run], list[Run]]:
        both = [(self.run(), self.run(**change)) for _ in range(n)]
        return [base for base, _ in both], [head for _, head in both]


def measured(runs: Sequence[Run]) -> dict[str, tuple[float | None, ...]]:
    return measure(runs, LIMITS, rate_rps=500.0)


def compared(seed: int, *, n: int = 10, noise: float = 0.025, **change: Any) -> GateVerdict:
    bench = Bench(seed, noise)
    floor = bench.floor()
    base, head = bench.pairs(n, **change)
    return judge(measured(base), measured(head), floor, paired=True)


def words(verdict: GateVerdict) -> dict[str, str]:
    return {metric.name: metric.verdict for metric in verdict.metrics}


# What it decides on simulated machines


def test_unchanged_code_does_not_regress_and_mostly_passes() -> None:
    verdicts = [compared(seed).verdict for seed in range(20)]
    assert "regressed" not in verdicts
    assert verdicts.count("pass") >= 16


@pytest.mark.parametrize("noise", [0.02, 0.03])
@pytest.mark.parametrize(
    ("change", "metric"), [({"cpu": 1.1}, CPU), ({"memory": 1.1}, BYTES), ({"overhead_s": 0.02}, P99)]
)
def test_an_injected_regression_is_found(change: dict[str, Any], metric: str, noise: float) -> None:
    """10 % more CPU a request, 10 % more memory, 20 ms on the p99 of a 2 s request: 9 of 10."""
    found = [compared(100 + seed, noise=noise, **change) for seed in range(10)]
    assert sum(words(verdict)[metric] == "regressed" for verdict in found) >= 9
    assert all(verdict.exit_code == 7 for verdict in found if words(verdict)[metric] == "regressed")


def test_more_cpu_means_more_pods() -> None:
    verdicts = [words(compared(100 + seed, cpu=1.15)) for seed in range(10)]
    assert sum(found["pods"] == found["rate_max_rps"] == "regressed" for found in verdicts) >= 9
    assert all(found[BYTES] != "regressed" for found in verdicts)


def test_an_improvement_passes() -> None:
    verdict = compared(1, cpu=0.8, memory=0.8)
    assert verdict.verdict == "pass"
    assert all((metric.change or 0) < 0 for metric in verdict.metrics if metric.name in (CPU, BYTES, "pods"))


def test_a_change_below_the_least_effect_is_no_regression() -> None:
    """2 % more CPU, on a machine so quiet that every test finds it."""
    bench = Bench(1, noise=0.001)
    floor = bench.floor()
    base, head = bench.pairs(10, cpu=1.02)
    (cpu,) = (m for m in judge(measured(base), measured(head), floor, paired=True).metrics if m.name == CPU)
    assert (cpu.verdict, cpu.effect) == ("pass", 0.05)
    assert cpu.p_value is not None
    assert cpu.p_value <= gate.ALPHA


def test_too_few_runs_are_inconclusive_however_bad() -> None:
    for n in (1, 3, 6):
        verdict = compared(1, n=n, cpu=2.0)
        assert verdict.verdict == "inconclusive"
        assert "too few runs" in verdict.line
    assert compared(1, n=7, cpu=2.0).verdict == "regressed"


def test_a_noisy_machine_is_inconclusive_not_well() -> None:
    """A floor from quieter days: the noise now spans the least effect."""
    floor = Bench(1, noise=0.01).floor()
    base, head = Bench(2, noise=0.2).pairs(10)
    verdict = judge(measured(base), measured(head), floor, paired=True)
    assert words(verdict)[CPU] == "inconclusive"
    assert "within the noise" in verdict.line


def test_a_noisy_floor_raises_the_limit() -> None:
    loud, quiet = Bench(3, noise=0.1).floor()[CPU], Bench(3, noise=0.01).floor()[CPU]
    assert loud > 5 * quiet
    base, head = Bench(4, noise=0.01).pairs(10, cpu=1.08)
    for floor, verdict in ((quiet, "regressed"), (loud, "pass")):
        floors = dict.fromkeys(METRICS, floor)
        assert words(judge(measured(base), measured(head), floors, paired=True))[CPU] == verdict


def test_a_stored_baseline_needs_no_pairs() -> None:
    bench = Bench(5, noise=0.02)
    base, floor = measured([bench.run() for _ in range(20)]), bench.floor(paired=False)
    same, worse = ([bench.run(cpu=cpu) for _ in range(10)] for cpu in (1.0, 1.15))
    assert judge(base, measured(same), floor, paired=False).verdict == "pass"
    assert words(judge(base, measured(worse), floor, paired=False))[CPU] == "regressed"


def test_figures_that_never_vary_pass() -> None:
    """A pool binds: λ max is 200 / W in each run, and every rank is a tie."""
    runs = [make_run() for _ in range(10)]
    values = measure(runs, PodLimits(pool=20), 500.0)
    for paired in (True, False):
        verdict = judge(values, values, noise_floor(values, paired=paired), paired=paired)
        assert verdict.verdict == "pass", verdict.line


# Known answers


def test_p_values_are_scipys_after_holm() -> None:
    bench = Bench(6)
    base, head = (measured(runs) for runs in bench.pairs(10, cpu=1.04))
    for paired in (True, False):
        raw = {}
        for name, metric in METRICS.items():
            a, b = (np.array(values[name], dtype=float) for values in (base, head))
            sign = 1 if metric.worse == "higher" else -1
            raw[name] = (
                stats.wilcoxon(sign * (np.log(b) - np.log(a)), alternative="greater").pvalue
                if paired
                else stats.mannwhitneyu(sign * b, sign * a, alternative="greater", method="exact").pvalue
            )
        ordered = sorted(raw, key=lambda name: raw[name])
        verdict = judge(base, head, dict.fromkeys(METRICS, 0.01), paired=paired)
        seen = {metric.name: metric.p_value for metric in verdict.metrics}
        for rank, name in enumerate(ordered):
            expected = max(min(1.0, (len(raw) - k) * raw[ordered[k]]) for k in range(rank + 1))
            assert seen[name] == pytest.approx(expected, rel=1e-6)


def test_holm_by_hand() -> None:
    """Holm's own order: the least by 4, then by 3, ...; none falls below the one before."""
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({}) == {}
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1.0, "b": 1.0}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_and_keeps_the_order(p_values: list[float]) -> None:
    raw = {str(i): p for i, p in enumerate(p_values)}
    adjusted = holm(raw)
    assert all(raw[name] <= adjusted[name] <= 1 for name in raw)
    by_raw = sorted(raw, key=lambda name: (raw[name], adjusted[name]))
    assert [adjusted[name] for name in by_raw] == sorted(adjusted.values())


@pytest.mark.parametrize("paired", [True, False])
def test_the_floor_is_what_two_sets_of_runs_differ_by(paired: bool) -> None:
    """Against the truth: sets of ten fresh runs each, many times. Twenty runs know it to a quarter or so."""
    rng = np.random.default_rng(1)
    compare = compare_paired if paired else compare_independent
    sets = np.exp(rng.normal(0, 0.03, (300, 2, 10)))
    apart = [abs(math.log(compare(base, head).ratio)) for base, head in sets]
    truth = math.expm1(float(np.quantile(apart, 0.95)))
    floors = [
        noise_floor({CPU: tuple(np.exp(rng.normal(0, 0.03, 20)))}, paired=paired)[CPU] for _ in range(100)
    ]
    assert float(np.mean(floors)) == pytest.approx(truth, rel=0.2)
    assert float(np.std(floors)) < 0.4 * truth


def test_a_paired_floor_does_not_see_drift() -> None:
    """A machine that slows down by 40 % over twenty runs: neighbours differ by little."""
    values = {CPU: tuple(np.exp(np.linspace(0, 0.34, 20)))}
    assert noise_floor(values, paired=True)[CPU] < 0.02
    assert noise_floor(values, paired=False)[CPU] > 0.08


def test_a_floor_of_both_sides_does_not_see_what_lies_between_them() -> None:
    """Head takes half as much again; within either side there is noise of 2 %, and the floor is of that."""
    rng = np.random.default_rng(5)
    base, head = (tuple(cost * np.exp(rng.normal(0, 0.02, 10))) for cost in (1.0, 1.5))
    assert noise_floor({CPU: base}, {CPU: head}, paired=True)[CPU] < 0.05
    as_one = {CPU: tuple(cost for pair in zip(base, head, strict=True) for cost in pair)}
    assert noise_floor(as_one, paired=True)[CPU] > 0.1


def test_the_floor_is_seeded_and_needs_runs() -> None:
    values = {CPU: tuple(np.linspace(1, 1.1, 8)), BYTES: (1.0,) * 7 + (None,)}
    for paired in (True, False):
        assert noise_floor(values, paired=paired, seed=2) == noise_floor(values, paired=paired, seed=2)
        assert noise_floor(values, paired=paired).keys() == {CPU}
        assert noise_floor({CPU: (3.0,) * 10}, paired=paired) == {CPU: 0.0}


# What is measured


def test_metrics_of_a_run_by_hand() -> None:
    (rate_max,), (pods,), (p99,), (each,), (cpu,) = measured([make_run(overhead_s=0.01)]).values()
    assert rate_max == pytest.approx((1 - 0.0006 * math.log(100) / (0.01 * W_S)) / 0.0006)
    assert pods == pytest.approx(500 / (rate_max or 1))
    assert p99 == pytest.approx(1 + 0.01 / W_S)
    assert (each, cpu) == (6_400, 0.0006)


def test_an_overhead_near_zero_or_below_compares() -> None:
    """On the scale of W, −1 ms and +1 ms are 0.1 % apart, and not minus infinity."""
    base, head = ([make_run(overhead_s=overhead) for _ in range(10)] for overhead in (-0.001, 0.001))
    verdict = judge(measured(base), measured(head), dict.fromkeys(METRICS, 0.0), paired=True)
    (p99,) = (metric for metric in verdict.metrics if metric.name == P99)
    assert p99.change == pytest.approx(0.002 / W_S, rel=0.01)
    assert p99.verdict == "pass"


def test_runs_that_do_not_count_leave_gaps() -> None:
    runs = [
        make_run(),
        make_run(failed_checks=("drift",)),
        make_run(regime="saturated"),
        make_run(cpu_s=None),
    ]
    values = measured(runs)
    assert [value is None for value in values[BYTES]] == [False, True, True, False]
    assert [value is None for value in values[CPU]] == [False, True, True, True]
    # Without the cost of CPU its bound is missing, and λ max would be too high.
    assert [value is None for value in values["rate_max_rps"]] == [False, True, True, True]


def test_what_noise_leaves_below_zero_was_not_measured() -> None:
    assert measured([make_run(each_bytes=-3.0)])[BYTES] == (None,)


def test_a_pair_with_a_gap_is_no_pair() -> None:
    bench = Bench(7)
    base, head = bench.pairs(10, cpu=1.5)
    base[2] = head[5] = make_run(failed_checks=("drift",))
    verdict = judge(measured(base), measured(head), bench.floor(), paired=True)
    assert all(metric.runs == (8, 8) for metric in verdict.metrics)
    with pytest.raises(ValueError, match="shorter"):
        judge(measured(base), measured(head[:9]), {}, paired=True)


def test_without_valid_runs_it_is_invalid() -> None:
    good, bad = [make_run()] * 10, [make_run(failed_checks=("drift",))] * 10
    for base, head, side in ((good, bad, "head"), (bad, good, "base"), (bad, bad, "base and head")):
        verdict = judge(measured(base), measured(head), {}, paired=True)
        assert (verdict.verdict, verdict.exit_code) == ("invalid", errors.EXIT_INVALID)
        assert f"not measured in any valid run of {side}" in verdict.line
    alternating = judge(measured([*good[:5], *bad[:5]]), measured([*bad[:5], *good[:5]]), {}, paired=True)
    assert "no pair in which both runs are valid" in alternating.line


def test_a_metric_that_was_not_measured_is_invalid_and_a_regression_stays_one() -> None:
    bench = Bench(8)
    floor = bench.floor()
    base, same = (measured(runs) for runs in bench.pairs(10))
    _, slow = (measured(runs) for runs in bench.pairs(10, cpu=1.5))
    for head, overall in ((same, "invalid"), (slow, "regressed")):
        verdict = judge(base, {**head, BYTES: (None,) * 10}, floor, paired=True)
        assert words(verdict)[BYTES] == "invalid"
        assert verdict.verdict == overall


def test_without_a_floor_it_is_inconclusive() -> None:
    base, head = Bench(9).pairs(10)
    verdict = judge(measured(base), measured(head), {}, paired=True)
    assert verdict.verdict == "inconclusive"
    assert "no A/A floor" in verdict.line


def test_exit_codes_are_distinct_and_never_1() -> None:
    codes = set(gate.EXIT_CODES.values())
    assert len(codes) == 4
    assert 1 not in codes
    others = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert codes & others == {errors.EXIT_OK, errors.EXIT_INVALID}


# The baseline's file


def stored(runs: Sequence[Run]) -> baseline.Baseline:
    values = measured(runs)
    return baseline.make(runs, values, noise_floor(values, paired=False), LIMITS, 500.0)


RUNS = [make_run(seed=seed) for seed in range(8)]


def test_a_baseline_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "results" / "baseline.json"
    runs = [*RUNS, make_run(failed_checks=("drift",))]
    one, other = stored(runs), stored([make_run(target="trio")] * 8)
    baseline.write(path, "asyncio", one)
    baseline.write(path, "trio", other)
    assert baseline.read(path, "asyncio") == one
    assert baseline.read(path, "trio") == other
    assert list(path.parent.iterdir()) == [path]
    assert json.loads(path.read_text())["schema_version"] == 1
    assert (one.commit, one.machine_class, one.values[CPU][-1]) == ("abc", MACHINE.class_name, None)


def test_a_new_baseline_takes_the_place_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    for rate in (100.0, 120.0):
        baseline.write(path, "asyncio", stored([make_run(rate)] * 8))
    assert baseline.read(path, "asyncio").conditions.load.rate_rps == 120


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no baseline (No such file or directory); make one"),
        ("{", "not a baseline"),
        ('{"schema_version": 2}', "schema version 2, this harness reads 1"),
        ('{"schema_version": 1}', "missing required field `targets`"),
        ('{"schema_version": 1, "targets": {}}', "no baseline of asyncio, only of nothing"),
        ('{"schema_version": 1, "targets": {"trio": 3}}', "not a baseline"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ScenarioError) as refused:
        baseline.read(path, "asyncio")
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text("my notes")
    with pytest.raises(ScenarioError):
        baseline.write(path, "asyncio", stored(RUNS))
    assert path.read_text() == "my notes"
    (tmp_path / "file").write_text("")
    with pytest.raises(MeasurementError, match="could not be written"):
        baseline.write(tmp_path / "file" / "baseline.json", "asyncio", stored(RUNS))


def test_a_figure_below_zero_in_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    baseline.write(path, "asyncio", stored(RUNS))
    path.write_text(path.read_text().replace("0.0006", "-0.0006"))
    with pytest.raises(ScenarioError, match=r"not a baseline: Expected `float` > 0"):
        baseline.read(path, "asyncio")


def test_another_class_of_machine_is_refused_for_absolute_figures() -> None:
    one = stored(RUNS)
    assert baseline.refusals(one, MACHINE) == {}
    foreign = msgspec.structs.replace(MACHINE, class_name="64 × 512 GiB")
    refused = baseline.refusals(one, foreign)
    assert set(refused) == set(METRICS) - {BYTES}
    assert all("64 × 512 GiB" in reason and MACHINE.class_name in reason for reason in refused.values())
    newer = msgspec.structs.replace(foreign, python="3.14.1")
    assert set(baseline.refusals(one, newer)) == set(METRICS)
    verdict = judge(one.values, one.values, one.floor, paired=False, refused=refused)
    assert (verdict.verdict, words(verdict)[BYTES]) == ("invalid", "pass")
    assert "absolute figures do not compare" in verdict.line


def test_what_does_not_belong_together_makes_no_baseline() -> None:
    for other, said in (
        (make_run(100.0), "load.rate_rps 150.0 and 100.0"),
        (make_run(options={"gc": "off"}), "options.gc None and 'off'"),
        (make_run(workers=2), "options.workers 1 and 2"),
        (make_run(commit="def"), "several commits"),
        (
            make_run(machine=msgspec.structs.replace(MACHINE, class_name="other")),
            "several commits or machines",
        ),
    ):
        with pytest.raises(MeasurementError, match=said):
            stored([*RUNS, other])
    with pytest.raises(MeasurementError, match="needs runs"):
        baseline.make([], {}, {}, LIMITS, 500.0)


def test_conditions_tell_what_keeps_runs_apart() -> None:
    assert baseline.differences(*(baseline.conditions(make_run(seed=seed)) for seed in (1, 2))) == ""
    here, there = baseline.conditions(make_run()), baseline.conditions(make_run(w_s=20.02, cpus=4))
    said = baseline.differences(here, there)
    for word in ("load.window_s", "upstream.llm", "pod.cpus 1 and 4"):
        assert word in said


# What is written


def mixed() -> GateVerdict:
    named = zip(METRICS, ("pass", "regressed", "inconclusive", "invalid", "pass"), strict=True)
    return GateVerdict(
        verdict="regressed",
        metrics=tuple(
            MetricVerdict(
                name=name,
                verdict=word,  # type: ignore[arg-type]
                detail=f"{name}: {word}: a|b <script> \x00 …\n& so on",
                base=None if word == "invalid" else 0.5,
                head=None if word == "invalid" else 0.6,
                change=None if word == "invalid" else 0.2,
                effect=0.05,
                p_value=0.004,
                runs=(10, 10),
            )
            for name, word in named
        ),
    )


def test_junit_says_it_in_its_own_words() -> None:
    suite = ElementTree.fromstring(gate_report.junit(mixed(), "asyncio"))
    assert suite.tag == "testsuite"
    counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "5", "failures": "1", "errors": "1", "skipped": "1"}
    kinds = {case.get("name"): case[0].tag for case in suite}
    assert list(kinds.values()) == ["system-out", "failure", "skipped", "error", "system-out"]
    assert all(case.get("classname") == "gate.asyncio" for case in suite)
    assert "a|b <script> \ufffd …" in (suite[1][0].get("message") or "")


@given(st.text(max_size=40))
def test_junit_is_xml_whatever_the_text_holds(text: str) -> None:
    metric = MetricVerdict(name=CPU, verdict="invalid", detail=text)
    ElementTree.fromstring(gate_report.junit(GateVerdict(verdict="invalid", metrics=(metric,)), text))


def test_markdown_has_a_row_for_each_metric() -> None:
    lines = gate_report.markdown(mixed(), "asyncio").splitlines()
    assert lines[0] == "### Pods per λ, asyncio: regressed"
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 1 + len(METRICS)
    assert {row.count(" | ") for row in rows} == {7}
    assert rows[2] == "| pods | regressed | 0.5 pods | 0.6 pods | +20.00% | 5.00% | 0.004 | 10 / 10 |"
    assert sum(line.startswith("- ") for line in lines) == 3
    assert "<script>" not in "\n".join(lines).replace(r"\<script\>", "")


def test_reports_are_written_and_appended_to_the_summary(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    gate_report.write(tmp_path / "out", mixed(), "my/server", {"GITHUB_STEP_SUMMARY": str(summary)})
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "gate-my-server.md",
        "gate-my-server.xml",
    ]
    assert summary.read_text() == "before\n" + (tmp_path / "out" / "gate-my-server.md").read_text()
    gate_report.write(tmp_path / "out", mixed(), "my/server", {})
    assert summary.read_text().count("###") == 1
    with pytest.raises(MeasurementError, match="could not be written"):
        gate_report.write(summary, mixed(), "asyncio", {})


def test_one_line_each() -> None:
    for verdict in (compared(1), compared(1, cpu=1.5), compared(1, n=3)):
        assert verdict.line.startswith(f"gate: {verdict.verdict}: ")
        assert "\n" not in verdict.line
        assert all(
            metric.detail.startswith(f"{metric.name}: {metric.verdict}: ") for metric in verdict.metrics
        )
