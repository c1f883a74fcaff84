"""The webhook of a soak: knows every event by its number, and refuses the first attempt of a few percent.

Its counts lie in a shared file of four numbers: events delivered, each counted once; attempts refused; events that
came again although they had been taken; requests.
"""

from __future__ import annotations

import argparse
import mmap
import struct
from pathlib import Path

import receiving
import uvloop

COUNTS = struct.Struct("<4Q")
REFUSED_ONE_IN = 33  # events whose first attempt is answered 503
TWICE_ONE_IN = 330  # those whose second is, too
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
DELIVERED = 255


class Account:
    """A byte an event: how often it was refused, or that it was taken."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), COUNTS.size)
        self._events = bytearray(1 << 20)
        self._delivered = self._refused = self._again = self._requests = 0

    def answer(self, number: int) -> bytes:
        while number >= len(self._events):
            self._events += bytes(len(self._events))
        self._requests += 1
        before = self._events[number]
        if before == DELIVERED:
            self._again += 1
        elif before < _refusals(number):
            self._events[number] += 1
            self._refused += 1
        else:
            self._events[number] = DELIVERED
            self._delivered += 1
        counts = (self._delivered, self._refused, self._again, self._requests)
        COUNTS.pack_into(self._shared, 0, *counts)
        return TAKEN if self._events[number] == DELIVERED else REFUSED


def _refusals(number: int) -> int:
    if number % REFUSED_ONE_IN:
        return 0
    return 1 if number % TWICE_ONE_IN else 2


class Receiver(receiving.Receiver):
    def __init__(self, account: Account) -> None:
        self._account = account
        self._number = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"ce-id":
            self._number = int(value)

    def on_message_complete(self) -> None:
        self._transport.write(self._account.answer(self._number))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--counts", type=Path, required=True)
    options = parser.parse_args()
    account = Account(options.counts)
    uvloop.run(receiving.serve(options.port, lambda: Receiver(account)))


if __name__ == "__main__":
    main()
