"""A webhook with many doors: answers at once, but for those told to hang or to refuse; notes every arrival.

``--hang PATH`` never answers there, ``--refuse SOURCE`` answers 503 to events of that source. On SIGTERM
it prints one line of JSON: path to how many it answered 204, and the delays in milliseconds since the
extension ``sentat`` (monotonic nanoseconds, one clock for all processes of a machine).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from collections import Counter

import receiving
import uvloop

TAKEN, REFUSED = b"HTTP/1.1 204 No Content\r\n\r\n", (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
)  # fmt: skip


class Doors:
    def __init__(self, hang: str, refuse: str) -> None:
        self.hang = hang.encode()
        self.refuse = refuse.encode()
        self.taken: Counter[str] = Counter()
        self.delays: list[float] = []
        self.first = self.last = 0.0  # arrivals, by the monotonic clock

    def answer(self, path: bytes, source: bytes, sent: int) -> bytes | None:
        if self.hang and path == self.hang:
            return None
        if self.refuse and source == self.refuse:
            return REFUSED
        self.taken[path.decode()] += 1
        self.last = time.monotonic()
        self.first = self.first or self.last
        if sent:
            self.delays.append((time.monotonic_ns() - sent) / 1e6)
        return TAKEN


class Receiver(receiving.Receiver):
    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._path, self._source, self._sent = b"", b"", 0

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"ce-source":
                self._source = value
            case b"ce-sentat":
                self._sent = int(value)

    def on_message_complete(self) -> None:
        answer = self._doors.answer(self._path, self._source, self._sent)
        if answer is not None:
            self._transport.write(answer)


async def serve(options: argparse.Namespace) -> None:
    doors = Doors(options.hang, options.refuse)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await receiving.listen(options.port, lambda: Receiver(doors))
    await ended.wait()
    took = doors.last - doors.first
    print(json.dumps({"taken": doors.taken, "delays": doors.delays, "seconds": took}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--hang", default="")
    parser.add_argument("--refuse", default="")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
