"""The receiving webhook: counts requests into a shared file and keeps the first one's bytes.

Eight bytes of ``--count`` hold the count, so that reading it costs neither side a system call;
``--first`` gets the first request as it was on the wire.
"""

from __future__ import annotations

import argparse
import mmap
import struct
from pathlib import Path

import receiving
import uvloop

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
COUNT = struct.Struct("<Q")


class Receiver(receiving.Receiver):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def data_received(self, data: bytes) -> None:
        self._sink.keep(data)
        super().data_received(data)

    def on_message_complete(self) -> None:
        self._transport.write(ANSWER)
        self._sink.add()


class Sink:
    def __init__(self, count: Path, first: Path) -> None:
        with count.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), COUNT.size)
        self._first = first
        self._begun = b""
        self._count = 0

    def keep(self, data: bytes) -> None:
        if self._count == 0:
            self._begun += data

    def add(self) -> None:
        self._count += 1
        if self._count == 1:
            self._first.write_bytes(self._begun)
        COUNT.pack_into(self._shared, 0, self._count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=Path, required=True)
    parser.add_argument("--first", type=Path, required=True)
    options = parser.parse_args()
    sink = Sink(options.count, options.first)
    uvloop.run(receiving.serve(options.port, lambda: Receiver(sink)))


if __name__ == "__main__":
    main()
