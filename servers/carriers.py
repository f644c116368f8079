"""Where a loop or hub switches: the four places at which a segment begins and ends.

asyncio runs every callback through `Handle._run`; uvloop has its own, in C, so its tasks' coroutines are
wrapped; trio has instruments; greenlet has a trace function. Each is attached from inside what runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

# The handler of a task or greenlet, and of those that it starts.
handler_name: contextvars.ContextVar[str | None] = contextvars.ContextVar("handler", default=None)

Detach = Callable[[], None]


class Segments(Protocol):
    """Who is told of the switches."""

    def begin(self, name: str | None, source: object) -> None:
        """A segment begins: `name` is its handler, `source` what to name it after (`name_of`) without one."""

    def end(self) -> None: ...


def attach(segments: Segments) -> Detach:
    """Connect to the loop or hub that runs on this thread; RuntimeError if there is none."""
    if "trio" in sys.modules and sys.modules["trio"].lowlevel.in_trio_run():
        return _trio(segments)
    if (loop := asyncio._get_running_loop()) is not None:
        return (_asyncio if isinstance(loop, asyncio.BaseEventLoop) else _asyncio_tasks)(segments, loop)
    if "gevent" in sys.modules:
        return _gevent(segments)
    raise RuntimeError("no event loop or hub runs here: call it from inside a coroutine or greenlet")


def _asyncio(segments: Segments, loop: asyncio.AbstractEventLoop) -> Detach:
    """Every callback of a loop, task steps among them, runs through `Handle._run`."""
    handles: Any = asyncio.Handle
    run = handles._run

    def measured(handle: Any) -> None:
        if handle._loop is not loop:
            run(handle)
            return
        segments.begin(handle._context.get(handler_name), handle._callback)
        try:
            run(handle)
        finally:
            segments.end()

    handles._run = measured
    return lambda: setattr(handles, "_run", run)


def _asyncio_tasks(segments: Segments, loop: asyncio.AbstractEventLoop) -> Detach:
    """uvloop has its own handles, in C; but a task's coroutine is stepped from Python's side."""
    factory = loop.get_task_factory()

    def measured(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        make: Any = factory or (lambda loop, steps, **options: asyncio.Task(steps, loop=loop, **options))
        return make(loop, _Steps(coroutine, segments), **options)

    loop.set_task_factory(measured)
    return lambda: loop.set_task_factory(factory)


class _Steps(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are segments."""

    __slots__ = ("_inner", "_segments")

    def __init__(self, inner: Coroutine[Any, Any, Any], segments: Segments) -> None:
        self._inner = inner
        self._segments = segments

    def send(self, value: Any) -> Any:
        self._segments.begin(handler_name.get(), self._inner)
        try:
            return self._inner.send(value)
        finally:
            self._segments.end()

    def throw(self, *error: Any) -> Any:
        self._segments.begin(handler_name.get(), self._inner)
        try:
            return self._inner.throw(*error)
        finally:
            self._segments.end()

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Any:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # cr_frame, __qualname__ and the like, for those who print tasks


def _trio(segments: Segments) -> Detach:
    import trio

    class Steps(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            segments.begin(task.context.get(handler_name), task)

        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            segments.end()

    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    return lambda: trio.lowlevel.remove_instrument(steps)


def _gevent(segments: Segments) -> Detach:
    import gevent
    import greenlet

    hub = gevent.get_hub()

    def switched(event: str, greenlets: tuple[Any, Any]) -> None:
        segments.end()
        target = greenlets[1]
        if target is not hub:
            segments.begin(handler_name.get(), target)

    def inherit(child: Any) -> None:
        child.gr_context = contextvars.copy_context()  # as tasks do, and greenlets by themselves do not
        child.began_with = child._run  # it forgets its function when it ends

    gevent.Greenlet.add_spawn_callback(inherit)
    previous = greenlet.settrace(switched)

    def undo() -> None:
        greenlet.settrace(previous)
        gevent.Greenlet.remove_spawn_callback(inherit)

    return undo


def name_of(source: Any) -> str:
    """What a task, callback or greenlet began with, by its qualified name."""
    source = getattr(source, "__self__", source)  # a task's step is a method of the task
    if isinstance(source, asyncio.Task):
        source = source.get_coro()
    for attribute in ("coro", "began_with"):  # a trio task's coroutine, a greenlet's function
        source = getattr(source, attribute, source)
    return str(getattr(source, "__qualname__", type(source).__qualname__))
