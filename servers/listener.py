"""The listening socket: bind, accept all that is there, and survive running out of descriptors.

Descriptors are closed through `posix`: gevent patches `os.close` and the sockets' own to close on its next
turn, which is too late for a descriptor that the next line needs.
"""

from __future__ import annotations

import errno
import os
import posix
import socket
from collections.abc import Iterator
from contextlib import suppress

from servers.io import Address
from servers.log import once

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
    b"content-length: 21\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
    b'{"error":"too busy"}\n'
)


class Listener:
    """A non-blocking listening socket, with one descriptor held in reserve."""

    def __init__(self, address: Address, backlog: int, shared: bool) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.sock.bind(address)
        self.sock.listen(backlog)
        self.sock.setblocking(False)
        self._reserve: int | None = None
        self._refill()

    def accept_ready(self) -> Iterator[socket.socket]:
        """Every connection that waits now. One a turn of the loop would starve under load."""
        while True:
            try:
                sock, _ = self.sock.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # it left while it waited
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                once("EMFILE", "descriptors exhausted: new connections are answered 503")
                if not self._refuse_one():
                    return
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield sock

    def _refuse_one(self) -> bool:
        """Spend the reserve on telling one client; left alone, it would wait and the loop would spin."""
        if not self._refill():
            return False
        self._spend()
        try:
            refuse(self.sock.accept()[0])
        except OSError:
            return False  # nobody waits: the kernel wants a descriptor before it looks
        finally:
            self._refill()
        return True

    def _refill(self) -> bool:
        with suppress(OSError):  # another thread may have been faster; the next refusal tries again
            if self._reserve is None:
                self._reserve = os.open(os.devnull, os.O_RDONLY)
        return self._reserve is not None

    def _spend(self) -> None:
        if self._reserve is not None:
            posix.close(self._reserve)
            self._reserve = None

    def close(self) -> None:
        self.sock.close()
        self._spend()


def refuse(sock: socket.socket) -> None:
    """Answer 503 without a thread or task: what was sent is read first, lest closing resets the answer."""
    sock.setblocking(False)
    with suppress(OSError):
        sock.recv(64 * 1024)
    with suppress(OSError):
        sock.send(BUSY)
        sock.shutdown(socket.SHUT_WR)
    posix.close(sock.detach())
