"""``/in/{name}``: a request of any webhook, verified, made an event, and published like any other.

In this order: the name, the signature over the very bytes that came, the quota, the event, and whether it came
before. A repeat of a signed request costs no quota: an attacker who has captured one could use it up. Only what is
verified is decoded or parsed. A publisher's unsigned check of the listener is answered and
stored nowhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from app.access.caller import EventMeter, demand, quota_of
from app.access.quota import Allowance
from app.bindings.forwarding import TAKEN_NAMES
from app.bindings.record import ContentMode, Decoded, Header
from app.errors import SenderError, SetupError
from app.event.value import CloudEvent
from app.gateway.answers import Answer, code_of
from app.gateway.content_coding import decode_content
from app.gateway.repeats import DUPLICATE, Begin, Done, Repeats
from app.gateway.request import HeaderPairs, Request, values_of
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

Publish = Callable[[Request, Done], Answer | None]
"""Never raises. The answer when it is known at once; otherwise None, and the other is called once later."""
Secrets = Sequence[Callable[[], str]]
"""Each called for its text as it is now."""

_CODING = b"content-encoding"
_TEXT = ((b"content-type", b"text/plain; charset=utf-8"),)
_REFUSED = 300
_QUIET = 60.0  # seconds between two entries of the log about bodies that repeat too often
_MARGIN = 1.0  # seconds that a signed request is remembered for beyond its last valid moment
_CLIP = 200  # characters of an attribute that an entry shows
ACCEPTED, DUPLICATED, CHALLENGED = "accepted", "duplicate", "challenge"


class UnknownIntake(SenderError):
    """A request names an intake that does not exist: 404."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no intake {name[:127]!r}", status=404, code="unknown-intake")


class _Once(NamedTuple):
    """A verified request: how a repeat of it is recognised, its event, and how many bytes wait if it waits."""

    key: RepeatKey
    attributes: Mapping[str, str]
    size: Callable[[], int]
    verified: VerifiedRequest


class Memory:
    """What an intake has taken so far: its repeats, its quota, and its counts. It outlives the settings."""

    def __init__(self, settings: Intake, clock: Clock) -> None:
        self.repeats = Repeats(settings.max_age, clock.monotonic)
        self.tally = EventMeter()
        self.allowance: Allowance | None = None
        self._clock = clock
        self.apply(settings)

    def apply(self, settings: Intake) -> None:
        """Apply other settings from now on. What was taken stays taken, and what was stored stays known."""
        self.repeats.change_window(settings.max_age)
        quota = None if settings.quota is None else quota_of(settings.quota)
        if quota is None:
            self.allowance = None
        elif self.allowance is None:
            self.allowance = Allowance(quota)
        else:
            self.allowance.apply(quota, self._clock.monotonic())


class OpenIntake:
    """An intake under one configuration: its settings, its secrets as they are now, and its memory."""

    def __init__(
        self, settings: Intake, secrets: Secrets, clock: Clock, memory: Memory | None = None
    ) -> None:
        """``memory``: of the intake of this name that it replaces. Raises SetupError, whose setting is one below the
        intake."""
        self.settings = settings
        self._compiled = compile_intake(settings)
        self._secrets = secrets
        self._clock = clock
        self._texts = self._current()
        self._verifiers = self._made()
        self.memory = memory or Memory(settings, clock)
        self.repeats, self.tally = self.memory.repeats, self.memory.tally
        self._quiet_until = 0.0

    def verified(self, arrival: IntakeRequest) -> VerifiedRequest:
        """Raises Unverified."""
        texts = self._current()
        if texts != self._texts:
            self._texts = texts
            self._take()
        return demand_verified(self._verifiers, arrival, self._clock.now())

    def take(self) -> None:
        """One event of the quota. Raises QuotaExceeded."""
        if self.memory.allowance is not None:
            demand(self.memory.allowance, 1, self._clock.monotonic())

    def note(self, outcome: str) -> None:
        """How a request ended. A duplicate and a challenge are no event and no refusal."""
        if outcome == ACCEPTED:
            self.tally.add(1, self._clock.monotonic())
        elif outcome not in {DUPLICATED, CHALLENGED}:
            self.tally.refused += 1

    def largest_body(self, default: int) -> int:
        """Return the most bytes of a body; ``default`` where neither a setting nor a preset has another."""
        return self._compiled.max_body or default

    def arrival(self, headers: HeaderPairs, body: bytes) -> IntakeRequest:
        return IntakeRequest(headers, body, field=self._compiled.field)

    def is_probe(self, arrival: IntakeRequest, query: bytes) -> bool:
        """Return whether an unsigned request asks only whether the listener answers."""
        probe = self._compiled.probe
        return probe is not None and probe(arrival, query)

    def challenge(self, arrival: IntakeRequest) -> str | None:
        asked = self._compiled.challenge
        return None if asked is None else asked(arrival)

    def attributes(self, arrival: IntakeRequest) -> dict[str, str]:
        """Raises Unmappable."""
        return self._compiled.mapper(arrival, self._clock.now())

    def may_repeat(self, verified: VerifiedRequest) -> bool:
        """Return whether what the request has proved was stored in the window, or is being published."""
        proved = verified.proved
        return bool(self.settings.max_age) and proved is not None and self.repeats.has(proved)

    def once(self, request: _Once, begin: Begin, done: Done) -> Answer | None:
        """Publish a request if it is no repeat, as ``Repeats.once`` does. Raises RepeatedBody."""
        key, attributes, size, verified = request

        def concluded(answer: Answer) -> None:
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
        """Log the first repeat of each stored event; the counter has all of them."""
        if self.repeats.is_first_repeat(*key):
            where = {name: attributes[name][:_CLIP] for name in ("type", "source")}
            _log.info(
                "intake %s: a repeat of a stored event was answered 202 and not published",
                self.settings.name,
                extra={"event_id": attributes["id"][:_CLIP], **where},
            )

    def log_refused(self, refused: RepeatedBody) -> None:
        """Log that a body came as too many events, at most once a minute."""
        now = self._clock.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET
            _log.warning("intake %s: %s", self.settings.name, refused)

    def _current(self) -> tuple[str, ...]:
        return tuple([secret() for secret in self._secrets])

    def _made(self) -> Verifiers:
        return compile_verifiers(self._compiled, self._texts, self.settings.max_age)

    def _take(self) -> None:
        """A file that holds no key changes nothing, but is said; at the start it is refused."""
        try:
            self._verifiers = self._made()
        except SetupError as error:
            _log.error("intake %s keeps its old secrets: %s", self.settings.name, error.args[0])


class Intakes:
    """The intakes of one configuration. ``forward``: names of request headers, in lower case, that are kept beside the
    event (I3)."""

    def __init__(
        self,
        intakes: Sequence[OpenIntake],
        counters: Counters,
        forward: Collection[str] = (),
    ) -> None:
        self._intakes: Mapping[str, OpenIntake] = {each.settings.name: each for each in intakes}
        self._counted = counters.series("intake_requests")
        self._forward = frozenset(name.encode() for name in forward)

    def memories(self) -> Mapping[str, Memory]:
        """Return what each intake has taken so far, by name, for the intakes of the next configuration."""
        return {name: each.memory for name, each in self._intakes.items()}

    def take_effect(self) -> None:
        """Apply the settings of these intakes to what each has taken so far."""
        for each in self._intakes.values():
            each.memory.apply(each.settings)

    def tallies(self) -> Mapping[str, EventMeter]:
        """By name."""
        return {name: each.tally for name, each in self._intakes.items()}

    def demand(self, name: str) -> OpenIntake:
        """Raises UnknownIntake."""
        intake = self._intakes.get(name)
        if intake is None:
            raise UnknownIntake(name)
        return intake

    def __len__(self) -> int:
        return len(self._intakes)

    def is_unverified(self, name: str) -> bool:
        """Return whether an intake accepts every request."""
        intake = self._intakes.get(name)
        return intake is not None and isinstance(intake.settings.verify, VerifyNothing)

    def most_bytes(self, default: int) -> int:
        """Return the most bytes of a body over all intakes; ``default`` is the bound of those without their own."""
        return max([each.largest_body(default) for each in self._intakes.values()], default=0)

    def probe(self, name: str, method: str, query: bytes) -> Answer | None:
        """Answer a GET by which a publisher checks the listener. Return None for any other request.

        Raises:
            UnknownIntake: no intake has this name.
        """
        intake = self.demand(name)
        if method not in {"GET", "HEAD"} or not intake.is_probe(intake.arrival((), b""), query):
            return None
        self._count(intake, CHALLENGED)
        return _PROBED

    def post(
        self, name: str, request: Request, publish: Publish, done: Done, limit: int
    ) -> Answer | None:
        """As ``publish``. ``limit``: most bytes of a body without its coding, where the intake has no bound of its
        own. Raises SenderError for a request that becomes no event."""
        intake = self.demand(name)

        def told(answer: Answer) -> None:
            self._count(intake, _outcome(answer))
            done(answer)

        try:
            answer = self._post(intake, request, publish, told, limit)
        except SenderError as error:
            self._count(intake, error.code)
            raise
        if answer is not None:
            self._count(intake, _outcome(answer))
        return answer

    def _post(
        self, intake: OpenIntake, request: Request, publish: Publish, done: Done, limit: int
    ) -> Answer | None:
        arrival = intake.arrival(request.headers, request.body)
        if intake.is_probe(arrival, request.query):
            return _PROBED
        verified = intake.verified(arrival)
        if (challenge := intake.challenge(arrival)) is not None:
            return Answer(200, _TEXT, challenge.encode("utf-8", "replace"))
        may_repeat = intake.may_repeat(verified)
        if not may_repeat:
            intake.take()
        content = _content(intake, request, arrival, intake.largest_body(limit))
        attributes = intake.attributes(content)
        begin = partial(publish, self._event(intake, request, attributes, content.body))
        if not intake.settings.max_age:
            return begin(done)
        key = repeat_key(verified, arrival.body, content.body, attributes)
        if may_repeat and not intake.repeats.has(key.group, key.identity):
            intake.take()
        once = _Once(key, attributes, partial(_size, request, content.body), verified)
        return intake.once(once, begin, done)

    def _event(
        self, intake: OpenIntake, request: Request, attributes: dict[str, str], data: bytes
    ) -> Request:
        """The request as one whose event is known already."""
        foreign: tuple[Header, ...] = tuple([
            (TAKEN_NAMES[name], value) for name, value in request.headers if name in self._forward
        ])  # fmt: skip
        event = CloudEvent(attributes, data or None)
        decoded = Decoded(event, ContentMode.BINARY, None, None, foreign)
        return Request(
            request.headers,
            request.named,
            b"",
            intake.settings.route,
            request.query,
            event=decoded,
        )

    def _count(self, intake: OpenIntake, outcome: str) -> None:
        self._counted[intake.settings.name, outcome] += 1
        intake.note(outcome)


_PROBED = Answer(200, _TEXT)


def _size(request: Request, data: bytes) -> int:
    """Return the bytes of a request that waits."""
    heads = sum([len(name) + len(value) for name, value in request.headers])
    return heads + len(request.body) + (0 if data is request.body else len(data))


def _outcome(answer: Answer) -> str:
    if answer is DUPLICATE:
        return DUPLICATED
    if answer.status >= _REFUSED:
        return code_of(answer)
    return CHALLENGED if answer.headers is _TEXT else ACCEPTED


def _content(
    intake: OpenIntake, request: Request, arrival: IntakeRequest, limit: int
) -> IntakeRequest:
    """Without its coding, which ends here."""
    if _CODING not in request.named:
        return arrival
    coding = values_of(request.headers, _CODING)
    headers = [pair for pair in request.headers if pair[0] != _CODING]
    return intake.arrival(headers, decode_content(coding, request.body, limit))
