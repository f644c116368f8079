"""The load: a generator on Locust, open model or closed, run as `python -m harness.generator PLAN.json`.

- Open: when a request is due was decided before the first one left; no answer moves it. (The closed model,
  `closed`, is for laboratories: there a request is due when its client was answered.)
- Nothing queues: a request leaves at its time, late (recorded) or not at all (unsent, with the reason).
- One clock: everything is an offset from one start signal on the monotonic clock; wall clocks never enter.
- Every planned request ends in exactly one row: planned = sent + unsent, sent = ok + refused + failed +
  timed_out + unfinished.

`plan`, `ledger`, `response` and `messages` are pure; `client`, `sender` and `closed` need gevent; `worker`,
`conductor` and `run` need Locust, which monkey-patches the process that imports it: the harness itself
imports only the pure ones.
"""
