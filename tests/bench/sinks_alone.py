"""Measure two kinds of requests of a webhook sink in this process, in turns, to one receiver.

Two drains of a whole service differ by more than a signature costs. So both sinks post in turns of a few hundred
requests, 64 at once, and neighbouring turns are compared.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import uvloop
from bench_events import attributes, body

from app.bindings.http import decode
from app.bindings.record import Record
from app.interfaces.clock import SystemClock
from app.interfaces.sink import DeliveryRequest
from app.model.message import Message, Partition
from app.model.secret import FileSecret
from app.model.subscription import Subscription
from app.runtime.heap import settle_heap
from app.sinks.http_client import HttpClient
from app.sinks.secrets import LiveSecret
from app.sinks.signatures import Signatures
from app.sinks.webhook import WebhookSink
from app.sinks.webhook_requests import CloudEventRequests, RequestWriter, ShapedRequests

TURNS, TURN = 60, 256
AT_ONCE = 64
WITHIN = 60.0
SHAPED = {
    "key": {"secret": "only-an-example"},
    "dedup": "{id}",
    "summary": "Order {pointer:/order} of {partitionkey} failed",
    "amount": "{pointer:/amount}",
    "details": "{$data}",
}
SECRET = "whsec_" + "c2t5YnJpZGdlIGJlbmNo" * 2


Costs = tuple[list[float], list[float]]
"""Microseconds of CPU a request, turn by turn: of the first kind, and of the second."""


def signed(port: int) -> Costs:
    """Measure signed requests beside unsigned ones, to the receiver on ``port``."""
    signatures = Signatures([LiveSecret(FileSecret(SECRET))], SystemClock().now)
    return uvloop.run(_measure(port, {}, {}, signatures))


def shaped(port: int) -> Costs:
    """Measure requests shaped by a template beside structured CloudEvents, to the receiver on ``port``."""
    return uvloop.run(_measure(port, {"request": {"body": SHAPED}}, {"content_mode": "structured"}))


async def _measure(
    port: int,
    first: dict[str, Any],
    second: dict[str, Any],
    signatures: Signatures | None = None,
) -> Costs:
    client = HttpClient(allow_private=["127.0.0.0/8"])
    sinks = (_sink(port, client, first, signatures), _sink(port, client, second, None))
    outgoing = [_outgoing(number) for number in range(TURN)]
    settle_heap()
    costs: Costs = ([], [])
    for sink in sinks:
        await _post(sink, outgoing)  # connections are open, names are known
    for turn in range(TURNS):
        for n in (0, 1) if turn % 2 else (1, 0):
            costs[n].append(await _post(sinks[n], outgoing))
    await client.stop()
    return costs


def _sink(
    port: int, client: HttpClient, settings: dict[str, Any], signatures: Signatures | None
) -> WebhookSink:
    usual = {"id": "bench", "source": {"broker": "log", "topics": ["bench"]}}
    subscription = Subscription.model_validate(
        {**usual, "sink": f"http://127.0.0.1:{port}/", **settings}
    )
    requests: RequestWriter = CloudEventRequests(subscription)
    if subscription.request is not None:
        requests = ShapedRequests(subscription, 1 << 20)
    return WebhookSink(subscription, client, requests=requests, signatures=signatures)


async def _post(sink: WebhookSink, outgoing: Sequence[DeliveryRequest]) -> float:
    left = iter(outgoing)

    async def work() -> None:
        for each in left:
            answer = await sink.send(each)
            if answer.status is None:
                raise RuntimeError(f"no answer: {answer}")

    begun = time.process_time()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return 1e6 * (time.process_time() - begun) / len(outgoing)


def _outgoing(number: int) -> DeliveryRequest:
    told = [(f"ce-{name}".encode(), value.encode()) for name, value in attributes(number).items()]
    (decoded,) = decode([*told, (b"content-type", b"application/json")], body(number))
    record = Record(None, (), None)
    message = Message(record, Partition("bench", 0), str(number), number, 0, 1)
    return DeliveryRequest(message, decoded, WITHIN)
