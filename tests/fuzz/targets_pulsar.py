"""Answers of a Pulsar broker: a connection takes them or ends, however they are cut; receipts are read in two ways."""

from __future__ import annotations

import asyncio
from typing import Any

from app.brokers.pulsar.wire import commands
from app.brokers.pulsar.wire.commands import BrokerLogin, SendReceipt, framed, read_receipt
from app.brokers.pulsar.wire.connection import WireConnection
from app.brokers.pulsar.wire.protobuf import MalformedMessage, fields, integer, text
from fuzz.loop import run
from fuzz.target import Target


class _Transport(asyncio.Transport):
    """A transport that keeps nothing."""

    def write(self, data: Any) -> None:
        """Drop the bytes."""

    def abort(self) -> None:
        """Do nothing."""


class _Producer:
    """A producer that notes what it is told."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def flush(self) -> list[bytes]:
        return []

    def stored(self, receipt: SendReceipt) -> None:
        self.seen.append(receipt)

    def refused(self, sequence: int, error: Exception) -> None:
        self.seen.append((sequence, str(error)))

    def lost(self, why: str) -> None:
        self.seen.append(why)


async def _connected(pieces: list[bytes]) -> tuple[list[object], str, int, list[str]]:
    async def login() -> BrokerLogin:
        return BrokerLogin()

    connection, producer = WireConnection("client", login, "broker"), _Producer()
    connection.connection_made(_Transport())
    opening = asyncio.create_task(connection.open())
    asking = [
        asyncio.create_task(connection.ask(lambda number: commands.lookup("t", number, authoritative=False)))
        for _ in range(2)
    ]  # fmt: skip
    await asyncio.sleep(0)
    connection.attach(1, producer)
    for piece in pieces:
        connection.data_received(piece)
    await asyncio.sleep(0)
    closed = connection.closed
    connection.close()
    ended = await asyncio.gather(opening, *asking, return_exceptions=True)
    return producer.seen, closed, connection.max_message, [repr(each) for each in ended]


def check_answers(data: bytes) -> None:
    """Take the same answers, whether they arrive at once or cut in two."""
    cut, stream = (data[0] if data else 0), data[1:]
    whole = run(_connected([stream]))
    at = len(stream) * cut // 256
    assert run(_connected([stream[:at], stream[at:]])) == whole
    _check_receipt(stream[8:])


def _check_receipt(command: bytes) -> None:
    """Read a receipt by the fast way as by the general one, if the command holds nothing else."""
    fast = read_receipt(command)
    if fast is None:
        return
    try:
        whole = fields(command)[commands.SEND_RECEIPT]
        content = fields(whole)
        position = fields(content[3])
    except (MalformedMessage, KeyError, TypeError):
        return
    if command != integer(1, commands.SEND_RECEIPT) + text(commands.SEND_RECEIPT, whole):
        return
    general = (content.get(1), content.get(2), position.get(1), position.get(2))
    assert general == tuple(fast) or max(fast) >= 1 << 64


_POSITION = text(3, integer(1, 12345) + integer(2, 678))
_SEEDS = [
    framed(commands.CONNECTED, text(1, "broker") + integer(2, 19) + integer(3, 1 << 20)),
    framed(commands.SEND_RECEIPT, integer(1, 1) + integer(2, 300) + _POSITION),
    framed(commands.SEND_ERROR, integer(1, 1) + integer(2, 5) + integer(3, 15) + text(4, "ended")),
    framed(commands.ERROR, integer(1, 1) + integer(2, 6) + text(3, "not ready")),
    framed(commands.CLOSE_PRODUCER, integer(1, 1) + integer(2, 9)),
    framed(
        commands.LOOKUP_ANSWER, text(1, "pulsar://b:1") + integer(3, commands.CONNECT_TO) + integer(4, 1)
    ),
    framed(commands.PRODUCER_SUCCESS, integer(1, 2) + text(2, "one") + integer(3, (1 << 64) - 1)),
    framed(commands.PING),
    framed(commands.AUTH_CHALLENGE, text(1, "x")),
]  # fmt: skip
TARGETS = (
    Target(
        "pulsar-answers",
        check_answers,
        [b"\x80" + each for each in (*_SEEDS, b"".join(_SEEDS))],
        [b"\x08\x07\x3a", b"\x08\x0e\x72", b"\xff\xff\xff\xff\x0f", b"\0\0\0\x0c\0\0\0\x08"],
    ),
)
