"""One line a kind of trouble: a fault that repeats ten thousand times a second must not cost a write each."""

from __future__ import annotations

import sys

_seen: set[str] = set()


def once(kind: str, message: str) -> None:
    """Write the first message of its kind to standard error; later ones show in the counters."""
    if kind not in _seen:
        _seen.add(kind)
        print(message, file=sys.stderr, flush=True)
