"""``POST /v1/topics/…/records``: the Produce answer of the Kafka protocol guide, for one event.

For looking and mending by hand: events that matter go through routes. It takes an event in any mode of
HTTP, writes it as the broker's binding does, waits for the broker's acknowledgement within its time-out,
and never makes a topic, whatever the broker's settings allow to routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Header, Query, Request

from app.api.access.operations import By, router
from app.api.access.parts import BrokersDep
from app.api.access.reach import demand_source
from app.api.http import bodies
from app.api.http.problems import Refused
from app.api.http.views import View
from app.api.topics.routes import Broker, Topic, ends_of, log_of
from app.bindings import http
from app.bindings.record import Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import Mode, Writing
from app.errors import BrokerError, BrokerRefused
from app.interfaces import Log
from app.model.spool import spooled_route
from app.routing.publications import Manner

LARGEST = 16 << 20  # bytes of a body, where the log names no bound of its own
GROWN = 2  # a document may be so much larger than the record made of it: base64, names, quotes

_BODY = bodies.event_body("One CloudEvent: binary (`ce-` headers), structured, or a batch of one.")


class ReceiptView(View):
    """The position of a record."""

    broker: str
    topic: str
    partition: int
    position: str


routes = router("/v1/topics", tags=["topics"])


@routes.operation(
    "POST /{broker}/{topic:path}/records",
    "produce",
    (400, 403, 404, 413, 415, 503),
    status_code=201,
    openapi_extra=_BODY,
)
async def publish(
    brokers: BrokersDep,
    by: By,
    request: Request,
    broker: Broker,
    topic: Topic,
    key: Annotated[
        str | None, Header(alias="Skybridge-Key", description="the record key (K7)")
    ] = None,
    content_mode: Annotated[Mode, Query(description="content mode of the record")] = "binary",
) -> ReceiptView:
    """Publish one event to an existing topic, without a route (Produce)."""
    log = log_of(brokers, broker)
    if spooled_route(topic) is not None:
        what = (
            f"{topic} is a spool: its records say where they go, and the service alone writes them"
        )
        raise BrokerRefused(what, kind="not-authorised", broker=broker)
    body = await _body(request, log)
    decoded = _one(http.decode(request.headers.raw, body))
    demand_source(by, decoded.own_attributes.get("source"))
    manner = brokers.manners.get(broker, Manner())
    writing = Writing(mode=content_mode, names=manner.names, strings=manner.strings)
    key_bytes = None if key is None else key.encode("latin-1")  # as they came: no text need be
    record = BINDINGS[brokers.kinds[broker]].encode(decoded, writing, key_bytes)
    await ends_of(log, broker, topic)  # also refuses what a log would make by itself
    (result,) = await log.submit(topic, (record,))
    if isinstance(result, BrokerError):
        raise result
    return ReceiptView.of(result, broker=broker)


async def _body(request: Request, log: Log) -> bytes:
    """Not more of it than could be stored."""
    bodies.demand_identity(request)
    largest = (log.capabilities.max_record or LARGEST) * GROWN
    refusal = BrokerRefused(
        f"the body is larger than {largest} bytes", kind="record-too-large", broker=log.name
    )
    return await bodies.bounded(request, largest, refusal)


def _one(decoded: Sequence[Decoded]) -> Decoded:
    if len(decoded) != 1:
        raise Refused(
            400,
            "not-one-event",
            f"the request has {len(decoded)} events, but only one is allowed: post batches to /events",
        )
    return decoded[0]
