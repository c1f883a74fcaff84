"""What a signature costs, in this process: the sink of a webhook with one and without, to one receiver.

Two drains of a whole service differ by more than a signature does, so both sinks post in turns of a few
hundred requests, 64 at once, and the difference is that of neighbouring turns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import uvloop
from bench_events import attributes, body

from app.bindings.http import decode
from app.bindings.record import Record
from app.interfaces.sink import Outgoing
from app.model.message import Message, Partition
from app.model.secret import FileSecret
from app.model.subscription import Subscription
from app.runtime.clock import SystemClock
from app.runtime.heap import settle_heap
from app.sinks.http_client import HttpClient
from app.sinks.secrets import LiveSecret
from app.sinks.signatures import Signatures
from app.sinks.webhook import WebhookSink

TURNS, TURN = 60, 256
AT_ONCE = 64
WITHIN = 60.0
SECRET = "whsec_" + "c2t5YnJpZGdlIGJlbmNo" * 2


def measure(port: int) -> tuple[list[float], list[float]]:
    """Microseconds of CPU a request, signed and not, turn by turn, to the sink that listens on ``port``."""
    return uvloop.run(_measure(f"http://127.0.0.1:{port}/"))


async def _measure(url: str) -> tuple[list[float], list[float]]:
    client = HttpClient(allow_private=["127.0.0.0/8"])
    secrets = [LiveSecret(FileSecret(SECRET))]
    subscription = Subscription.model_validate(
        {"id": "bench", "source": {"broker": "log", "topics": ["bench"]}, "sink": url}
    )
    signed = WebhookSink(subscription, client, signatures=Signatures(secrets, SystemClock().now))
    plain = WebhookSink(subscription, client)
    outgoing = [_outgoing(number) for number in range(TURN)]
    settle_heap()
    costs: dict[WebhookSink, list[float]] = {plain: [], signed: []}
    for sink in costs:
        await _post(sink, outgoing)  # connections are open, names are known
    for turn in range(TURNS):
        for sink in (plain, signed) if turn % 2 else (signed, plain):
            costs[sink].append(await _post(sink, outgoing))
    await client.stop()
    return costs[signed], costs[plain]


async def _post(sink: WebhookSink, outgoing: Sequence[Outgoing]) -> float:
    left = iter(outgoing)

    async def work() -> None:
        for each in left:
            answer = await sink.send(each)
            if answer.status is None:
                raise RuntimeError(f"no answer: {answer}")

    begun = time.process_time()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return 1e6 * (time.process_time() - begun) / len(outgoing)


def _outgoing(number: int) -> Outgoing:
    told = [(f"ce-{name}".encode(), value.encode()) for name, value in attributes(number).items()]
    (decoded,) = decode([*told, (b"content-type", b"application/json")], body(number))
    record = Record(None, (), None)
    message = Message(record, Partition("bench", 0), str(number), number, 0, 1)
    return Outgoing(message, decoded, WITHIN)
