"""GitHub's webhooks as GitHub sends them, and the events that the intake makes of them."""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from app.bindings.http import HttpMessage
from app.event.value import CloudEvent, DataForm
from app.intakes.github import attributes

_JSON = "application/json"


def to_event(name: str, payload: bytes, *, delivery: str, received: str) -> CloudEvent:
    """The webhook ``name`` with body ``payload`` as an event.

    ``delivery``  the ``X-GitHub-Delivery`` header: the event's id.
    ``received``  RFC 3339 text: its time where the payload has none.
    """
    found = attributes(name, delivery, msgspec.json.decode(payload), received)
    return CloudEvent({**found, "datacontenttype": _JSON}, payload, DataForm.JSON)


def webhook(name: str, payload: bytes, *, delivery: str, secret: str) -> HttpMessage:
    """The request, signed over its body."""
    signature = hmac.digest(secret.encode(), payload, "sha256").hex()
    headers = (
        ("Content-Type", _JSON),
        ("User-Agent", "GitHub-Hookshot/example"),
        ("X-GitHub-Event", name),
        ("X-GitHub-Delivery", delivery),
        ("X-Hub-Signature-256", f"sha256={signature}"),
    )
    return HttpMessage.of(headers, payload)


def delivery_of(name: str, index: int, payload: bytes) -> str:
    """Example payloads come without their delivery header: a digest stands in, equal every time."""
    digest = hashlib.sha256(b"%s/%d/" % (name.encode(), index) + payload).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
