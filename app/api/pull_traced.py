"""The span of one handing out: of whoever asked, and linked with each event that was handed out.

There is none of a request that got nothing: consumers ask again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.api.handing_out import Handed
from app.model.subscription import Subscription
from app.telemetry.traces import TRACEPARENT, TRACESTATE, carried_by, messaging_system, traces


def tell_received(
    asked: Mapping[str, str],
    subscription: Subscription,
    kind: str,
    handed: Sequence[Handed],
    began: float,
) -> None:
    """``asked``: headers of the request. ``began``: seconds since the epoch, when it began to wait."""
    found = traces()
    if found is None:
        return
    topics = {row.message.partition.topic for row, _ in handed}
    about: dict[str, str | int] = {
        "messaging.system": messaging_system(kind),
        "messaging.operation.type": "receive",
        "messaging.operation.name": "receive",
        "messaging.batch.message_count": len(handed),
        "skybridge.subscription": subscription.id,
    }
    name = "receive"
    if len(topics) == 1:
        (about["messaging.destination.name"],) = topics
        name = f"receive {about['messaging.destination.name']}"
    events = [found.carried(carried_by(row.message.record.headers)) for row, _ in handed]
    carried = {each: asked[each] for each in (TRACEPARENT, TRACESTATE) if each in asked}
    found.linked(name, "server", events, about, carried, began).end()
