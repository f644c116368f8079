"""The thread under a model: what gevent's patches hide of it, by name, and where it stands."""

from __future__ import annotations

import importlib
import sys
import traceback
from types import FrameType
from typing import Any

Stack = tuple[str, ...]  # "file:line function", outermost first


def original(module: str, name: str) -> Any:
    """`module.name` as the standard library has it. After `patch_all()` a `threading.Lock` is gevent's."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None:
        return monkey.get_original(module, name)
    return getattr(importlib.import_module(module), name)


def stack(frame: FrameType | None) -> Stack:
    """Where `frame` stands, whole: stacks cut short make all pins look alike."""
    if frame is None:
        return ()
    frames = [(at.f_code, line) for at, line in traceback.walk_stack(frame)]
    return tuple(f"{code.co_filename}:{line} {code.co_qualname}" for code, line in reversed(frames))
