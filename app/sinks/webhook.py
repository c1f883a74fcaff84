"""A webhook as a sink: the event written for HTTP as its subscription wants it, and posted once."""

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
from app.sinks.credentials import TOKEN, Credentials, NoToken, Shown, StaticHeaders
from app.sinks.handshake import Handshake
from app.sinks.http_client import HttpClient
from app.sinks.masks import QUOTED, Mask
from app.sinks.replies import Replies
from app.sinks.signatures import Signatures

UNAUTHORIZED = 401
TOKEN_PAUSE = 10.0  # seconds until a token is asked for again where none was granted
_SUCCESS = range(200, 300)
_NO_EVENT = "the record is no CloudEvent: only a topic can take it as it is"
_ON_THE_WIRE = {"timeout", "reset", "reply"}  # faults of a request that was sent, or may have been
_NOTHING = Mask()


class Telling(NamedTuple):
    """``all``: also of attempts that delivered. ``bodies``: bytes of a body that are kept."""

    all: bool = False
    bodies: int = 4096


TELLING = Telling()


class WebhookSink(JoiningSink):
    """Of a subscription whose ``sink`` is a URL.

    ``headers``  that every request has.
    ``replies``  takes events out of answers; None: answers are answers.
    ``telling``  which attempts are told with what was sent.
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
        self._forward = subscription.forwarded_names  # foreign headers, onto the request (I3)
        self._strict = subscription.strict_webhook  # no request without a body and its type (W1)
        self._signatures = signatures
        self._credentials = credentials
        self._headers = headers
        self._is_plain = credentials is None and headers is None
        self._handshake = handshake
        format_ = "json" if subscription.format == "as_received" else subscription.format
        self._together: FormatName | None = None if subscription.batch is None else format_
        self._replies = replies

    def pace(self) -> float:
        """The rate that the webhook allowed."""
        return 0.0 if self._handshake is None else self._handshake.wait()

    def when_ready(self, ready: Callable[[], None]) -> None:
        """When consent came by the callback."""
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
        """Documents that nobody here reads cannot be joined; events of older versions go alone too, for
        a batch has one version (I6), and what of them a version cannot hold is written in 1.0."""
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
        message = HttpMessage(TYPED, (media_type,), body)  # H13
        if beside:
            message = message.having([*forwarded(beside, self._forward)])
        key = pieces[0].key if len(pieces) == 1 else None
        return await self._attempt(message, [piece.decoded for piece in pieces], key, within)

    async def _attempt(
        self, message: HttpMessage, events: Sequence[Decoded], key: bytes | None, within: float
    ) -> SinkAnswer:
        """One request, whatever is in it; ``key``: of the one record that it is made of."""
        if self._handshake is not None:
            refusal = await self._consent(self._handshake)
            if refusal is not None:
                return refusal
            if self._handshake.headers:  # W2
                message = message.having(self._handshake.headers)
        if self._signatures is not None:
            message = self._signatures.signed(message, events)
        shown: Shown | None = None
        if self._is_plain:
            answer = await self._client.post(self._url, message, within)
        else:
            answer, shown = await self._with_secrets(message, within)
        if self._replies is not None and answer.status in _SUCCESS:
            answer = await self._replies.take(answer, events, key)
        if self._telling.all or answer.status not in _SUCCESS:
            return told(answer, self._url, message, shown, self._telling.bodies)
        return answer if shown is None else shown.mask.on(answer)

    async def _with_secrets(
        self, message: HttpMessage, within: float
    ) -> tuple[SinkAnswer, Shown | None]:
        """With the headers of the subscription and its credentials. ``Shown``: what is to be hidden."""
        own = None if self._headers is None else self._headers.show()
        if own is not None:
            message = message.having(own.headers)
        if self._credentials is None:
            return await self._client.post(self._url, message, within), own
        answer, shown = await self._authorized(self._credentials, message, within)
        return answer, shown if own is None else own.beside(shown)

    async def _consent(self, handshake: Handshake) -> SinkAnswer | None:
        """Why the attempt may not be made now; None: it begins."""
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
    ) -> tuple[SinkAnswer, Shown | None]:
        """A 401 is answered once with something else, where there may be. ``Shown``: what is to be hidden."""
        try:
            shown = await credentials.show()
            answer = await self._client.post(*_with(self._url, shown, message), within)
            if answer.status == UNAUTHORIZED and credentials.refused(shown):
                shown = await credentials.show()
                answer = await self._client.post(*_with(self._url, shown, message), within)
        except NoToken as error:
            refusal = SinkAnswer(
                None, "token", str(error), body=error.said.encode(), hold=TOKEN_PAUSE
            )
            return refusal, None
        return answer, shown


def _with(url: str, shown: Shown, message: HttpMessage) -> tuple[str, HttpMessage]:
    return shown.url(url), message.having(shown.headers)


def told(
    answer: SinkAnswer, url: str, message: HttpMessage, shown: Shown | None, bodies: int
) -> SinkAnswer:
    """Return the answer with the exchange, masked. ``url``: without the access token that may have been added to it.
    ``shown``: the credentials of the attempt. ``bodies``: bytes of the body of the answer that are kept."""
    mask = _NOTHING if shown is None else shown.mask
    answer = mask.on(answer, max(QUOTED, bodies))
    if answer.status is None and (answer.unsent or answer.fault not in _ON_THE_WIRE):
        return answer
    if shown is not None and shown.access_token:
        url = with_parameter(url, TOKEN, HIDDEN)
    own = () if shown is None else shown.headers
    hidden = tuple((name, HIDDEN) for name, _ in own)
    target = read_url(url)
    headers = (("Host", target.authority), *message.headers, *hidden)
    came = answer.status is not None
    exchange = HttpExchange(
        line=f"POST {target.target} HTTP/1.1",
        headers=headers,
        body=message.body,
        size=len(message.body),
        status_line=f"HTTP/1.1 {answer.status}" if came else "",
        answer_headers=tuple(_safe(mask, *header) for header in answer.headers),
        answer_body=answer.body,
        answer_size=len(answer.body) if came and not answer.cut else None,
    )
    return replace(answer, exchange=exchange)


def _safe(mask: Mask, name: bytes, value: bytes) -> tuple[str, str]:
    """Return a header of the answer as it may be shown: it may be a secret of the target, or repeat one of ours."""
    text = name.decode("latin-1")
    if may_hold_credential(text.lower()):
        return text, HIDDEN
    return text, mask(value.decode("utf-8", "replace"))
