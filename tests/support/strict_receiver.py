"""A webhook that checks every rule of the CloudEvents webhook specification and records each
breach.

It consents only to the origin that it knows, by the whole name. It grants a rate and counts the deliveries
of a minute. Each delivery needs the origin, a body with its content type, and the credential.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from webhook_target import Received, WebhookTarget, status

WINDOW = 60.0  # seconds over which the rate is counted


@dataclass
class StrictReceiver:
    """A strict webhook.

    Attributes:
        origin: The only origin to which it consents.
        rate: The deliveries per minute that it grants, or None.
        consents: Whether it consents at all when it answers OPTIONS.
        credential: The Authorization header that it requires. "" accepts any.
        strict_bodies: Whether a delivery needs a body with its content type.
        breaches: What was wrong, in words. A delivery with a breach is answered 400.
        target: The HTTP server.
        also: Return the raw answer to a correct delivery, or None for 204.
    """

    origin: str = "bridge.example.com"
    rate: int | None = None
    consents: bool = True
    credential: str = ""
    strict_bodies: bool = True
    breaches: list[str] = field(default_factory=list)
    target: WebhookTarget = field(default_factory=WebhookTarget)
    also: Callable[[Received], bytes | None] = lambda _: None
    _times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target.consent = self._asked
        self.target.answer = self._delivered

    def _asked(self, request: Received) -> bytes:
        if not request.has("webhook-request-origin"):
            self.breaches.append("OPTIONS without an origin")
        if request.body:
            self.breaches.append("OPTIONS with a body")
        if not self.consents or request.header("webhook-request-origin") != self.origin:
            return status(200, "Allow: POST", "Access-Control-Allow-Origin: *")
        headers = ["Allow: POST", f"WebHook-Allowed-Origin: {self.origin}"]
        if self.rate is not None:
            headers.append(f"WebHook-Allowed-Rate: {self.rate}")
        return status(200, *headers)

    def _delivered(self, request: Received) -> bytes:
        self._times.append(request.at)
        before = len(self.breaches)
        self._check(request)
        if len(self.breaches) > before:
            return status(400)
        if self.credential and not self._is_known(request):
            return status(401)
        return self.also(request) or status(204)

    def _check(self, request: Received) -> None:
        if request.method != "POST":
            self.breaches.append(f"{request.method} instead of POST")
        if not request.has("webhook-request-origin"):
            self.breaches.append("no origin on a delivery")
        elif request.header("webhook-request-origin") != self.origin:
            self.breaches.append("another origin than in the handshake")
        if self.strict_bodies and not (request.body and request.has("content-type")):
            self.breaches.append("no body, or none with its content type")
        recent = [at for at in self._times if at > request.at - WINDOW]
        if self.rate is not None and len(recent) > self.rate:
            self.breaches.append(f"{len(recent)} deliveries in a minute")

    def _is_known(self, request: Received) -> bool:
        return request.has("authorization") and request.header("authorization") == self.credential
