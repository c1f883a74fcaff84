"""The resources ``/events`` and ``/in/{name}``: one meaning, whichever way the request came in."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from app.access.caller import QUOTA_EXCEEDED
from app.delivery.handshake import ALLOWED_RATE, ConsentRefusal, granted
from app.errors import Fault, KeyMapperFailed, SenderError
from app.gateway.allowed_origins import Senders, is_of_other_page
from app.gateway.answers import (
    BUG,
    METHODS,
    Answer,
    busy,
    code_of,
    from_sender_error,
    method_not_allowed,
    not_found,
    only_posts,
    problem,
    unavailable,
)
from app.gateway.content_coding import decode_content
from app.gateway.door import Door
from app.gateway.intakes import Intakes
from app.gateway.limits import Limits
from app.gateway.listener import STRANGERS, Listener
from app.gateway.request import HeaderPairs, Pending, Request, values_of
from app.telemetry import Counters

_log = logging.getLogger(__name__)

Done = Callable[[Answer], None]
CallBack = Callable[[str, str | None], Awaitable[bool | None]]
"""From the key of an address and the rate that is allowed to whether there is such an address; None while
the store, which knows it, does not answer."""
CALLBACKS = "/handshake/"
NO_RATE = problem(
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
CONSENTED = Answer(200, ((b"content-type", b"text/plain"),), b"Thank you: events may follow.\n")
_RETRY_AFTER_OPERATOR = 30.0  # seconds, for what will not pass by itself
NOBODY_KNOWS = ("store-unavailable", "The store that has this consent request does not answer", 2.0)
_ID_SHOWN = 200  # bytes of an event's id in a line of the log
POSTS = frozenset({b"POST", b"PUT"})


class Publishing(Protocol):
    """What stands behind the resource (``publish.Publisher``)."""

    def publish(self, request: Request, done: Done) -> Answer | None:
        """The answer when it is known at once; otherwise None, and ``done`` is called once later."""

    def takes(self, route: str | None) -> bool:
        """Whether an event could be taken there. Raises SenderError for a route that does not exist."""


class EventsPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says of the events listener.

    ``limits``     the bounds of connections and requests.
    ``intakes``    make events of what is none yet.
    ``door``       judges who sends; None where everybody may.
    ``senders``    the origins that the handshake consents to.
    ``demands_client``  whether a client without a certificate is refused, where the listener has authorities of
                   client certificates.
    """

    intakes: Intakes
    limits: Limits = Limits()
    door: Door | None = None
    senders: Senders = Senders()
    demands_client: bool = False


class EventsResource(Listener):
    """Methods, encodings and the webhook handshake of ``/events``.

    ``call_back``  takes the consent of webhooks that we asked ourselves.
    ``on_loopback``  only this machine reaches the listener, web pages in its browsers included.
    """

    def __init__(
        self,
        publisher: Publishing,
        policy: EventsPolicy,
        counters: Counters,
        call_back: CallBack | None = None,
        *,
        on_loopback: bool = False,
    ) -> None:
        super().__init__(policy.limits, counters.histogram("accept_seconds"))
        self._on_loopback = on_loopback
        self._call_back = call_back
        self.counters = counters
        self._publisher = publisher
        self.apply(policy)

    def apply(self, policy: EventsPolicy) -> None:
        """Apply another policy from the next request on. A connection that is open keeps the bounds it began with."""
        self.policy = policy
        self.door, self.intakes, self.limits = policy.door, policy.intakes, policy.limits
        bounds = policy.limits
        largest = bounds.header_bytes + max(bounds.body, self.intakes.most_bytes(bounds.body))
        self.bodies.divide(bounds.receiving, len(self.intakes), largest)

    def post(self, request: Request, done: Done) -> Answer | None:
        """One POST or PUT. A fault of ours is a 500 with a line in the log, never a silence."""
        if request.pending is not None:
            return self._wait(request, request.pending, done)
        try:
            if request.intake is not None:
                limit = self.limits.body
                return self.intakes.post(request.intake, request, self.post, done, limit)
            if request.event is None:
                self._open(request)
            return self._publisher.publish(request, done)
        except SenderError as error:
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("refused", extra={"code": error.code, "event_id": _id_of(request)})
            self._note(request, error.code)
            return self.refused(from_sender_error(error), error.code)
        except KeyMapperFailed as error:
            _log.error("%s", error, exc_info=error.__cause__)
            answer = unavailable(error.code, str(error), _RETRY_AFTER_OPERATOR)
            return self.refused(answer, error.code)
        except Exception:  # noqa: BLE001 - the sender is owed an answer whatever we did wrong
            _log.exception("publishing failed unexpectedly")
            return BUG

    def refuses_origin(self, headers: HeaderPairs, intake: str | None) -> bool:
        """Return whether a POST or PUT comes from a web page that must not send, because nothing else would stop it:
        the sender needs no credential and is let in for being on this machine."""
        if intake is None:
            is_exposed = self._on_loopback and (self.door is None or self.door.is_open)
        else:
            is_exposed = self.intakes.is_unverified(intake)
        return is_exposed and is_of_other_page(headers)

    def other(self, method: str, named: Mapping[bytes, bytes], route: str | None) -> Answer:
        """Any method but POST and PUT. Consent is given where events are taken, and nowhere else (webhook 4.2)."""
        if method != "OPTIONS":
            return self.refused(method_not_allowed(method), "method-not-allowed")
        try:
            consent = self.policy.senders.consent(named) if self._publisher.takes(route) else ()
        except SenderError as error:
            return self.refused(from_sender_error(error), error.code)
        return Answer(200, ((b"allow", METHODS), *consent))

    def at_intake(self, method: str, name: str, query: bytes) -> Answer:
        """Answer any method but POST."""
        try:
            probed = self.intakes.probe(name, method, query)
        except SenderError as error:
            return self.refused(from_sender_error(error), error.code)
        return probed or self.refused(only_posts(method), "method-not-allowed")

    async def elsewhere(self, method: str, path: str, named: Mapping[bytes, bytes]) -> Answer:
        """Any other path: where webhooks consent to what we asked them, or nothing."""
        if (
            self._call_back is None
            or not path.startswith(CALLBACKS)
            or method not in {"GET", "POST"}
        ):
            return self.refused(not_found(), "not-found")
        rate = _rate(named)
        if isinstance(
            granted(rate, None), ConsentRefusal
        ):  # W2: the address stays, to be called again
            return self.refused(NO_RATE, "bad-rate")
        key = path.removeprefix(CALLBACKS).removesuffix("/")
        known = await self._call_back(key, rate)
        if known is None:
            return self.refused(unavailable(*NOBODY_KNOWS), NOBODY_KNOWS[0])
        return CONSENTED if known else self.refused(not_found(), "not-found")

    def refused(self, answer: Answer, code: str = "") -> Answer:
        """Count a refusal on its way out."""
        self.counters.add("events_refused", code or code_of(answer))
        return answer

    def _wait(self, request: Request, pending: Pending, done: Done) -> Answer | None:
        """Keep a whole request until its issuer has answered the question for keys. Its sender is not known yet,
        so it is charged like an unfinished request of a stranger (reliability G4)."""
        size = len(request.body)
        if not self.bodies.hold(STRANGERS, size):
            self.bodies.hold(STRANGERS, -size)
            return self.refused(busy("Too many request bodies wait for the keys of an issuer"))

        def judge(_: object) -> None:
            self.bodies.hold(STRANGERS, -size)
            verdict = None if self.door is None else self.door.judge_again(pending)
            if isinstance(verdict, Answer):
                done(self.refused(verdict))
                return
            request.caller, request.pending = verdict, None
            if (answer := self.post(request, done)) is not None:
                done(answer)

        pending.asking.add_done_callback(judge)
        return None

    def _open(self, request: Request) -> None:
        """The body without its coding, but for a caller that has used up its quota: that costs no more than its
        head. Raises SenderError."""
        if request.caller is not None and self.door is not None:
            self.door.demand_one(request.caller)
        if b"content-encoding" in request.named:
            self._undo_coding(request)

    def _note(self, request: Request, code: str) -> None:
        """What could not be read counts as one event, or a sender of rubbish would have no bound."""
        caller = request.caller
        if caller is None:
            return
        if self.door is not None and not request.counted and code != QUOTA_EXCEEDED:
            self.door.charge_one(caller)
        if caller.name:
            caller.tally.refused += 1
            self.counters.add("producer_refusals", caller.name, code)

    def _undo_coding(self, request: Request) -> None:
        value = values_of(request.headers, b"content-encoding")
        request.body = decode_content(value, request.body, self.limits.body)
        request.headers = [pair for pair in request.headers if pair[0] != b"content-encoding"]


def _id_of(request: Request) -> str:
    """Of the event where a header has it; a document that is refused has none that could be trusted."""
    return request.named.get(b"ce-id", b"")[:_ID_SHOWN].decode("utf-8", "replace")


def _rate(named: Mapping[bytes, bytes]) -> str | None:
    rate = named.get(b"webhook-allowed-rate")
    return None if rate is None else rate.decode("latin-1")
