"""A webhook as a sink: encode the event as HTTP the way the subscription asks, and post it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import NamedTuple

from msgspec.structs import replace

from app.bindings.forwarding import may_hold_credential
from app.bindings.record import Decoded, Header
from app.delivery.outcomes import Fate
from app.delivery.request_batching import DocumentPiece
from app.delivery.target_url import read_url, with_parameter
from app.errors import SenderError
from app.interfaces import (
    AnswerCallback,
    BatchSink,
    BegunAttempt,
    DeliveryRequest,
    HttpExchange,
    PendingAnswer,
    SinkAnswer,
    known_answer,
    unwritable,
)
from app.model.secret import HIDDEN
from app.model.subscription import Subscription
from app.sinks.credentials import TOKEN, Credentials, NoToken, RequestCredentials, StaticHeaders
from app.sinks.handshake import Handshake
from app.sinks.http_answer import SHORT
from app.sinks.http_client import HttpClient
from app.sinks.masks import MAX_QUOTED, Mask
from app.sinks.replies import ReplyPublisher
from app.sinks.signatures import Signatures
from app.sinks.webhook_requests import CloudEventRequests, RequestWriter, WebhookRequest

UNAUTHORIZED = 401
TOKEN_PAUSE = 10.0  # seconds until a refused access token is requested again
_SUCCESS = range(200, 300)
_NO_EVENT = "the record is no CloudEvent: only a topic can take it as it is"
_ON_THE_WIRE = {"timeout", "reset", "reply"}  # faults of requests that were or may have been sent
_NOTHING = Mask()


class ExchangeCapture(NamedTuple):
    """The choice of attempts that keep their HTTP exchange for display.

    ``all`` includes attempts that succeeded. ``bodies`` is the number of body bytes that are kept.
    """

    all: bool = False
    bodies: int = 4096


TELLING = ExchangeCapture()


class WebhookSink(BatchSink):
    """The sink of a subscription that delivers to a URL.

    Args:
        subscription: the subscription.
        client: sends the requests.
        requests: writes the requests; CloudEvents by default.
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
        requests: RequestWriter | None = None,
        signatures: Signatures | None = None,
        credentials: Credentials | None = None,
        headers: StaticHeaders | None = None,
        handshake: Handshake | None = None,
        replies: ReplyPublisher | None = None,
        telling: ExchangeCapture = TELLING,
    ) -> None:
        self._url = subscription.webhook_url
        self._url_mask = _url_mask(self._url) if subscription.hides_sink else None
        self._telling = telling
        self._client = client
        self._requests = requests or CloudEventRequests(subscription)
        self._signatures = signatures
        self._credentials = credentials
        self._headers = headers
        self._is_plain = credentials is None and headers is None
        self.begins = self._is_plain and replies is None and subscription.batch is None
        self._usual: SinkAnswer | None = None  # the last success of which nothing is kept or hidden
        self._handshake = handshake
        self._replies = replies

    def pace(self) -> float:
        """Return the seconds until the rate of the webhook permits another attempt."""
        return 0.0 if self._handshake is None else self._handshake.wait()

    def when_ready(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` when the webhook consents by the callback."""
        if self._handshake is not None:
            self._handshake.when_ready(ready)

    def send(self, outgoing: DeliveryRequest) -> PendingAnswer:
        decoded = outgoing.decoded
        if decoded is None:
            return known_answer(unwritable(_NO_EVENT))
        piece = self.piece(outgoing) if self._requests.batched else None
        if piece is not None:
            return self.send_together((piece,), outgoing.timeout)
        try:
            request = self._requests.write(decoded)
        except SenderError as error:
            return known_answer(unwritable(str(error)))
        return self._attempt(request, (decoded,), outgoing.message.record.key, outgoing.timeout)

    def begin(
        self, decoded: Decoded | None, within: float, on_answer: AnswerCallback
    ) -> BegunAttempt | None:
        handshake = self._handshake
        if decoded is None or not self.begins or (handshake is not None and handshake.due):
            return None
        try:
            request = self._requests.write(decoded)
        except SenderError:
            return None
        if handshake is not None and handshake.headers:
            request = request.having(handshake.headers)
        if self._signatures is not None:
            request = self._signed(self._signatures, request, (decoded,))
        begun = self._client.begin(
            request.method,
            self._url,
            request.message,
            within,
            partial(self._report, on_answer, request),
            request.target,
        )
        if begun is not None and handshake is not None:
            handshake.take()
        return begun

    def _report(
        self, on_answer: AnswerCallback, request: WebhookRequest, answer: SinkAnswer
    ) -> None:
        """Report the answer to a request with one event that was sent without a task."""
        if answer is self._usual:
            on_answer(answer)
            return
        judged = self._requests.judged(answer, 1)
        reported = self._reported(judged, request, None)
        if reported is answer and request.mask is None and len(answer.body) <= SHORT:
            self._usual = answer  # it stays as it is after any request
        on_answer(reported)

    def piece(self, outgoing: DeliveryRequest) -> DocumentPiece | None:
        """Return the event as a part of a request with several events, or None if it must be sent
        alone."""
        if not self._requests.batched or outgoing.decoded is None:
            return None
        return self._requests.piece(outgoing.decoded, outgoing.message.record.key)

    async def send_together(
        self, pieces: Sequence[DocumentPiece], within: float, beside: Sequence[Header] = ()
    ) -> SinkAnswer:
        request = self._requests.join(pieces, beside)
        key = pieces[0].key if len(pieces) == 1 else None
        return await self._attempt(request, [piece.decoded for piece in pieces], key, within)

    async def _attempt(
        self, request: WebhookRequest, events: Sequence[Decoded], key: bytes | None, within: float
    ) -> SinkAnswer:
        """Send one request with one or more events. ``key`` is the key of the record, if there is
        only one.
        """
        if self._handshake is not None:
            refusal = await self._consent(self._handshake)
            if refusal is not None:
                return refusal
            if self._handshake.headers:
                request = request.having(self._handshake.headers)
        if self._signatures is not None:
            request = self._signed(self._signatures, request, events)
        used: RequestCredentials | None = None
        if self._is_plain:
            answer = await self._post(request, within)
        else:
            answer, used = await self._with_secrets(request, within)
        answer = self._requests.judged(answer, len(events))
        if self._replies is not None and answer.status in _SUCCESS:
            answer = await self._replies.take(answer, events, key)
        return self._reported(answer, request, used)

    def _reported(
        self, answer: SinkAnswer, request: WebhookRequest, used: RequestCredentials | None
    ) -> SinkAnswer:
        """Return the answer without secrets, and with its HTTP exchange if that is kept."""
        mask = self._mask(request, used)
        if self._telling.all or not _is_success(answer):
            return self._with_exchange(answer, request, used, mask)
        return answer if mask is None else mask.masked_answer(answer)

    @staticmethod
    def _signed(
        signatures: Signatures, request: WebhookRequest, events: Sequence[Decoded]
    ) -> WebhookRequest:
        signed = signatures.signed(request.message, events)
        if request.shown is None:
            return replace(request, message=signed)
        return request.having(signed.headers[len(request.message.names) :])

    def _post(self, request: WebhookRequest, within: float) -> PendingAnswer:
        return self._client.send(request.method, self._url, request.message, within, request.target)

    def _mask(self, request: WebhookRequest, used: RequestCredentials | None) -> Mask | None:
        """Return the mask that hides all secrets of an attempt. Return None if there are no
        secrets."""
        if used is None and request.mask is None:
            return self._url_mask
        masks = [self._url_mask, request.mask, None if used is None else used.mask]
        known = [mask for mask in masks if mask is not None]
        return reduce(Mask.combined_with, known) if known else None

    async def _with_secrets(
        self, request: WebhookRequest, within: float
    ) -> tuple[SinkAnswer, RequestCredentials | None]:
        """Send the request with its configured headers and credentials. Return the answer and the
        credentials that must be hidden in it.
        """
        configured = None if self._headers is None else self._headers.current()
        if configured is not None:
            request = request.having(configured.headers)
        if self._credentials is None:
            return await self._post(request, within), configured
        answer, used = await self._authorized(self._credentials, request, within)
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

    async def _authorized(
        self, credentials: Credentials, request: WebhookRequest, within: float
    ) -> tuple[SinkAnswer, RequestCredentials | None]:
        """Send the request with credentials, and once more with new ones after a 401. Return the
        answer and the credentials that must be hidden in it.
        """
        try:
            used = await credentials.current()
            answer = await self._authorized_post(request, used, within)
            if answer.status == UNAUTHORIZED and credentials.refused(used):
                used = await credentials.current()
                answer = await self._authorized_post(request, used, within)
        except NoToken as error:
            refusal = SinkAnswer(
                None, "token", str(error), body=error.said.encode(), hold=TOKEN_PAUSE
            )
            return refusal, None
        return answer, used

    def _authorized_post(
        self, request: WebhookRequest, used: RequestCredentials, within: float
    ) -> PendingAnswer:
        target = used.url(request.target) if request.target else ""
        message = request.message.having(used.headers)
        return self._client.send(request.method, used.url(self._url), message, within, target)

    def _with_exchange(
        self,
        answer: SinkAnswer,
        request: WebhookRequest,
        used: RequestCredentials | None,
        mask: Mask | None,
    ) -> SinkAnswer:
        """Return the answer with its HTTP exchange, in which secrets are masked."""
        mask = mask or _NOTHING
        answer = mask.masked_answer(answer, max(MAX_QUOTED, self._telling.bodies))
        if answer.status is None and (answer.unsent or answer.fault not in _ON_THE_WIRE):
            return answer
        shown = request.shown() if request.shown is not None else request
        hidden = () if used is None else tuple((name, HIDDEN) for name, _ in used.headers)
        message = shown.message
        is_answered = answer.status is not None
        exchange = HttpExchange(
            line=f"{shown.method} {self._shown_target(shown, used)} HTTP/1.1",
            headers=(("Host", read_url(self._url).authority), *message.headers, *hidden),
            body=message.body,
            size=len(request.message.body),
            status_line=f"HTTP/1.1 {answer.status}" if is_answered else "",
            answer_headers=tuple(_displayable_header(mask, *header) for header in answer.headers),
            answer_body=answer.body,
            answer_size=len(answer.body) if is_answered and not answer.cut else None,
        )
        return replace(answer, exchange=exchange)

    def _shown_target(self, shown: WebhookRequest, used: RequestCredentials | None) -> str:
        """Return path and query of the request line, without an access token or a secret URL."""
        if self._url_mask is not None:
            return f"/{HIDDEN}"
        target = shown.target or read_url(self._url).target
        if used is not None and used.access_token:
            return with_parameter(target, TOKEN, HIDDEN)
        return target


def _is_success(answer: SinkAnswer) -> bool:
    if answer.outcomes:
        return all(outcome.fate is Fate.DELIVERED for outcome in answer.outcomes)
    return answer.status in _SUCCESS


def _url_mask(url: str) -> Mask:
    """Return the mask of a URL that is a secret: of its path and query."""
    return Mask(read_url(url).target.lstrip("/"))


def _displayable_header(mask: Mask, name: bytes, value: bytes) -> tuple[str, str]:
    """Return a header of the answer for display. If the header may hold a credential, its whole
    value is replaced; otherwise only known secrets in the value are."""
    text = name.decode("latin-1")
    if may_hold_credential(text.lower()):
        return text, HIDDEN
    return text, mask(value.decode("utf-8", "replace"))
