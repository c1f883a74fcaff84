"""Write the requests of a webhook: CloudEvents, or requests shaped for a target that does not speak CloudEvents.

A ``RequestWriter`` makes the requests of one subscription and judges their answers. It sends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Protocol

import msgspec
from msgspec.structs import replace

from app.bindings.documents import FormatName, element_of, join_elements
from app.bindings.forwarding import forwarded
from app.bindings.http import TYPED, HttpMessage, encode
from app.bindings.record import Decoded, Header
from app.bindings.transcode import in_version
from app.delivery.request_batching import DocumentPiece
from app.errors import SenderError
from app.event.versions import NEWEST
from app.interfaces import SinkAnswer
from app.model.places import located
from app.model.secret import HIDDEN, FileSecret
from app.model.subscription import Subscription
from app.outlets.compiled import Outlet, compile_outlet
from app.outlets.request import ShapedRequest
from app.outlets.success import TargetAnswer
from app.routing.publications import encode_options_of
from app.sinks.masks import Mask
from app.sinks.secrets import LiveSecret

_CODED = b"content-encoding"
_PLAIN = b"identity"


class WebhookRequest(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """A request to a webhook, without credentials.

    Attributes:
        message: headers and body.
        method: HTTP method.
        target: path and query of the request line; empty for those of the URL of the subscription.
        mask: hides the secrets of the request wherever its answer is quoted.
        shown: returns the request as it may be shown; None if it may be shown as it is.
    """

    message: HttpMessage
    method: str = "POST"
    target: str = ""
    mask: Mask | None = None
    shown: Callable[[], WebhookRequest] | None = None

    def having(self, headers: Sequence[tuple[str, str]]) -> WebhookRequest:
        """Return the request with more headers after its own."""
        inner = self.shown
        shown = None if inner is None else lambda: inner().having(headers)
        return replace(self, message=self.message.having(headers), shown=shown)


class RequestWriter(Protocol):
    """Writes the requests of one subscription."""

    batched: bool
    """True if a request may have several events."""

    def write(self, decoded: Decoded) -> WebhookRequest:
        """Return the request of one event. Raises SenderError for an event that cannot be written."""

    def piece(self, decoded: Decoded, key: bytes | None) -> DocumentPiece | None:
        """Return the event as a part of a request of several; None if the event must be sent alone."""

    def join(self, pieces: Sequence[DocumentPiece], headers: Sequence[Header]) -> WebhookRequest:
        """Return the request of several events. ``headers`` may be forwarded with it."""

    def judged(self, answer: SinkAnswer, events: int) -> SinkAnswer:
        """Return the answer with the outcomes that the target's own rules give it, if there are any."""


class CloudEventRequests:
    """Requests in the HTTP binding of CloudEvents, in the content mode, format and version of the subscription."""

    def __init__(self, subscription: Subscription) -> None:
        self._writing = encode_options_of(subscription)
        self._forward = subscription.forwarded_names  # foreign headers to forward
        self._strict = subscription.strict_webhook  # no request without body and content type
        format_ = "json" if subscription.format == "as_received" else subscription.format
        self._format: FormatName = format_
        self.batched = subscription.batch is not None

    def write(self, decoded: Decoded) -> WebhookRequest:
        message = encode(decoded, self._writing, self._forward)
        if self._strict and not (message.body and TYPED[0] in message.names):
            message = encode(decoded, replace(self._writing, mode="structured"), self._forward)
        return WebhookRequest(message)

    def piece(self, decoded: Decoded, key: bytes | None) -> DocumentPiece | None:
        """Return the event as an element of a batch.

        Opaque documents cannot be joined. Events of older versions go alone, because a batch has one version.
        """
        if decoded.opaque:
            return None
        try:
            decoded = in_version(decoded, self._writing.version)
            if decoded.event.version != NEWEST:
                return None
            document = element_of(decoded, self._format)
        except SenderError:
            return None
        return DocumentPiece(decoded, document, key)

    def join(self, pieces: Sequence[DocumentPiece], headers: Sequence[Header]) -> WebhookRequest:
        body, media_type = join_elements([piece.document for piece in pieces], self._format)
        message = HttpMessage(TYPED, (media_type,), body)
        if headers:
            message = message.having([*forwarded(headers, self._forward)])
        return WebhookRequest(message)

    def judged(self, answer: SinkAnswer, events: int) -> SinkAnswer:  # noqa: ARG002 - no rules of its own
        return answer


class ShapedRequests:
    """Requests shaped by the setting ``request``. Its secrets are read again when their files change.

    Args:
        subscription: the subscription, which has the setting.
        limit: most bytes of a request of one event.

    Raises:
        SetupError: a template cannot be compiled.
    """

    def __init__(self, subscription: Subscription, limit: int) -> None:
        self._forward = subscription.forwarded_names
        self._secrets = {id(each): LiveSecret(each) for each in secrets_of(subscription)}
        self._current = lru_cache(maxsize=1)(self._compiled)
        self._compile_with = partial(_compiled_outlet, subscription, limit)
        self._hidden = self._compile_with(lambda _secret: HIDDEN)
        self.batched = self._hidden.batched and subscription.batch is not None

    def write(self, decoded: Decoded) -> WebhookRequest:
        outlet, mask = self._outlet()
        request = outlet.shape(decoded.event)
        headers = [*forwarded(decoded.foreign, self._forward)]
        return self._request(request, headers, mask, lambda: self._hidden.shape(decoded.event))

    def piece(self, decoded: Decoded, key: bytes | None) -> DocumentPiece | None:
        """Return the event as a part of a request of several. An event that cannot be shaped goes alone, and fails so."""
        try:
            return DocumentPiece(decoded, self._outlet()[0].piece(decoded.event), key)
        except SenderError:
            return None

    def join(self, pieces: Sequence[DocumentPiece], headers: Sequence[Header]) -> WebhookRequest:
        outlet, mask = self._outlet()

        def shown() -> ShapedRequest:
            return self._hidden.join([self._hidden.piece(each.decoded.event) for each in pieces])

        request = outlet.join([piece.document for piece in pieces])
        return self._request(request, [*forwarded(headers, self._forward)], mask, shown)

    def judged(self, answer: SinkAnswer, events: int) -> SinkAnswer:
        if answer.status is None or not self._hidden.judges:
            return answer
        coded = any(
            name.lower() == _CODED and value.lower() != _PLAIN for name, value in answer.headers
        )
        given = TargetAnswer(answer.status, answer.body, whole=not answer.cut and not coded)
        found = self._hidden.conclude(given, events)
        if found.outcomes is not None:
            answer = replace(answer, outcomes=tuple(found.outcomes))
        if found.wait is not None:
            answer = replace(answer, retry_after=str(found.wait))
        return answer

    def _outlet(self) -> tuple[Outlet, Mask | None]:
        return self._current(tuple([live() for live in self._secrets.values()]))

    def _compiled(self, texts: tuple[str, ...]) -> tuple[Outlet, Mask | None]:
        known = dict(zip(self._secrets, texts, strict=True))
        outlet = self._compile_with(lambda secret: known[id(secret)])
        return outlet, Mask(*texts) if texts else None

    def _request(
        self,
        made: ShapedRequest,
        headers: Sequence[tuple[str, str]],
        mask: Mask | None,
        shown: Callable[[], ShapedRequest],
    ) -> WebhookRequest:
        message = made.message.having(headers) if headers else made.message
        hidden = None if mask is None else lambda: self._request(shown(), headers, None, shown)
        return WebhookRequest(message, made.method, made.target, mask, hidden)


def secrets_of(subscription: Subscription) -> list[FileSecret]:
    """Return the secrets of the setting ``request``, in the order of the setting."""
    return [secret for _, secret in located(FileSecret, subscription.request)]


def _compiled_outlet(
    subscription: Subscription, limit: int, reveal: Callable[[FileSecret], str]
) -> Outlet:
    if subscription.request is None:
        raise TypeError(f"{subscription.id} has no request")
    return compile_outlet(subscription.request, subscription.webhook_url, reveal, limit)
