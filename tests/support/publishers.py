"""Signed webhook requests of several publishers, built from their documentation without the code
under test."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, NamedTuple
from urllib.parse import urlencode

SECRET = "a secret of both sides"
KEY = "whsec_" + base64.b64encode(b"a key of thirty-two bytes, shared").decode()
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


class Sent(NamedTuple):
    """A webhook request: its headers in order, and its body."""

    headers: tuple[tuple[str, str], ...]
    body: bytes

    def but(self, name: str, value: str | None) -> Sent:
        """Return the request with another value of one header, or without the header if the value
        is None."""
        rest = tuple(pair for pair in self.headers if pair[0].lower() != name.lower())
        return Sent(rest if value is None else (*rest, (name, value)), self.body)

    @property
    def pairs(self) -> list[tuple[bytes, bytes]]:
        return [(name.lower().encode(), value.encode()) for name, value in self.headers]


def text(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def hexed(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def github(
    payload: Any,
    event: str = "push",
    delivery: str = "d-1",
    *,
    secret: str = SECRET,
    form: bool = False,
) -> Sent:
    body = urlencode({"payload": text(payload)}).encode() if form else text(payload)
    return Sent(
        (
            ("Content-Type", FORM if form else JSON),
            ("X-GitHub-Event", event),
            ("X-GitHub-Delivery", delivery),
            ("X-Hub-Signature-256", "sha256=" + hexed(secret, body)),
        ),
        body,
    )


def gitlab(payload: Any, key: str = "k-1", *, token: str = SECRET) -> Sent:
    headers = (
        ("Content-Type", JSON),
        ("X-Gitlab-Event", "Push Hook"),
        ("X-Gitlab-Instance", "https://gitlab.example.com"),
        ("Idempotency-Key", key),
        ("X-Gitlab-Token", token),
    )
    return Sent(headers, text(payload))


def stripe(payload: Any, at: float, *secrets: str) -> Sent:
    body = text(payload)
    content = f"{int(at)}.".encode() + body
    signatures = "".join(f",v1={hexed(secret, content)}" for secret in secrets or (SECRET,))
    mark = f"t={int(at)},v0={'0' * 64}{signatures}"
    return Sent(
        (("Content-Type", "application/json; charset=utf-8"), ("Stripe-Signature", mark)), body
    )


def slack(payload: Any, at: float, *, secret: str = SECRET) -> Sent:
    """Return a signed request of Slack. A payload of ``bytes`` is sent as a form."""
    body = text(payload)
    content = f"v0:{int(at)}:".encode() + body
    headers = (
        ("Content-Type", FORM if isinstance(payload, bytes) else JSON),
        ("X-Slack-Request-Timestamp", str(int(at))),
        ("X-Slack-Signature", "v0=" + hexed(secret, content)),
    )
    return Sent(headers, body)


def shopify(payload: Any, webhook: str = "w-1", *, secret: str = SECRET) -> Sent:
    body = text(payload)
    mark = base64.b64encode(hmac.new(secret.encode(), body, hashlib.sha256).digest()).decode()
    return Sent(
        (
            ("Content-Type", JSON),
            ("X-Shopify-Topic", "orders/create"),
            ("X-Shopify-Shop-Domain", "snow.myshopify.com"),
            ("X-Shopify-Webhook-Id", webhook),
            ("X-Shopify-Event-Id", "e-1"),
            ("X-Shopify-Triggered-At", "2026-03-29T18:00:27.877041743Z"),
            ("X-Shopify-Hmac-Sha256", mark),
        ),
        body,
    )


def standard(payload: Any, at: float, identity: str = "msg_1", *, key: str = KEY) -> Sent:
    body = text(payload)
    raw = base64.b64decode(key.removeprefix("whsec_"))
    content = f"{identity}.{int(at)}.".encode() + body
    mark = base64.b64encode(hmac.new(raw, content, hashlib.sha256).digest()).decode()
    headers = (
        ("Content-Type", JSON),
        ("webhook-id", identity),
        ("webhook-timestamp", str(int(at))),
        ("webhook-signature", f"v1,{mark}"),
    )
    return Sent(headers, body)
