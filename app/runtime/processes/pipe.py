"""One end of the socket between the parent and a child: messages in, messages out, never waiting.

It ends when the process at the other end does, however that ended.
"""

from __future__ import annotations

import socket

import msgspec

from app.runtime.processes.messages import Message

UNSENT = 1 << 20  # bytes; what comes beyond them is dropped: reports come again
UNREAD = 16 << 20  # bytes of one message
_READ = 1 << 18

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


class Pipe:
    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._unsent = bytearray()
        self._unread = bytearray()

    @classmethod
    def pair(cls) -> tuple[Pipe, Pipe]:
        one, other = socket.socketpair()
        return cls(one), cls(other)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """What does not leave now leaves with the next one, or with ``flush``."""
        if len(self._unsent) < UNSENT:
            self._unsent += _encode(message) + b"\n"
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:  # the other end is gone: reading tells
            self._unsent.clear()

    def receive(self) -> list[Message] | None:
        """The messages that are whole by now; None when nothing will come any more."""
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data or len(self._unread) > UNREAD:
            return None
        self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        return [_decode(line) for line in lines]

    def close(self) -> None:
        self._socket.close()
