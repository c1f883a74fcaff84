"""A webhook as a sink: encode the event as HTTP the way the subscription asks, and post it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from app.bindings.documents import FormatName, element_of, joined
from app.bindings.forwarding import forwarded, may_hold_credential
from app.bindings.http import TYPED, HttpMessage, encode
from app.bindings.record import Decoded, Header
from app.bindings.transcode import in_version
from app.delivery.request_batching import DocumentPiece
from app.delivery.target_url import read_url, with_parameter
from app.errors import SenderError
from app.event.versions import NEWEST
from app.interfaces import (
    Asking,
    HttpExchange,
    JoiningSink,
    Outgoing,
    SinkAnswer,
    answered,
    unwritable,
)
from app.model.secret import HIDDEN
from app.model.subscription import Subscription
from app.routing.publications import writing_of
from app.sinks.credentials import TOKEN, Credentials, NoToken, RequestCredentials, StaticHeaders
from app.sinks.handshake import Handshake
from app.sinks.http_client import HttpClient
from app.sinks.masks import MAX_QUOTED, Mask
from app.sinks.replies import Replies
from app.sinks.signatures import Signatures

UNAUTHORIZED = 401
TOKEN_PAUSE = 10.0  # seconds until a refused access token is requested again
_SUCCESS = range(200, 300)
_NO_EVENT = "the record is no CloudEvent: only a topic can take it as it is"
_ON_THE_WIRE = {"timeout", "reset", "reply"}  # faults of requests that were or may have been sent
_NOTHING = Mask()


class Telling(NamedTuple):
    """The choice of attempts that keep their HTTP exchange for display.

    ``all`` includes attempts that succeeded. ``bodies`` is the number of body bytes that are kept.
    """

    all: bool = False
    bodies: int = 4096


TELLING = Telling()


class WebhookSink(JoiningSink):
    """The sink of a subscription that delivers to a URL.

    Args:
        subscription: the subscription.
        client: sends the requests.
        signatures: signs the requests, if set.
        credentials: the credentials of the requests, if any.
        headers: the configured headers of every request, if any.
        handshake: the consent of the webhook, if it must be asked.
        replies: publishes events in answers; None ignores them.
        telling: the attempts that keep their HTTP exchange.
    """

    def __init__(
        self,
        subscription: Subscription,
        client: HttpClient,
        *,
        signatures: Signatures | None = None,
        credentials: Credentials | None = None,
        headers: StaticHeaders | None = None,
        handshake: Handshake | None = None,
        replies: Replies | None = None,
        telling: Telling = TELLING,
    ) -> None:
        self._url = str(subscription.sink)
        self._telling = telling
        self._client = client
        self._writing = writing_of(subscription)
        self._forward = subscription.forwarded_names  # foreign headers to forward
        self._strict = subscription.strict_webhook  # no request without body and content type
        self._signatures = signatures
        self._credentials = credentials
        self._headers = headers
        self._is_plain = credentials is None and headers is None
        self._handshake = handshake
        format_ = "json" if subscription.format == "as_received" else subscription.format
        self._together: FormatName | None = None if subscription.batch is None else format_
        self._replies = replies

    def pace(self) -> float:
        """Return the seconds until the rate of the webhook permits another attempt."""
        return 0.0 if self._handshake is None else self._handshake.wait()

    def when_ready(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` when the webhook consents by the callback."""
        if self._handshake is not None:
            self._handshake.when_ready(ready)

    def send(self, outgoing: Outgoing) -> Asking:
        decoded = outgoing.decoded
        if decoded is None:
            return answered(unwritable(_NO_EVENT))
        piece = None if self._together is None else self.piece(outgoing)
        if piece is not None:
            return self.send_together((piece,), outgoing.timeout)
        try:
            message = self._written(decoded)
        except SenderError as error:
            return answered(unwritable(str(error)))
        return self._attempt(message, (decoded,), outgoing.message.record.key, outgoing.timeout)

    def piece(self, outgoing: Outgoing) -> DocumentPiece | None:
        """Return the event as an element of a batch, or None if it must be sent alone.

        Opaque documents cannot be joined. Events of older versions go alone, because a batch has
        one version.
        """
        if self._together is None or outgoing.decoded is None or outgoing.decoded.opaque:
            return None
        try:
            decoded = in_version(outgoing.decoded, self._writing.version)
            if decoded.event.version != NEWEST:
                return None
            document = element_of(decoded, self._together)
        except SenderError:
            return None
        return DocumentPiece(decoded, document, outgoing.message.record.key)

    async def send_together(
        self, pieces: Sequence[DocumentPiece], within: float, beside: Sequence[Header] = ()
    ) -> SinkAnswer:
        body, media_type = joined([piece.document for piece in pieces], self._together or "json")
        message = HttpMessage(TYPED, (media_type,), body)
        if beside:
            message = message.having([*forwarded(beside, self._forward)])
        key = pieces[0].key if len(pieces) == 1 else None
        return await self._attempt(message, [piece.decoded for piece in pieces], key, within)

    async def _attempt(
        self, message: HttpMessage, events: Sequence[Decoded], key: bytes | None, within: float
    ) -> SinkAnswer:
        """Send one request with one or more events. ``key`` is the key of the record, if there is
        only one.
        """
        if self._handshake is not None:
            refusal = await self._consent(self._handshake)
            if refusal is not None:
                return refusal
            if self._handshake.headers:
                message = message.having(self._handshake.headers)
        if self._signatures is not None:
            message = self._signatures.signed(message, events)
        used: RequestCredentials | None = None
        if self._is_plain:
            answer = await self._client.post(self._url, message, within)
        else:
            answer, used = await self._with_secrets(message, within)
        if self._replies is not None and answer.status in _SUCCESS:
            answer = await self._replies.take(answer, events, key)
        if self._telling.all or answer.status not in _SUCCESS:
            return with_exchange(answer, self._url, message, used, self._telling.bodies)
        return answer if used is None else used.mask.masked_answer(answer)

    async def _with_secrets(
        self, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, RequestCredentials | None]:
        """Send the request with its configured headers and credentials. Return the answer and the
        credentials that must be hidden in it.
        """
        configured = None if self._headers is None else self._headers.current()
        if configured is not None:
            message = message.having(configured.headers)
        if self._credentials is None:
            return await self._client.post(self._url, message, within), configured
        answer, used = await self._authorized(self._credentials, message, within)
        return answer, used if configured is None else configured.combined_with(used)

    async def _consent(self, handshake: Handshake) -> SinkAnswer | None:
        """Return the answer of an attempt that may not be made now. Return None if the attempt
        begins.
        """
        if handshake.due:
            await handshake.settle()
            refusal = handshake.refusal()
            if refusal is not None:
                return refusal
        handshake.take()
        return None

    async def stop(self) -> None:
        if self._handshake is not None:
            await self._handshake.stop()
        await self._client.stop()

    def _written(self, decoded: Decoded) -> HttpMessage:
        message = encode(decoded, self._writing, self._forward)
        if not self._strict or (message.body and TYPED[0] in message.names):
            return message
        return encode(decoded, replace(self._writing, mode="structured"), self._forward)

    async def _authorized(
        self, credentials: Credentials, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, RequestCredentials | None]:
        """Send the request with credentials, and once more with new ones after a 401. Return the
        answer and the credentials that must be hidden in it.
        """
        try:
            used = await credentials.current()
            answer = await self._client.post(*_authorized_request(self._url, used, message), within)
            if answer.status == UNAUTHORIZED and credentials.refused(used):
                used = await credentials.current()
                answer = await self._client.post(
                    *_authorized_request(self._url, used, message), within
                )
        except NoToken as error:
            refusal = SinkAnswer(
                None, "token", str(error), body=error.said.encode(), hold=TOKEN_PAUSE
            )
            return refusal, None
        return answer, used


def _authorized_request(
    url: str, used: RequestCredentials, message: HttpMessage
) -> tuple[str, HttpMessage]:
    return used.url(url), message.having(used.headers)


def with_exchange(
    answer: SinkAnswer, url: str, message: HttpMessage, used: RequestCredentials | None, bodies: int
) -> SinkAnswer:
    """Return the answer with its HTTP exchange, in which secrets are masked.

    Args:
        answer: the answer of the attempt.
        url: the target, without an access token.
        message: the request, without credentials.
        used: the credentials of the attempt, if any.
        bodies: most bytes of the answer's body that are kept.
    """
    mask = _NOTHING if used is None else used.mask
    answer = mask.masked_answer(answer, max(MAX_QUOTED, bodies))
    if answer.status is None and (answer.unsent or answer.fault not in _ON_THE_WIRE):
        return answer
    if used is not None and used.access_token:
        url = with_parameter(url, TOKEN, HIDDEN)
    configured = () if used is None else used.headers
    hidden = tuple((name, HIDDEN) for name, _ in configured)
    target = read_url(url)
    headers = (("Host", target.authority), *message.headers, *hidden)
    is_answered = answer.status is not None
    exchange = HttpExchange(
        line=f"POST {target.target} HTTP/1.1",
        headers=headers,
        body=message.body,
        size=len(message.body),
        status_line=f"HTTP/1.1 {answer.status}" if is_answered else "",
        answer_headers=tuple(_displayable_header(mask, *header) for header in answer.headers),
        answer_body=answer.body,
        answer_size=len(answer.body) if is_answered and not answer.cut else None,
    )
    return replace(answer, exchange=exchange)


def _displayable_header(mask: Mask, name: bytes, value: bytes) -> tuple[str, str]:
    """Return a header of the answer for display. Its value is hidden if it may hold a credential,
    and else masked.
    """
    text = name.decode("latin-1")
    if may_hold_credential(text.lower()):
        return text, HIDDEN
    return text, mask(value.decode("utf-8", "replace"))
