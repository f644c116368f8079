"""`python -m harness.perf [CASE…]`: the figures to reach, measured; results/perf.json and results/perf.md.

Each figure stands beside its goal, reached or not. A case's runs are kept like all others, in results/runs/ or
results/discarded/, and an invalid run has no figures here either.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from harness import files, provenance
from harness.bench import known_median
from harness.cli_common import RESULTS
from harness.perf import generators, reports
from harness.perf.capacities import CASES as CAPACITIES
from harness.perf.capacities import capacity
from harness.perf.figure import Figure, at_most, note, once
from harness.perf.gates import gate
from harness.perf.staffing import staffing
from harness.run import Run

WINDOW = "40.04"  # 2 W
W_S = 20.02
PAIRS = 3
ARTICLE_RSS_BYTES = 841e6


Case = Callable[[], Iterator[Figure]]


def generator() -> Iterator[Figure]:
    """Ours against stock Locust, one after the other, each alone on a CPU."""
    case = "generator"
    own, stock = generators.ours(), generators.stock()
    for name, cost in (("ours", own), ("stock Locust", stock)):
        yield Figure(case, f"{name}: CPU a request", cost.cpu_s_per_request * 1e3, "ms")
        yield Figure(case, f"{name}: peak RSS", cost.rss_peak_bytes / 1e6, "MB")
        yield Figure(case, f"{name}: p99 reported", cost.p99_s, "s", note=f"truth {generators.LLM_S:g} s")
    yield at_most(case, "CPU, ours / stock", own.cpu_s_per_request / stock.cpu_s_per_request, "", 0.5)
    yield at_most(case, "peak RSS, ours / stock", own.rss_peak_bytes / stock.rss_peak_bytes, "", 0.5)
    lag = own.send_lag_p99_s
    yield at_most(case, "send lag p99", None if lag is None else lag * 1e3, "ms", 2)
    yield at_most(case, "p99 reported − true", (own.p99_s - generators.LLM_S) * 1e3, "ms", 5)
    yield at_most(case, "failed", own.failures, "", 0)


def pool() -> Iterator[Figure]:
    """A pool of 200 above its capacity: λ max against 200 / W."""
    changes = {"rate": "11.99", "load.regime": "saturated", "load.drain": "1"}
    run = once("threadpool", changes)
    ratio = run.prediction.ratio if run.verdict.valid else None
    off = None if ratio is None else abs(ratio - 1) * 100
    yield Figure("pool of 200", "λ max", run.summary.throughput_rps, "req/s", note=note(run))
    yield at_most("pool of 200", "off 200 / W", off, "%", 0.3, note(run))


MEMORY_KB = {"asyncio": 8, "trio": 10, "gevent": 18}


def one_process() -> Iterator[Figure]:
    """λ=450 in one process under each collector policy."""
    for model, kilobytes in MEMORY_KB.items():
        best: list[float] = []
        for policy in ("off", "default"):
            run = once(model, {"rate": "450", "duration": WINDOW, "pod.gc": policy})
            case = f"{model} λ=450 gc={policy}"
            yield from costs(case, run, kilobytes if policy == "off" else None)
            best += [run.summary.latency_s.p99] if run.verdict.valid and run.summary.latency_s.p99 else []
        overhead = (min(best) - W_S) * 1e3 if best else None
        yield at_most(f"{model} λ=450", "p99 − W, best collector policy", overhead, "ms", 20)
    run = once("asyncio", {"rate": "450", "duration": WINDOW, "pod.gc": "off", "pod.loop": "uvloop"})
    yield from costs("asyncio λ=450 gc=off loop=uvloop", run, 8)


def costs(case: str, run: Run, kilobytes: float | None) -> Iterator[Figure]:
    """p99, CPU a request and memory a request in flight; goals only where `kilobytes` is one."""
    if not run.verdict.valid:
        yield Figure(case, "valid", 0, "", "1", False, note(run))
        return
    p99, cpu, memory = run.summary.latency_s.p99, run.resources.cpu_s_per_request, run.resources
    yield Figure(case, "p99 − W", None if p99 is None else (p99 - W_S) * 1e3, "ms", note=note(run))
    held = None if memory.bytes_per_request_in_flight is None else memory.bytes_per_request_in_flight / 1e3
    spent = None if cpu is None else cpu * 1e3
    if kilobytes is None:
        yield Figure(case, "memory a request in flight", held, "KB")
        yield Figure(case, "CPU a request", spent, "ms")
    else:
        yield at_most(case, "memory a request in flight", held, "KB", kilobytes)
        yield at_most(case, "CPU a request", spent, "ms", 0.8)


def thousand() -> Iterator[Figure]:
    """λ=1,000, 20,020 in flight, three workers."""
    for model, loop in (("trio", ""), ("gevent", ""), ("asyncio", "asyncio"), ("asyncio", "uvloop")):
        changes = {"rate": "1000", "duration": WINDOW, "pod.gc": "off", "pod.workers": "3"}
        run = once(model, changes | ({"pod.loop": loop} if loop else {}))
        case = f"{model} λ=1000{f' loop={loop}' if loop else ''}"
        yield Figure(case, "valid", float(run.verdict.valid), "", "1", run.verdict.valid, note(run))
        if run.verdict.valid:
            p99 = run.summary.latency_s.p99
            yield at_most(case, "p99 − W", None if p99 is None else (p99 - W_S) * 1e3, "ms", 80)
            yield at_most(case, "RSS / the article's 841 MB", ratio(run), "", 0.5)


def ratio(run: Run) -> float | None:
    mean = run.resources.rss_bytes.mean
    return None if mean is None else mean / ARTICLE_RSS_BYTES


def pins() -> Iterator[Figure]:
    """The pin monitor: CPU a request with it and without, in pairs that take turns in going first."""
    for model in MEMORY_KB:  # threads have nothing to pin
        case, ratios, counted = f"{model} pins on / off", [], []
        for pair in range(PAIRS):
            order = ("on", "off") if pair % 2 else ("off", "on")
            runs = {word: once(model, {"rate": "450", "pod.pins": word}, "rag-compressed") for word in order}
            on, off = (runs[word].resources.cpu_s_per_request for word in ("on", "off"))
            if on and off and all(run.verdict.valid for run in runs.values()):
                ratios.append(on / off)
                counted.append(runs["on"].pins.per_request if runs["on"].pins else None)
        said = f"{len(ratios)} of {PAIRS} pairs valid"
        yield at_most(case, "CPU a request, on / off", known_median(ratios), "", 1.15, said)
        yield at_most(case, "pins a request where none should be", known_median(counted), "", 0.05, said)


def threads() -> Iterator[Figure]:
    """A pool of 9,500 threads at λ=450: as many threads as requests."""
    run = once("threadpool", {"rate": "450", "duration": WINDOW, "pod.gc": "off", "pod.threads": "9500"})
    case = "9,500 threads λ=450"
    yield Figure(case, "valid", float(run.verdict.valid), "", "1", run.verdict.valid, note(run))
    rss, rest = run.resources.rss_bytes.mean, run.resources.memory_at_rest_bytes
    if run.verdict.valid and rss is not None and rest is not None:
        yield from costs(case, run, None)
        yield Figure(case, "RSS", rss / 1e6, "MB")
        yield Figure(case, "RSS a thread", rss / 9500 / 1e3, "KB", note="the article: 1 MB")


def report() -> Iterator[Figure]:
    """The report of as many runs as a full bench with its sweeps leaves."""
    timed = reports.time_report(RESULTS)
    yield at_most(f"{reports.RUNS} runs", "harness report", timed.seconds, "s", 20, timed.note)


CASES: dict[str, Case] = {
    "generator": generator,
    "pool": pool,
    "one-process": one_process,
    "thousand": thousand,
    "threads": threads,
    **{name: partial(capacity, name) for name in CAPACITIES},
    "staffing": staffing,
    "gate": gate,
    "report": report,
    "pins": pins,
}


def markdown(figures: list[Figure]) -> str:
    """The figures as a table."""
    marks = {True: "yes", False: "NO", None: ""}
    lines = [
        "# Performance figures",
        "",
        f"`make perf` on {provenance.machine().class_name}.",
        "",
        "| case | figure | value | goal | reached | run |",
        "| --- | --- | ---: | ---: | --- | --- |",
    ]
    for figure in figures:
        value = "not measured" if figure.value is None else f"{figure.value:.4g} {figure.unit}".rstrip()
        cells = (figure.case, figure.what, value, figure.goal, marks[figure.reached], figure.note)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"unknown case {unknown[0]}; there are: {', '.join(CASES)}", file=sys.stderr)
        return 2
    file = RESULTS / "perf.json"
    kept = msgspec.json.decode(file.read_bytes(), type=dict[str, list[Figure]]) if file.exists() else {}
    for name in names or CASES:
        kept[name] = list(CASES[name]())
        ordered = {case: kept[case] for case in CASES if case in kept}
        files.write(file, files.encode(ordered))
        files.write(
            RESULTS / "perf.md", markdown([each for part in ordered.values() for each in part]).encode()
        )
    print((RESULTS / "perf.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
