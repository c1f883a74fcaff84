"""A TCP relay in front of a real server. While it is cut, its clients cannot reach the server."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

from free_ports import free_ports

CHUNK = 1 << 16


class TcpRelay:
    """A relay that runs in its own threads. Its ``address`` stays the same after a cut."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = host, int(port)
        (self.port,) = free_ports(1)
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Close the listener and every connection."""
        listener, self._listener = self._listener, None
        for each in [*([listener] if listener else []), *self._open]:
            _end(each)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._upstream)
                self._open |= {near, far}
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while chunk := one.recv(CHUNK):
                other.sendall(chunk)
        for each in (one, other):
            _end(each)
            self._open.discard(each)


def _end(each: socket.socket) -> None:
    """Shut a socket down and close it, because close alone does not wake a thread that reads."""
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
