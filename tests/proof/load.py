"""The senders of the laboratory: numbered events per key, one request of a key at a time, each until it is acknowledged.

A program of the host ``load``. A sender that gets no 202 repeats the request at the other gateway. The order of the
events of a key is therefore defined, whichever gateway accepted them. Every request is in the history. When standard
input closes, the senders finish the request at hand, for at most ``PATIENCE`` seconds, and the program ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from proof.history import HistoryWriter, Request
from proof.http_by_hand import Sent, batch_request, binary_request, read_message

NO_ANSWER = 15.0  # seconds until a sender gives up a request: longer than ``timeouts.publish``
PAUSE = 0.2  # seconds before a request is repeated
PATIENCE = 120.0
BATCHES, MOST = 0.15, 4  # the share of requests with several events, and the most events of one
_WORDS = ("naïve", "Straße", '\\"', "\\u00e9", "日本", "𝄞", " ", "1e3")


class Gateway(NamedTuple):
    name: str
    address: str
    port: int


class Sender:
    """The sender of one key.

    Attributes:
        next: The number of the next event. Another run of the same key continues with it.
        pace: Seconds between two events, on average.
    """

    def __init__(
        self,
        key: str,
        gateways: Sequence[Gateway],
        history: HistoryWriter,
        dice: random.Random,
        pace: float,
        first: int = 0,
    ) -> None:
        self._key, self._history, self._dice = key, history, dice
        self.pace, self.next = pace, first
        self._gateways = list(gateways)
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Send until ``stopping``. Lost time is not made up for."""
        for events in self._requests():
            while not await self._accepted(events):
                self._gateways.append(self._gateways.pop(0))
                await asyncio.sleep(PAUSE)
            wait = self.pace * len(events) * self._dice.uniform(0.5, 1.5)
            with_time = asyncio.wait_for(stopping.wait(), wait)
            try:
                await with_time
            except TimeoutError:
                continue
            return

    def _requests(self) -> Iterator[list[Sent]]:
        while True:
            count = self._dice.randint(2, MOST) if self._dice.random() < BATCHES else 1
            first, self.next = self.next, self.next + count
            yield [self._event(first + each) for each in range(count)]

    def _event(self, number: int) -> Sent:
        filler = "".join(self._dice.choices(_WORDS, k=self._dice.randint(0, 30)))
        attributes = {
            "id": f"{self._key}-{number}",
            "source": f"/proof/{self._key}",
            "type": "com.example.proof",
            "subject": f"Größe {number}%",
            "partitionkey": self._key,
        }
        return Sent(attributes, f'{{"n":  {number}, "text":"{filler}"}}')

    async def _accepted(self, events: list[Sent]) -> bool:
        """Post the events once, write the request into the history, and return True for 202."""
        gateway, start = self._gateways[0], time.monotonic()
        status = None
        try:
            status = await asyncio.wait_for(self._post(gateway, events), NO_ANSWER)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:  # a sender that is ended has sent the request too
            seen = tuple(each.seen() for each in events)
            self._history.write(Request(gateway.name, start, time.monotonic(), status, seen))
            self._history.flush()
        if status != 202:
            self._drop()
        return status == 202

    async def _post(self, gateway: Gateway, events: list[Sent]) -> int:
        if self._stream is None:
            self._stream = await asyncio.open_connection(gateway.address, gateway.port)
        reader, writer = self._stream
        host = f"{gateway.address}:{gateway.port}"
        one = len(events) == 1
        writer.write(binary_request(host, events[0]) if one else batch_request(host, events))
        return int((await read_message(reader)).first.split()[1])

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None


async def main(options: argparse.Namespace) -> None:
    history, stopping = HistoryWriter(options.history), asyncio.Event()
    gateways = [Gateway(*each) for each in json.loads(options.gateways)]
    pace = options.keys / options.rate
    senders = []
    for number in range(options.keys):
        dice = random.Random(f"{options.seed} {number}")
        order = gateways if number % 2 else gateways[::-1]
        senders.append(Sender(f"key{number}", order, history, dice, pace))
    running = asyncio.gather(*(each.run(stopping) for each in senders))
    await asyncio.to_thread(sys.stdin.read)
    stopping.set()
    try:
        await asyncio.wait_for(running, PATIENCE)
    except TimeoutError:
        print("some senders were not answered 202 in time", flush=True)
    history.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--gateways", required=True, help="JSON: name, address and port of each")
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--rate", type=float, default=60.0, help="events a second of all keys")
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(main(parser.parse_args()))
