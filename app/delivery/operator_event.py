"""Operator events: CloudEvents about Skybridge itself.

==============  ==========================================  ==========================================
kind            type                                        when
==============  ==========================================  ==========================================
disabled        dev.skybridge.subscription.disabled         the target answered 410
enabled         dev.skybridge.subscription.enabled          an operator resumed it
paused          dev.skybridge.subscription.paused           the endpoint is at fault, or paused
                                                            by an operator
lagging         dev.skybridge.subscription.lagging          undelivered events are old
dead-lettered   dev.skybridge.delivery.dead_lettered        messages were given up, counted by cause
spooling        dev.skybridge.route.spooling                events of a route begin to wait in its spool
spooled         dev.skybridge.route.spooled                 the spool is empty again.
audited-change  dev.skybridge.audit.change                  a change, or a try of one, and logins.
audited-look    dev.skybridge.audit.look                    an operator was shown event data.
audited-refusal dev.skybridge.audit.refusal                 a token lacked the scope of a request
==============  ==========================================  ==========================================

``subject`` is the subscription, the route of a spool, or the audited operation. It is also the partition key, so
the events of one subject stay in order."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from app.errors import InvalidEvent
from app.event.validate import faults_of
from app.event.value import CloudEvent, DataForm

TYPES: Mapping[str, str] = {
    "disabled": "dev.skybridge.subscription.disabled",
    "enabled": "dev.skybridge.subscription.enabled",
    "paused": "dev.skybridge.subscription.paused",
    "lagging": "dev.skybridge.subscription.lagging",
    "dead-lettered": "dev.skybridge.delivery.dead_lettered",
    "spooling": "dev.skybridge.route.spooling",
    "spooled": "dev.skybridge.route.spooled",
    "audited-change": "dev.skybridge.audit.change",
    "audited-look": "dev.skybridge.audit.look",
    "audited-refusal": "dev.skybridge.audit.refusal",
}
_OF_OPERATIONS, _OF_ROUTES = "audited-", "spool"


def make(
    kind: str, subject: str, detail: Mapping[str, object], *, id_: str, source: str, time: str
) -> CloudEvent:
    """Return an operator event.

    Args:
        kind: a key of ``TYPES``.
        subject: the subscription, route or operation.
        detail: further members of the data.
        id_: the id of the event.
        source: the source of the event.
        time: the time of the event, as RFC 3339.

    Raises:
        InvalidEvent: an attribute is not valid.
    """
    attributes = {
        "specversion": "1.0",
        "id": id_,
        "source": source,
        "type": TYPES[kind],
        "subject": subject,
        "time": time,
        "datacontenttype": "application/json",
        "partitionkey": subject,
    }
    faults = faults_of(attributes, str)
    if faults:
        raise InvalidEvent(faults)
    about = {"route" if kind.startswith(_OF_ROUTES) else "subscription": subject}
    if kind.startswith(_OF_OPERATIONS):
        about = {}
    return CloudEvent(attributes, msgspec.json.encode({**about, **detail}), DataForm.JSON)
