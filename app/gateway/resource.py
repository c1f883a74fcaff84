"""The resources ``/events`` and ``/in/{name}``, for fast requests and ASGI requests alike."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from app.access.caller import QUOTA_EXCEEDED
from app.delivery.handshake import ALLOWED_RATE, ConsentRefusal, granted
from app.errors import Fault, KeyMapperFailed, SenderError
from app.gateway.allowed_origins import AllowedOrigins, is_of_other_page
from app.gateway.answers import (
    BUG,
    METHODS,
    HttpAnswer,
    busy,
    from_sender_error,
    method_not_allowed,
    not_found,
    only_posts,
    problem,
    problem_code,
    unavailable,
)
from app.gateway.content_coding import decode_content
from app.gateway.door import Authenticator
from app.gateway.head_layout import HeadLayouts
from app.gateway.intakes import Intakes
from app.gateway.limits import ListenerLimits
from app.gateway.listener import UNAUTHENTICATED, Listener
from app.gateway.request import EventRequest, HeaderPairs, Pending, values_of
from app.problems import ProblemCode
from app.telemetry import Counters

_log = logging.getLogger(__name__)

Done = Callable[[HttpAnswer], None]
ConsentReceiver = Callable[[str, str | None], Awaitable[bool | None]]
"""A function that stores the consent of a webhook. Its arguments are the key of a callback URL and the
allowed rate. It returns False if there is no such URL, and None if the store does not answer.
"""
CALLBACKS = "/handshake/"
INVALID_RATE = problem(
    400,
    "bad-rate",
    "The allowed rate is no positive number",
    faults=[
        Fault(
            "bad-rate",
            f"{ALLOWED_RATE} is deliveries a minute: a positive number, or *.",
            f"header {ALLOWED_RATE.lower()}",
            "W2",
        )
    ],
)
CONSENT_ACCEPTED = HttpAnswer(
    200, ((b"content-type", b"text/plain"),), b"Thank you: events may follow.\n"
)
_RETRY_AFTER_OPERATOR = 30.0  # seconds, for a failure that a person must resolve
STORE_UNAVAILABLE: tuple[ProblemCode, str, float] = (
    "store-unavailable",
    "The store that has this consent request does not answer",
    2.0,
)
_ID_SHOWN = 200  # bytes of an event's id in a log line
POSTS = frozenset({b"POST", b"PUT"})


class EventPublisher(Protocol):
    """The publisher that the resource uses; see ``publish.Publisher``."""

    def publish(self, request: EventRequest, done: Done) -> HttpAnswer | None:
        """Publish a request. Return the answer if it is known at once. Otherwise return None, and call
        ``done`` once later.
        """

    def takes(self, route: str | None) -> bool:
        """Return True if an event could be published to the route. Raise SenderError for a route
        that does not exist.
        """


class EventsPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one configuration for the events listener.

    Attributes:
        intakes: the intakes, which make events of webhook requests.
        limits: the bounds of connections and requests.
        door: the authentication of senders; None if every sender is accepted.
        senders: the origins that the handshake consents to.
        demands_client: whether a client without a certificate is refused. It applies only if the listener has
            certificate authorities for clients.
    """

    intakes: Intakes
    limits: ListenerLimits = ListenerLimits()
    door: Authenticator | None = None
    senders: AllowedOrigins = AllowedOrigins()
    demands_client: bool = False


class EventsResource(Listener):
    """The methods, refusals and webhook handshake of ``/events`` and the intakes.

    ``call_back`` is a function that stores the consent of webhooks to which Skybridge delivers.
    ``on_loopback`` means that only this machine can connect to the listener. That includes web pages in the
    browsers of this machine.
    """

    def __init__(
        self,
        publisher: EventPublisher,
        policy: EventsPolicy,
        counters: Counters,
        call_back: ConsentReceiver | None = None,
        *,
        on_loopback: bool = False,
    ) -> None:
        super().__init__(policy.limits, counters.histogram("accept_seconds"))
        self._on_loopback = on_loopback
        self._call_back = call_back
        self.layouts = HeadLayouts()
        self.counters = counters
        self._publisher = publisher
        self.apply(policy)

    def apply(self, policy: EventsPolicy) -> None:
        """Apply a new policy from the next request on. An open connection keeps the limits with which it
        began.
        """
        self.policy = policy
        self.door, self.intakes, self.limits = policy.door, policy.intakes, policy.limits
        bounds = policy.limits
        largest = bounds.header_bytes + max(bounds.body, self.intakes.most_bytes(bounds.body))
        self.bodies.divide(bounds.receiving, len(self.intakes), largest)

    def post(self, request: EventRequest, done: Done) -> HttpAnswer | None:
        """Handle one POST or PUT. An unexpected error is logged and answered with 500."""
        if request.pending is not None:
            return self._wait_for_issuer(request, request.pending, done)
        try:
            if request.intake is not None:
                limit = self.limits.body
                return self.intakes.post(request.intake, request, self.post, done, limit)
            if request.event is None:
                self._prepare_body(request)
            return self._publisher.publish(request, done)
        except SenderError as error:
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("refused", extra={"code": error.code, "event_id": _event_id(request)})
            self._count_refusal(request, error.code)
            return self.refused(from_sender_error(error), error.code)
        except KeyMapperFailed as error:
            _log.error("%s", error, exc_info=error.__cause__)
            answer = unavailable(error.code, str(error), _RETRY_AFTER_OPERATOR)
            return self.refused(answer, error.code)
        except Exception:  # noqa: BLE001 - the sender is owed an answer whatever we did wrong
            _log.exception("publishing failed unexpectedly")
            return BUG

    def refuses_origin(self, headers: HeaderPairs, intake: str | None) -> bool:
        """Return True if a POST or PUT must be refused because it comes from a web page of another origin.

        The check applies where a sender needs no credential: on a loopback listener with open access, and at
        an intake without verification.
        """
        if intake is None:
            is_exposed = self._on_loopback and (self.door is None or self.door.is_open)
        else:
            is_exposed = self.intakes.is_unverified(intake)
        return is_exposed and is_of_other_page(headers)

    def other_method(
        self, method: str, named: Mapping[bytes, bytes], route: str | None
    ) -> HttpAnswer:
        """Answer any method except POST and PUT. A handshake is answered with consent only if the route
        accepts events (webhook specification 4.2).
        """
        if method != "OPTIONS":
            return self.refused(method_not_allowed(method), "method-not-allowed")
        try:
            consent = self.policy.senders.consent(named) if self._publisher.takes(route) else ()
        except SenderError as error:
            return self.refused(from_sender_error(error), error.code)
        return HttpAnswer(200, ((b"allow", METHODS), *consent))

    def other_intake_method(self, method: str, name: str, query: bytes) -> HttpAnswer:
        """Answer a request to an intake with any method except POST."""
        try:
            probed = self.intakes.probe(name, method, query)
        except SenderError as error:
            return self.refused(from_sender_error(error), error.code)
        return probed or self.refused(only_posts(method), "method-not-allowed")

    async def other_path(self, method: str, path: str, named: Mapping[bytes, bytes]) -> HttpAnswer:
        """Answer a request to any other path. It is a callback URL with which webhooks consent, or is
        answered 404."""
        if (
            self._call_back is None
            or not path.startswith(CALLBACKS)
            or method not in {"GET", "POST"}
        ):
            return self.refused(not_found(), "not-found")
        rate = _rate(named)
        if isinstance(granted(rate, None), ConsentRefusal):  # the webhook may call again
            return self.refused(INVALID_RATE, "bad-rate")
        key = path.removeprefix(CALLBACKS).removesuffix("/")
        known = await self._call_back(key, rate)
        if known is None:
            return self.refused(unavailable(*STORE_UNAVAILABLE), STORE_UNAVAILABLE[0])
        return CONSENT_ACCEPTED if known else self.refused(not_found(), "not-found")

    def refused(self, answer: HttpAnswer, code: str = "") -> HttpAnswer:
        """Count a refusal that is about to be sent, and return it."""
        self.counters.add("events_refused", code or problem_code(answer))
        return answer

    def _wait_for_issuer(
        self, request: EventRequest, pending: Pending, done: Done
    ) -> HttpAnswer | None:
        """Let a complete request wait until its issuer has answered the request for keys.

        The sender is not known yet, so the body is charged to the share of unauthenticated senders.
        """
        size = len(request.body)
        if not self.bodies.hold(UNAUTHENTICATED, size):
            self.bodies.hold(UNAUTHENTICATED, -size)
            return self.refused(busy("Too many request bodies wait for the keys of an issuer"))

        def judge(_: object) -> None:
            self.bodies.hold(UNAUTHENTICATED, -size)
            verdict = None if self.door is None else self.door.judge_again(pending)
            if isinstance(verdict, HttpAnswer):
                done(self.refused(verdict))
                return
            request.caller, request.pending = verdict, None
            if (answer := self.post(request, done)) is not None:
                done(answer)

        pending.asking.add_done_callback(judge)
        return None

    def _prepare_body(self, request: EventRequest) -> None:
        """Decode the body. Before that, raise QuotaExceeded if the caller has no quota left, so that decoding
        costs nothing.
        """
        if request.caller is not None and self.door is not None:
            self.door.demand_one(request.caller)
        if request.layout is None and b"content-encoding" in request.named:
            self._decode_body(request)

    def _count_refusal(self, request: EventRequest, code: str) -> None:
        """Count a refused request for its caller. An unreadable request costs one event of the quota, so that
        a sender of invalid requests is limited too.
        """
        caller = request.caller
        if caller is None:
            return
        if self.door is not None and not request.counted and code != QUOTA_EXCEEDED:
            self.door.charge_one(caller)
        if caller.name:
            caller.tally.refused += 1
            self.counters.add("producer_refusals", caller.name, code)

    def _decode_body(self, request: EventRequest) -> None:
        value = values_of(request.headers, b"content-encoding")
        request.body = decode_content(value, request.body, self.limits.body)
        request.given = [pair for pair in request.headers if pair[0] != b"content-encoding"]


def _event_id(request: EventRequest) -> str:
    """Return the id of the event if a header contains it. The id inside a refused document would not be
    reliable.
    """
    return request.named.get(b"ce-id", b"")[:_ID_SHOWN].decode("utf-8", "replace")


def _rate(named: Mapping[bytes, bytes]) -> str | None:
    rate = named.get(b"webhook-allowed-rate")
    return None if rate is None else rate.decode("latin-1")
