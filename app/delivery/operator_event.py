"""Operator events: CloudEvents about Skybridge itself. ``KINDS`` lists them.

``subject`` is the subscription, the route of a spool, or the audited operation. It is also the partition key, so
the events of one subject stay in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from app.errors import InvalidEvent
from app.event.validate import faults_of
from app.event.value import CloudEvent, DataForm


class OperatorEventKind(msgspec.Struct, frozen=True):
    """A kind of operator event.

    Attributes:
        type: The type of the event.
        about: The thing that is the subject of the event. The data has its name, except for an operation.
        when: The occasion, as a sentence.
        data: The further members of the data with their meaning. A member may be missing.
    """

    type: str
    about: Literal["subscription", "route", "operation"]
    when: str
    data: Mapping[str, str]


_AUDITED = {
    "kind": "`change`, `login`, `look` or `refusal`",
    "who": "name of the token, or `token`, `loopback`, `signal` or `file`",
    "address": "address of the caller; empty for a signal or a changed file",
    "operation": "operation id in the OpenAPI document",
    "target": "object of the operation, or empty",
    "status": "status of the answer; null if it was not known yet",
    "detail": "extent of the change, in words",
}

KINDS: Mapping[str, OperatorEventKind] = {
    "disabled": OperatorEventKind(
        "dev.skybridge.subscription.disabled",
        "subscription",
        "The target answered 410, so nothing is sent until an operator resumes the subscription.",
        {"cause": "the answer of the target"},
    ),
    "enabled": OperatorEventKind(
        "dev.skybridge.subscription.enabled",
        "subscription",
        "An operator resumed the subscription.",
        {"cause": "its previous state"},
    ),
    "paused": OperatorEventKind(
        "dev.skybridge.subscription.paused",
        "subscription",
        "An operator paused the subscription, or its endpoint fails.",
        {
            "cause": "the reason of the operator, or the failure",
            "seconds": "seconds until the next attempt, if the endpoint fails",
        },
    ),
    "lagging": OperatorEventKind(
        "dev.skybridge.subscription.lagging",
        "subscription",
        "The oldest undelivered event is 300 s old, or the log will soon drop events before they are delivered.",
        {
            "cause": "why events wait",
            "oldest_seconds": "age of the oldest undelivered event",
            "held": "messages that are read and not finished",
        },
    ),
    "dead-lettered": OperatorEventKind(
        "dev.skybridge.delivery.dead_lettered",
        "subscription",
        "Messages became dead letters.",
        {
            "cause": "the cause of the dead letters",
            "count": "number of dead letters with this cause since the last event of this kind",
        },
    ),
    "spooling": OperatorEventKind(
        "dev.skybridge.route.spooling",
        "route",
        "An outage of the broker fills the empty spool of the route.",
        {"cause": "why the broker accepts no events"},
    ),
    "spooled": OperatorEventKind(
        "dev.skybridge.route.spooled",
        "route",
        "The spool of the route is empty again.",
        {"repeats": "events that the target may have twice, since the start of the process"},
    ),
    "audited-change": OperatorEventKind(
        "dev.skybridge.audit.change",
        "operation",
        "A request changed the service or tried to, or a person logged in.",
        _AUDITED,
    ),
    "audited-look": OperatorEventKind(
        "dev.skybridge.audit.look", "operation", "A caller was shown event data.", _AUDITED
    ),
    "audited-refusal": OperatorEventKind(
        "dev.skybridge.audit.refusal",
        "operation",
        "A token lacked the scope of a request.",
        _AUDITED,
    ),
}
"""All kinds of operator events, by the name that ``interfaces.Notify`` takes."""


def make(
    kind: str, subject: str, detail: Mapping[str, object], *, id_: str, source: str, time: str
) -> CloudEvent:
    """Return an operator event.

    Args:
        kind: a key of ``KINDS``.
        subject: the subscription, route or operation.
        detail: further members of the data.
        id_: the id of the event.
        source: the source of the event.
        time: the time of the event, as RFC 3339.

    Raises:
        InvalidEvent: an attribute is not valid.
    """
    about = KINDS[kind].about
    attributes = {
        "specversion": "1.0",
        "id": id_,
        "source": source,
        "type": KINDS[kind].type,
        "subject": subject,
        "time": time,
        "datacontenttype": "application/json",
        "partitionkey": subject,
    }
    faults = faults_of(attributes, str)
    if faults:
        raise InvalidEvent(faults)
    named = {} if about == "operation" else {about: subject}
    return CloudEvent(attributes, msgspec.json.encode({**named, **detail}), DataForm.JSON)
