# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How many pods for λ?
#
# A service answers λ = 500 requests/s. Each request asks a vector database (20 ms), then a language model (20 s), and
# computes next to nothing. How many pods does it take, and which execution model should they run on: a pool of
# threads, asyncio, trio or gevent?
#
# This notebook tells it from runs that were measured and kept in git (`results/reference/`). To read your own, set
# `HARNESS_RESULTS` to your `results/` before starting Jupyter. Every figure and table is made by the functions that
# make `results/report.md`.

# %%
import os
from collections.abc import Callable, Iterable
from dataclasses import replace

from IPython.display import Image, Markdown, display

from harness import fleet, little, sizing
from harness.display_sizing import COLUMNS as PLAN
from harness.errors import MeasurementError
from harness.report import article, content, figures, markdown, style, sweeps, tables, timelines
from harness.report.drawing import Drawing
from harness.report.load import load
from harness.report.metrics import METRICS, given, number
from harness.report.rows import Chapter, Row, chapters
from harness.report.tables import Line, Shown, Table
from harness.spelling import ROOT
from harness.targets import load_targets

OWN = os.environ.get("HARNESS_RESULTS")
RUNS, CAPACITIES = ROOT / (OWN or "results/reference"), ROOT / (OWN or "results")
SCENARIO, RATE_RPS, W_S, POOL = "rag", article.RATE_RPS, article.W_S, article.POOL_THREADS

shelf = load(RUNS)
book = [
    chapter
    for chapter in chapters(shelf, load_targets())
    if all(run.scenario.load.route == "/rag" for run in chapter.runs)
]
story = next(
    (chapter for chapter in book if (chapter.scenario, chapter.arm) == (SCENARIO, "controlled")),
    Chapter(SCENARIO, "controlled", ()),
)


def say(*blocks: str) -> None:
    """Show Markdown."""
    display(Markdown("\n\n".join(blocks)))


def lay_out(headers: Iterable[str], lines: Iterable[Iterable[str]]) -> None:
    """Show a table of texts; the first of a line is its label."""
    rows = [Line(label, tuple(map(Shown, cells))) for label, *cells in lines]
    say(*markdown.blocks(Table(tuple(headers), tuple(rows), ())))


def show(drawing: Drawing, chapter: Chapter = story) -> None:
    """Show a figure of the report with its caption, in the style that it was drawn in."""
    display(Image(style.rendered(drawing.figure)["png"], width=760))
    say(f"*{drawing.title}, {markdown.escape(chapter.scenario)}.* {markdown.escape(drawing.caption)}")


def draw(make: Callable[[Chapter], Drawing | None]) -> None:
    """Draw a figure of the story, or say that there is none."""
    with style.applied():
        if story.rows and (drawing := make(story)):
            show(drawing)
        else:
            say("*Nothing to draw: no run among these results has it.*")


say(
    f"{len(story.runs)} valid runs of `{SCENARIO}`, {len(shelf.valid)} of all scenarios. "
    + " · ".join(
        f"{name}: {markdown.escape(text)}"
        for name, text in content.where(story.runs).items()
        if name != "versions"
    )
)

# %% [markdown]
# ## The law
#
# In any system that is stable, the mean number of requests inside is L = λW (Little 1961), whatever the distributions.
# So W, which nobody here can shorten, says how many requests a service holds. And a pool of N threads, each held for
# all of W, carries N / W and not one request more.


# %%
def at(w_s: float) -> tuple[str, ...]:
    """What a request of W seconds asks for."""
    bound = little.by_pool(POOL, 1, w_s)
    return (
        f"{given(w_s)} s",
        f"{little.concurrency(RATE_RPS, w_s):,.0f}",
        f"{number(bound.rate_max_rps)} req/s",
        f"{fleet.pods_mean(RATE_RPS, bound.rate_max_rps):,}",
    )


lay_out(
    ("W", f"in flight at λ = {given(RATE_RPS)}/s", f"a pool of {POOL} carries", "pods of it"),
    map(at, (0.02, 0.2, 2.0, W_S)),
)

# %% [markdown]
# The last line is the article's: 10,010 in flight, 9.99 req/s a pod, 51 pods (it predicted that, and measured 9.96).
# At W = 20 ms the same pool would have carried all of it twenty times over: the code did not change, the wait did.
#
# ## What was predicted, measured, and what binds
#
# Before each run the harness computes what every resource of the pod allows, and the smallest is the prediction. A pod
# that was offered more than that shows its λ max; for one that never was, "≥" marks the most that it carried.


# %%
PREDICTED = ("predicted rate", "bound by", "λ max", "measured / pred", "at λ")
HELD = ("sustained", "p99", "RSS", "CPU", "OS threads", "pods for λ", "n (")


def tell(model: str) -> None:
    """Prediction and measurement of a model's plain conditions, the article's configuration beside."""
    rows = tuple(row for row in story.rows if row.condition.model == model and not row.condition.changed)
    if not rows:
        say(f"*No valid run of {model} among these results.*")
        return
    own = replace(story, rows=rows)
    for columns in (PREDICTED, HELD):
        say(*markdown.blocks(tables.chosen(tables.results(own), *columns)))


# %% [markdown]
# ### Thread pool
#
# A thread waits for all of W and can do nothing else. The pool is full at N / W, and then its CPU reads a few percent:
# saturated and idle at once, which no autoscaler that looks at CPU will ever see.

# %%
tell("threadpool")

# %% [markdown]
# ### asyncio
#
# A request in flight is a suspended coroutine and two sockets. Nothing is full: what comes first is the number of
# descriptors that a process may open, two for each request. Then CPU, and the garbage collector, which walks every
# live task.

# %%
tell("asyncio")

# %% [markdown]
# ### trio
#
# The same loop in kind, with structured concurrency: a nursery and a cancel scope for each request cost some memory.

# %%
tell("trio")

# %% [markdown]
# ### gevent
#
# Blocking code on greenlets. A greenlet keeps its piece of the C stack while it waits, so that a request in flight
# takes about twice the memory of a coroutine, and about half of a thread's.

# %%
tell("gevent")

# %% [markdown]
# ## What one request costs
#
# Everything else follows from these columns: the CPU of a request bounds λ, its memory while it waits bounds λW.

# %%
if story.rows:
    say(*markdown.blocks(tables.costs(story)))
else:
    say("*No valid run among these results.*")

# %% [markdown]
# ## Latency
#
# W itself is subtracted: what is left is what the server adds. On an axis of nines the tail has as much room as the
# middle. Watch where a line turns up; the collections below say why.

# %%
draw(figures.latency)

# %%
draw(timelines.gc)

# %% [markdown]
# ## In flight over time
#
# Three witnesses of one number: the client, the server's own gauge, and λW. Where they agree the experiment is what it
# claims to be. In a saturated pool they part, and the distance is the queue.

# %%
draw(timelines.in_flight)

# %% [markdown]
# ## Memory and CPU

# %%
draw(figures.load)

# %% [markdown]
# ## Sweeps: one knob at a time
#
# "10,000 threads = 10 GB", says the article, for 1 MB of stack a thread. A stack is reserved, not used: only the pages
# that were touched count.


# %%
def threads(row: Row) -> tuple[str, ...] | None:
    """A pool's size, its memory, and what the article's rule would make of it."""
    size, rss = row.condition.pool, row.figures["rss_mean_bytes"].value
    if size is None or rss is None:
        return None
    write = METRICS["rss_mean_bytes"].write
    return (
        f"{row.condition.scenario}: {row.label}",
        f"{size:,}",
        write(rss),
        write(size * article.BYTES_PER_THREAD),
        number(rss / size / 1e3),
    )


pools = [
    line
    for chapter in book
    if chapter.axis in (None, "pod.threads") and chapter.scenario != "capacity"
    for row in chapter.rows
    if (line := threads(row))
]
if pools:
    lay_out(("condition", "threads", "RSS (MB)", "at 1 MB a thread (MB)", "KB a thread, all included"), pools)
else:
    say("*No pool of threads among these results.*")

# %%
drawn = set()
for chapter in book:
    with style.applied():
        for drawing in sweeps.drawings(chapter):
            show(drawing, chapter)
            drawn.add(drawing.title)
missing = [axis.title for axis in sweeps.AXES if axis.title not in drawn]
if missing:
    say(f"*Not swept in these results: {', '.join(missing)}.*")

# %% [markdown]
# ## Pods for λ
#
# ⌈λ / λ max⌉ is what the mean asks for. Real arrivals come at random and need places to spare: the second column of a
# rate is staffed so that fewer than 1 request in 100 finds none (Erlang C where it would wait, M/G/∞ where it would
# fail), if the balancer knows nothing of the pods. "≤": the pod was never saturated.

# %%
RATES = (50.0, RATE_RPS, 5_000.0, 50_000.0)
WAIT = 0.01


def pods(row: Row) -> list[str]:
    """Pods at each of RATES, by the mean and staffed."""
    most = row.figures["rate_max_rps"].value or 0.0
    mark = "≤ " if row.rate_max_at_least else ""
    cells = []
    for rate in RATES:
        staffed = fleet.pods_staffed(rate, most, row.condition.w_s, row.bound_by, WAIT)
        cells += [f"{mark}{fleet.pods_mean(rate, most):,}", f"{mark}{staffed:,}"]
    return cells


lay_out(
    ("condition", *(f"λ = {given(rate)}/s, {how}" for rate in RATES for how in ("mean", "staffed"))),
    ((row.label, *pods(row)) for row in story.rows if row.figures["rate_max_rps"].value),
)

# %%
draw(figures.pods)

# %% [markdown]
# ## A fleet
#
# `harness capacity` searches for λ max of one pod where the runs above only give a bound, and `harness plan` carries it
# to a fleet, with one node lost and a rolling update.

# %%
demand = fleet.Demand(rate_rps=50_000.0, w_s=W_S)
try:
    sized = sizing.load(CAPACITIES, "capacity")
except MeasurementError as error:
    sized = {}
    say(f"*No plan: {markdown.escape(str(error).replace(f'{CAPACITIES}/', ''))}.*")
if sized:
    lay_out(
        ("target", "λ max / pod", "predicted", "off by", "bound by"),
        (
            (
                name,
                f"{number(one.found.rate_max_rps)} req/s",
                f"{number(one.found.predicted_rps)} req/s",
                f"{one.found.prediction_error:+.1%}",
                one.bound_by,
            )
            for name, one in sized.items()
        ),
    )
    say(f"λ = {given(demand.rate_rps)}/s, W = {given(demand.w_s)} s:")
    plan = fleet.plan(demand, [one.measured for one in sized.values()])
    lay_out((title for title, _ in PLAN), ([cell(row) for _, cell in PLAN] for row in plan))

# %% [markdown]
# ## What to take from it
#
# - **The number of pods follows from W and from how many requests a pod may hold**, not from its CPU. A pool sized by
#   habit (200) decides it alone: 51 pods where one would do.
# - **A thread is not the expense it is said to be.** A pool as large as the crowd serves it as well as the others do,
#   for a few times the memory. Where code blocks and cannot be rewritten, a larger pool is the first thing to try.
# - **Among loops and greenlets, choose by the code you have.** All three carry this rate in one pod, and for asyncio
#   and trio the collector's policy moves the p99 more than the choice between them does.
# - **Scale by requests in flight.** It is the one signal that moves before latency does, and λW predicts it.
#
# One machine, loopback, a simulated upstream: figures compare with each other, and with yours only on a machine of the
# same class. Each run judged itself, and only valid ones are here.
