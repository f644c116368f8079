"""A bystander: asks the pod for something light, again and again, and notes how long it has to wait.

Beside a load that holds a loop or hub nobody else is served; beside one that only waits, everybody is. The
load's own latencies do not show the difference, a bystander's do.

- Open model: a probe every PERIOD_S, whatever became of the one before, so a pod that stands still is seen for
  as long as it does. Its connections are its own, one for each probe under way; the generator has no part.
- A probe ends with its answer, or after PROBE_TIMEOUT_S. NaN: no good answer by then.
- One thread of the harness, on a loop of its own. What the harness does meanwhile may add some ms to a probe.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from array import array
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.errors import MeasurementError
from harness.held import PROBE_TIMEOUT_S

PERIOD_S = 0.08  # 375 probes in 30 s: a p99 takes 368

Columns = dict[str, npt.NDArray[np.float64]]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Bystander:
    """Probes from `start` (or `with`) to `stop`, which returns the columns `due_s` and `latency_s`."""

    def __init__(self, host: str, port: int, route: str) -> None:
        self._address = (host, port)
        self._request = f"GET {route} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode("ascii")
        self._due_s = array("d")
        self._latency_s = array("d")
        self._idle: list[Connection] = []
        self._probes: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():  # it was not stopped: something failed, and nobody waits for answers
            self._loop.call_soon_threadsafe(self._abandon)
            self._thread.join()

    def stop(self) -> Columns:
        """Ask no more and wait for what is under way; times on the monotonic clock, an item for each probe.

        Raises MeasurementError if probing failed by our own fault.
        """
        with suppress(RuntimeError):  # its loop has ended: the error below says why
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if self._error is not None:
            raise MeasurementError(f"the bystander failed: {self._error!r}") from self._error
        return {"due_s": np.array(self._due_s), "latency_s": np.array(self._latency_s)}

    def _abandon(self) -> None:
        self._stopping.set()
        for probe in self._probes:
            probe.cancel()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._probe_all())
        except Exception as error:  # noqa: BLE001  a thread's error is nobody's: stop() raises it
            self._error = error
        finally:
            self._loop.close()

    async def _probe_all(self) -> None:
        t0_s = time.monotonic()
        for tick in count():
            due_s = t0_s + tick * PERIOD_S
            if await self._is_stopped_before(due_s):
                break
            probe = asyncio.create_task(self._probe(due_s))
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)
        await asyncio.gather(*self._probes, return_exceptions=True)
        for _, writer in self._idle:
            writer.transport.abort()

    async def _is_stopped_before(self, due_s: float) -> bool:
        try:
            await asyncio.wait_for(self._stopping.wait(), max(0.0, due_s - time.monotonic()))
        except TimeoutError:
            return self._stopping.is_set()  # when it is late itself, nothing was waited for
        return True

    async def _probe(self, due_s: float) -> None:
        row = len(self._due_s)
        self._due_s.append(due_s)
        self._latency_s.append(math.nan)
        try:
            async with asyncio.timeout(due_s + PROBE_TIMEOUT_S - time.monotonic()):
                if await self._is_answered():
                    self._latency_s[row] = time.monotonic() - due_s
        except (OSError, EOFError, asyncio.LimitOverrunError):  # TimeoutError is an OSError
            return

    async def _is_answered(self) -> bool:
        reader, writer = await self._connection()
        try:
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            await reader.readexactly(int(length[1]) if length else 0)
        except BaseException:
            writer.transport.abort()
            raise
        if length:
            self._idle.append((reader, writer))
        else:  # there may be more to come, which is not the next answer's
            writer.transport.abort()
        return head.partition(b" ")[2].startswith(b"200")

    async def _connection(self) -> Connection:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.transport.abort()
        return await asyncio.open_connection(*self._address)
