"""The senders of the laboratory: numbered events per key, one request of a key at a time, each until it is acknowledged.

A program of the host ``load``. A sender that is not acknowledged repeats the request at the other gateway. The order of the
events of a key is therefore defined, whichever gateway accepted them. Every batch and every second event that is sent alone
asks for receipts, because the gateway reads requests with and without this wish in different ways. Every request is in the
history. When standard input closes, the senders finish the request at hand, for at most ``PATIENCE`` seconds, and the program ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from proof.history import Event, HistoryWriter, Request
from proof.http_by_hand import (
    Message,
    Sent,
    batch_request,
    binary_request,
    read_message,
    receipts,
)

NO_ANSWER = 15.0  # seconds until a sender gives up a request: longer than ``timeouts.publish``
PAUSE = 0.2  # seconds before a request is repeated
PATIENCE = 120.0
ACKNOWLEDGED = {200, 202}
_WORDS = ("naïve", "Straße", '\\"', "\\u00e9", "日本", "𝄞", " ", "1e3")


class Gateway(NamedTuple):
    name: str
    address: str
    port: int


class Sizes(NamedTuple):
    """The sizes of requests.

    Attributes:
        batches: The share of requests with several events.
        most: The most events of one.
    """

    batches: float = 0.15
    most: int = 4


class Sender:
    """The sender of one key.

    Attributes:
        next: The number of the next event. Another run of the same key continues with it.
        pace: Seconds between two events, on average.

    Args:
        turns: What a sender enters for each request: for example a bound of the requests of all senders.
    """

    def __init__(
        self,
        key: str,
        gateways: Sequence[Gateway],
        history: HistoryWriter,
        dice: random.Random,
        pace: float,
        first: int = 0,
        sizes: Sizes = Sizes(),  # noqa: B008
        turns: AbstractAsyncContextManager[Any] = nullcontext(),  # noqa: B008
    ) -> None:
        self._key, self._history, self._dice = key, history, dice
        self._sizes, self._turns = sizes, turns
        self.pace, self.next = pace, first
        self._gateways = list(gateways)
        self._asks = False  # whether the last event that was sent alone asked for its receipt
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Send until ``stopping``, and close the connection. Lost time is not made up for."""
        try:
            await self._send(stopping)
        finally:
            self._drop()

    async def _send(self, stopping: asyncio.Event) -> None:
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
            several = self._dice.random() < self._sizes.batches
            count = self._dice.randint(2, self._sizes.most) if several else 1
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
        """Post the events once, write the request into the history, and return True if it is acknowledged."""
        async with self._turns:
            if not await self._connected():
                return False  # nothing was sent
            start, answer, seen = time.monotonic(), None, [each.seen() for each in events]
            try:
                answer = await asyncio.wait_for(self._post(events), NO_ANSWER)
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                pass
            finally:  # a sender that is ended has sent the request too
                self._write(start, answer, seen)
        if answer is None or answer.status not in ACKNOWLEDGED:
            self._drop()
            return False
        return True

    def _write(self, start: float, answer: Message | None, seen: list[Event]) -> None:
        """Write a request and its answer into the history, with the receipt of each event if there are any."""
        status = answer.status if answer else None
        if answer is not None and status == 200:
            places = zip(seen, receipts(answer, len(seen), self._gateways[0].name), strict=True)
            seen = [replace(event, receipt=place) for event, place in places]
        name, now = self._gateways[0].name, time.monotonic()
        self._history.write(Request(name, start, now, status, tuple(seen)))
        self._history.flush()

    async def _connected(self) -> bool:
        """Return True if there is a connection to the gateway, perhaps a new one.

        What is written on a connection that the gateway has ended would count as sent, although nothing reads it.
        """
        if self._stream is not None and (self._stream[0].at_eof() or self._stream[1].is_closing()):
            self._drop()
        if self._stream is None:
            gateway = self._gateways[0]
            opening = asyncio.open_connection(gateway.address, gateway.port)
            try:
                self._stream = await asyncio.wait_for(opening, NO_ANSWER)
            except (OSError, TimeoutError):
                return False
        return True

    async def _post(self, events: list[Sent]) -> Message:
        assert self._stream is not None
        reader, writer = self._stream
        host = f"{self._gateways[0].address}:{self._gateways[0].port}"
        if len(events) == 1:
            self._asks = not self._asks
            writer.write(binary_request(host, events[0], receipt=self._asks))
        else:
            writer.write(batch_request(host, events))
        return await read_message(reader)

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
