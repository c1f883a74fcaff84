"""``POST /v1/topics/…/records``: publish one event to a topic by hand, as Kafka's Produce does.

It is for inspection and repair; events of applications should use routes. The event may have any content mode
of HTTP. The binding of the broker writes the record, and the answer waits for the broker's acknowledgement. A
topic is never created, even if the broker's settings allow that for routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Header, Query, Request
from pydantic import Field

from app.api.access.operations import CallerDep, router
from app.api.access.parts import BrokersDep
from app.api.access.reach import demand_source
from app.api.http import bodies
from app.api.http.problems import RequestRefused
from app.api.http.views import CopyingView
from app.api.topics.routes import Broker, Topic, ends_of, log_of
from app.bindings import http
from app.bindings.record import Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions, Mode
from app.errors import BrokerError, BrokerRefused
from app.interfaces import Log
from app.model.spool import spooled_route
from app.routing.publications import PulsarProfile

LARGEST = 16 << 20  # bytes of a body, if the log has no limit of its own
GROWN = 2  # a document may be larger than its record by this factor: base64, names, quotes

_BODY = bodies.event_body("One CloudEvent: binary (`ce-` headers), structured, or a batch of one.")


class ReceiptView(CopyingView):
    """The place of the record that was written."""

    broker: str = Field(description="name of the broker")
    topic: str = Field(description="name of the topic")
    partition: int = Field(description="number of the partition")
    position: str = Field(description="position of the record in its partition")


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
    by: CallerDep,
    request: Request,
    broker: Broker,
    topic: Topic,
    key: Annotated[
        str | None, Header(alias="Skybridge-Key", description="key of the record")
    ] = None,
    content_mode: Annotated[Mode, Query(description="content mode of the record")] = "binary",
) -> ReceiptView:
    """Publish one event to an existing topic, without a route."""
    log = log_of(brokers, broker)
    if spooled_route(topic) is not None:
        what = f"{topic} is a spool, to which only Skybridge writes. Publish to its target instead"
        raise BrokerRefused(what, kind="not-authorised", broker=broker)
    body = await _body(request, log)
    decoded = _only_event(http.decode(request.headers.raw, body))
    demand_source(by, decoded.own_attributes.get("source"))
    manner = brokers.manners.get(broker, PulsarProfile())
    writing = EncodeOptions(mode=content_mode, names=manner.names, strings=manner.strings)
    key_bytes = None if key is None else key.encode("latin-1")  # the raw bytes of the header
    record = BINDINGS[brokers.kinds[broker]].encode(decoded, writing, key_bytes)
    await ends_of(log, broker, topic)  # refuses a missing topic, which some logs would create
    (result,) = await log.submit(topic, (record,))
    if isinstance(result, BrokerError):
        raise result
    return ReceiptView.of(result, broker=broker)


async def _body(request: Request, log: Log) -> bytes:
    """Return the body. Raise BrokerRefused with 413 if it is larger than a record may be."""
    bodies.demand_identity(request)
    largest = (log.capabilities.max_record or LARGEST) * GROWN
    refusal = BrokerRefused(
        f"the body is larger than {largest} bytes", kind="record-too-large", broker=log.name
    )
    return await bodies.read_body(request, largest, refusal)


def _only_event(decoded: Sequence[Decoded]) -> Decoded:
    """Return the only event. Raise Refused with 400 for a batch of another size."""
    if len(decoded) != 1:
        raise RequestRefused(
            400,
            "not-one-event",
            f"the request has {len(decoded)} events, but one is required. Send batches to /events",
        )
    return decoded[0]
