"""One process of the upstream: an App behind aiohttp's low-level server, on uvloop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Sequence
from multiprocessing import parent_process
from multiprocessing.connection import Connection

import uvloop
from aiohttp import web

from harness.upstream.app import App

BACKLOG = 4096  # the kernel's somaxconn cuts it
KEEPALIVE_S = 600.0  # longer than any run: a connection ends when its client wants it to


def run(app: App, listeners: Sequence[socket.socket], ready: Connection) -> None:
    """Serve until SIGTERM or the end of the parent; send one message to `ready` when accepting."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal: the parent decides
    uvloop.run(serve(app, listeners, ready))


async def serve(app: App, listeners: Sequence[socket.socket], ready: Connection) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    parent = parent_process()
    if parent is not None:
        loop.add_reader(parent.sentinel, stop.set)
    server = web.Server(app, keepalive_timeout=KEEPALIVE_S, access_log=None, handler_cancellation=True)
    listening = [await loop.create_server(server, sock=each, backlog=BACKLOG) for each in listeners]
    # A full collection walks every waiting task; with thousands of them it would pass for a slow provider.
    gc.collect()
    gc.freeze()
    gc.disable()
    ready.send(None)
    await stop.wait()
    app.stopping = True
    for each in listening:
        each.close()  # the waits are cancelled by the runner, which ends all tasks: nobody waits out 20 s
