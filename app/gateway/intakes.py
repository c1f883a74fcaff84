"""The resource ``/in/{name}``: verify a webhook request, make an event of it, and publish this event like any
other.

The checks come in this order: the name, the signature over the received bytes, the quota, the event, and
whether it is a repeat. A repeat of a signed request costs no quota. Otherwise an attacker with a captured
request could use up the quota. Only a verified body is decoded or parsed. Some products first check the
listener with an unsigned request, which is answered and not stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from app.access.caller import EventMeter, demand, quota_of
from app.access.quota import Allowance
from app.bindings.forwarding import INTAKE, TAKEN_NAMES
from app.bindings.record import ContentMode, Decoded, Header
from app.errors import SenderError, SetupError
from app.event.value import CloudEvent
from app.gateway.answers import HttpAnswer, problem_code
from app.gateway.content_coding import decode_content
from app.gateway.repeats import DUPLICATE, Begin, Done, IdempotencyWindow
from app.gateway.request import EventRequest, HeaderPairs, values_of
from app.intakes.arrival import IntakeRequest
from app.intakes.compiled import (
    RepeatedBody,
    RepeatKey,
    VerifiedRequest,
    Verifiers,
    compile_intake,
    compile_verifiers,
    demand_verified,
    repeat_key,
)
from app.interfaces import Clock
from app.model.intake import Intake, VerifyNothing
from app.telemetry import Counters

_log = logging.getLogger(__name__)

Publish = Callable[[EventRequest, Done], HttpAnswer | None]
"""A function that publishes a request and never raises. It returns the answer if the answer is known at once.
Otherwise it returns None, and later calls its second argument once with the answer.
"""
SecretReaders = Sequence[Callable[[], str]]
"""Functions that return the current texts of an intake's secrets."""

_CODING = b"content-encoding"
_TEXT = ((b"content-type", b"text/plain; charset=utf-8"),)
_REFUSED = 300
_LOG_INTERVAL = 60.0  # seconds between log entries about bodies that repeat too often
_MARGIN = 1.0  # seconds for which a signed request is kept after its signature expires
_CLIP = 200  # characters of an attribute in a log entry
ACCEPTED, DUPLICATED, CHALLENGED = "accepted", "duplicate", "challenge"


class UnknownIntake(SenderError):
    """The error for a request to an intake that does not exist: 404."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no intake {name[:127]!r}", status=404, code="unknown-intake")


class _VerifiedEvent(NamedTuple):
    """A verified request that has become an event.

    ``key`` is equal for repeats of the request. ``size`` is a function that returns the number of bytes of a
    request that must wait.
    """

    key: RepeatKey
    attributes: Mapping[str, str]
    size: Callable[[], int]
    verified: VerifiedRequest


class IntakeState:
    """The state of an intake that survives a reload: its known repeats, its quota, and its counts."""

    def __init__(self, settings: Intake, clock: Clock) -> None:
        self.repeats = IdempotencyWindow(settings.max_age, clock.monotonic)
        self.tally = EventMeter()
        self.allowance: Allowance | None = None
        self._clock = clock
        self.apply(settings)

    def apply(self, settings: Intake) -> None:
        """Apply new settings from now on. The used part of the quota and the stored identities of requests
        are kept.
        """
        self.repeats.change_window(settings.max_age)
        quota = None if settings.quota is None else quota_of(settings.quota)
        if quota is None:
            self.allowance = None
        elif self.allowance is None:
            self.allowance = Allowance(quota)
        else:
            self.allowance.apply(quota, self._clock.monotonic())


class ActiveIntake:
    """An intake under one configuration: its settings, its current secrets, and its state.

    ``memory`` is the state of the replaced intake of this name, or None. The constructor raises SetupError,
    which names a setting relative to the intake.
    """

    def __init__(
        self,
        settings: Intake,
        secrets: SecretReaders,
        clock: Clock,
        memory: IntakeState | None = None,
    ) -> None:
        self.settings = settings
        self._compiled = compile_intake(settings)
        self._secrets = secrets
        self._clock = clock
        self._texts = self._current()
        self._verifiers = self._compile_verifiers()
        self.memory = memory or IntakeState(settings, clock)
        self.repeats, self.tally = self.memory.repeats, self.memory.tally
        self._quiet_until = 0.0

    def demand_verified_request(self, arrival: IntakeRequest) -> VerifiedRequest:
        """Return the proof that the sender knows the secret of the intake. Raise Unverified if the request
        has no such proof."""
        texts = self._current()
        if texts != self._texts:
            self._texts = texts
            self._update_secrets()
        return demand_verified(self._verifiers, arrival, self._clock.now())

    def take_quota(self) -> None:
        """Take one event from the quota. Raise QuotaExceeded if none is left."""
        if self.memory.allowance is not None:
            demand(self.memory.allowance, 1, self._clock.monotonic())

    def count_outcome(self, outcome: str) -> None:
        """Count how a request ended. Duplicates and challenges count neither as events nor as refusals."""
        if outcome == ACCEPTED:
            self.tally.add(1, self._clock.monotonic())
        elif outcome not in {DUPLICATED, CHALLENGED}:
            self.tally.refused += 1

    def largest_body(self, default: int) -> int:
        """Return the largest allowed body in bytes. Return ``default`` if neither a setting nor the preset of
        the intake has another limit.
        """
        return self._compiled.max_body or default

    def arrival(self, headers: HeaderPairs, body: bytes) -> IntakeRequest:
        return IntakeRequest(headers, body, field=self._compiled.field)

    def is_probe(self, arrival: IntakeRequest, query: bytes) -> bool:
        """Return True if an unsigned request only checks that the listener answers."""
        probe = self._compiled.probe
        return probe is not None and probe(arrival, query)

    def challenge(self, arrival: IntakeRequest) -> str | None:
        asked = self._compiled.challenge
        return None if asked is None else asked(arrival)

    def attributes(self, arrival: IntakeRequest) -> dict[str, str]:
        """Return the attributes of the event of a request. Raise Unmappable if it cannot become an
        event.
        """
        return self._compiled.mapper(arrival, self._clock.now())

    def may_repeat(self, verified: VerifiedRequest) -> bool:
        """Return True if the request may be a repeat. A request with the same signed content was stored
        within the window, or is being published.
        """
        proved = verified.proved
        return bool(self.settings.max_age) and proved is not None and self.repeats.has(proved)

    def once(self, request: _VerifiedEvent, begin: Begin, done: Done) -> HttpAnswer | None:
        """Publish an event unless it is a repeat, in the manner of ``IdempotencyWindow.once``. Raise
        RepeatedBody.
        """
        key, attributes, size, verified = request

        def concluded(answer: HttpAnswer) -> None:
            if answer is DUPLICATE:
                self.log_repeat(key, attributes)
            done(answer)

        ahead = verified.ahead + _MARGIN if verified.scheme.timed else 0.0
        try:
            answer = self.repeats.once(
                key.identity, begin, concluded, group=key.group, size=size, ahead=ahead
            )
        except RepeatedBody as refused:
            self.log_refused(refused)
            raise
        if answer is DUPLICATE:
            self.log_repeat(key, attributes)
        return answer

    def log_repeat(self, key: RepeatKey, attributes: Mapping[str, str]) -> None:
        """Log the first repeat of each stored event. The counter counts all repeats."""
        if self.repeats.is_first_repeat(*key):
            where = {name: attributes[name][:_CLIP] for name in ("type", "source")}
            _log.info(
                "intake %s: a repeat of a stored event was answered 202 and not published",
                self.settings.name,
                extra={"event_id": attributes["id"][:_CLIP], **where},
            )

    def log_refused(self, refused: RepeatedBody) -> None:
        """Log, at most once a minute, that one signed body was sent as too many different events."""
        now = self._clock.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _LOG_INTERVAL
            _log.warning("intake %s: %s", self.settings.name, refused)

    def _current(self) -> tuple[str, ...]:
        return tuple([secret() for secret in self._secrets])

    def _compile_verifiers(self) -> Verifiers:
        return compile_verifiers(self._compiled, self._texts, self.settings.max_age)

    def _update_secrets(self) -> None:
        """Use new secrets. If a secret is invalid, log that and keep the old secrets."""
        try:
            self._verifiers = self._compile_verifiers()
        except SetupError as error:
            _log.error("intake %s keeps its old secrets: %s", self.settings.name, error.args[0])


class Intakes:
    """The intakes of one configuration.

    ``forward`` lists request headers, in lower case, that are forwarded with the event.
    """

    def __init__(
        self,
        intakes: Sequence[ActiveIntake],
        counters: Counters,
        forward: Collection[str] = (),
    ) -> None:
        self._intakes: Mapping[str, ActiveIntake] = {each.settings.name: each for each in intakes}
        self._counted = counters.series("intake_requests")
        self._forward = frozenset(name.encode() for name in forward)

    def memories(self) -> Mapping[str, IntakeState]:
        """Return the state of each intake, by name. The intakes of the next configuration take these states
        over."""
        return {name: each.memory for name, each in self._intakes.items()}

    def take_effect(self) -> None:
        """Apply the settings of these intakes to their states, because they are now in use."""
        for each in self._intakes.values():
            each.memory.apply(each.settings)

    def tallies(self) -> Mapping[str, EventMeter]:
        """Return the counts of each intake, by name."""
        return {name: each.tally for name, each in self._intakes.items()}

    def demand(self, name: str) -> ActiveIntake:
        """Return the intake of this name. Raise UnknownIntake if there is none."""
        intake = self._intakes.get(name)
        if intake is None:
            raise UnknownIntake(name)
        return intake

    def __len__(self) -> int:
        return len(self._intakes)

    def is_unverified(self, name: str) -> bool:
        """Return True if the intake accepts every request without verification."""
        intake = self._intakes.get(name)
        return intake is not None and isinstance(intake.settings.verify, VerifyNothing)

    def most_bytes(self, default: int) -> int:
        """Return the largest allowed body over all intakes in bytes. ``default`` is the bound of
        intakes without their own.
        """
        return max([each.largest_body(default) for each in self._intakes.values()], default=0)

    def probe(self, name: str, method: str, query: bytes) -> HttpAnswer | None:
        """Answer a GET or HEAD with which the sender of an intake checks the listener. Return None for any
        other request.

        Raises:
            UnknownIntake: no intake has this name.
        """
        intake = self.demand(name)
        if method not in {"GET", "HEAD"} or not intake.is_probe(intake.arrival((), b""), query):
            return None
        self._count(intake, CHALLENGED)
        return _PROBED

    def post(
        self, name: str, request: EventRequest, publish: Publish, done: Done, limit: int
    ) -> HttpAnswer | None:
        """Handle a POST to an intake. Return the answer if it is known at once. Otherwise return None, and
        call ``done`` once later.

        Args:
            name: the intake.
            request: the request.
            publish: a function that publishes the event of the request.
            done: called with the answer if this method returns None.
            limit: largest decoded body in bytes, unless the intake has its own bound.

        Raises:
            SenderError: the request does not become an event.
        """
        intake = self.demand(name)

        def count_and_answer(answer: HttpAnswer) -> None:
            self._count(intake, _outcome(answer))
            done(answer)

        try:
            answer = self._post(intake, request, publish, count_and_answer, limit)
        except SenderError as error:
            self._count(intake, error.code)
            raise
        if answer is not None:
            self._count(intake, _outcome(answer))
        return answer

    def _post(
        self, intake: ActiveIntake, request: EventRequest, publish: Publish, done: Done, limit: int
    ) -> HttpAnswer | None:
        arrival = intake.arrival(request.headers, request.body)
        if intake.is_probe(arrival, request.query):
            return _PROBED
        verified = intake.demand_verified_request(arrival)
        if (challenge := intake.challenge(arrival)) is not None:
            return HttpAnswer(200, _TEXT, challenge.encode("utf-8", "replace"))
        may_repeat = intake.may_repeat(verified)
        if not may_repeat:
            intake.take_quota()
        content = _decoded_request(intake, request, arrival, intake.largest_body(limit))
        attributes = intake.attributes(content)
        begin = partial(publish, self._event(intake, request, attributes, content.body))
        if not intake.settings.max_age:
            return begin(done)
        key = repeat_key(verified, arrival.body, content.body, attributes)
        if may_repeat and not intake.repeats.has(key.group, key.identity):
            intake.take_quota()
        once = _VerifiedEvent(
            key, attributes, partial(_waiting_bytes, request, content.body), verified
        )
        return intake.once(once, begin, done)

    def _event(
        self, intake: ActiveIntake, request: EventRequest, attributes: dict[str, str], data: bytes
    ) -> EventRequest:
        """Return a request that contains the event which the intake has made. A header names the intake."""
        foreign: tuple[Header, ...] = ((INTAKE, intake.settings.name.encode()), *[
            (TAKEN_NAMES[name], value) for name, value in request.headers if name in self._forward
        ])  # fmt: skip
        event = CloudEvent(attributes, data or None)
        decoded = Decoded(event, ContentMode.BINARY, None, None, foreign)
        return EventRequest(
            request.headers,
            request.named,
            b"",
            intake.settings.route,
            request.query,
            event=decoded,
        )

    def _count(self, intake: ActiveIntake, outcome: str) -> None:
        self._counted[intake.settings.name, outcome] += 1
        intake.count_outcome(outcome)


_PROBED = HttpAnswer(200, _TEXT)


def _waiting_bytes(request: EventRequest, data: bytes) -> int:
    """Return the number of bytes of memory that a waiting request uses."""
    heads = sum([len(name) + len(value) for name, value in request.headers])
    return heads + len(request.body) + (0 if data is request.body else len(data))


def _outcome(answer: HttpAnswer) -> str:
    if answer is DUPLICATE:
        return DUPLICATED
    if answer.status >= _REFUSED:
        return problem_code(answer)
    return CHALLENGED if answer.headers is _TEXT else ACCEPTED


def _decoded_request(
    intake: ActiveIntake, request: EventRequest, arrival: IntakeRequest, limit: int
) -> IntakeRequest:
    """Return the request with its content coding decoded. The coding is not forwarded."""
    if _CODING not in request.named:
        return arrival
    coding = values_of(request.headers, _CODING)
    headers = [pair for pair in request.headers if pair[0] != _CODING]
    return intake.arrival(headers, decode_content(coding, request.body, limit))
