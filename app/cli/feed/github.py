"""Make the request that GitHub sends for a webhook, and the event into which the intake converts
this request.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from app.bindings.http import HttpMessage
from app.event.value import CloudEvent, DataForm
from app.intakes.github import attributes

_JSON = "application/json"


def to_event(name: str, payload: bytes, *, delivery: str, received: str) -> CloudEvent:
    """Return the webhook ``name`` with the body ``payload`` as an event.

    Args:
        name: The kind of webhook, from the header ``X-GitHub-Event``.
        payload: The JSON body.
        delivery: The header ``X-GitHub-Delivery``, which becomes the event's id.
        received: An RFC 3339 time, for payloads that have none.
    """
    found = attributes(name, delivery, msgspec.json.decode(payload), received)
    return CloudEvent({**found, "datacontenttype": _JSON}, payload, DataForm.JSON)


def webhook(name: str, payload: bytes, *, delivery: str, secret: str) -> HttpMessage:
    """Return the request that GitHub sends, signed over its body with ``secret``."""
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
    """Return a delivery id for an example payload, which has none. The id is a digest, so the same
    payload always gets the same id.
    """
    digest = hashlib.sha256(b"%s/%d/" % (name.encode(), index) + payload).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
