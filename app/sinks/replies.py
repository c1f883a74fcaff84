"""Events that webhooks answer with (``reply``): published by a route before what they answer is
finished (rule 2).

A reply that nobody can read, or that its route cannot take, is counted and said, and the attempt stands:
the same request would bring the same answer. One that could not be stored makes the attempt a failure, and
the webhook will be asked again. Counted as ``replies``: published, unreadable, refused, unstored, looping.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from app.bindings.headers import FIELD_NAMES
from app.bindings.http import decode
from app.bindings.record import Decoded, Header
from app.delivery.outcomes import REPLY
from app.errors import BrokerError, BrokerRefused, SenderError
from app.interfaces import Log, SinkAnswer
from app.model.log_name import LogName
from app.routing.plan import Router
from app.routing.publications import Publication, written
from app.sinks.topic import pause_of
from app.telemetry import Counters

HOPS = "skybridge-replies"  # header beside a reply: how many replies led to it
MOST_HOPS = 16  # replies to replies; more are a circle

_KEY, _CODING = b"skybridge-key", b"content-encoding"
_OURS = 500  # a status from which on it is our fault
_DIGITS = 4  # of a count of hops
_FAMILY = b"application/cloudevents"
_log = logging.getLogger("skybridge.worker")


@dataclass(eq=False, repr=False)
class Replies:
    """The replies to one subscription. ``most``: events in one answer."""

    _subscription: str
    _route: str
    _router: Router
    _logs: Mapping[LogName, Log]
    _counters: Counters
    _most: int

    async def take(
        self, answer: SinkAnswer, answered: Sequence[Decoded], key: bytes | None
    ) -> SinkAnswer:
        """The answer as it stands once what is in it is stored, or the reason to try again.

        ``answered``  the events that it answers, ``key`` that of their record where it is one.
        """
        if not claims_event(answer.headers):
            return answer
        try:
            events = self._read(answer)
        except SenderError as error:
            return self._left(answer, "unreadable", error.code)  # its title quotes the answer
        hops = 1 + max(map(hops_of, answered), default=0)
        if hops > MOST_HOPS:
            return self._left(answer, "looping", f"it is reply number {hops} in a row", len(events))
        named = next((value for name, value in answer.headers if name.lower() == _KEY), key)
        try:
            publications = self._planned(events, named, hops)
        except SenderError as error:
            if error.status >= _OURS:
                return self._again(answer, error.title)
            return self._left(answer, "refused", error.title, len(events))
        return self._concluded(answer, await self._publish(publications), len(events))

    def _read(self, answer: SinkAnswer) -> Sequence[Decoded]:
        if answer.cut:
            raise SenderError("it is larger than response_limit", status=413, code="too-large")
        coding = next((v for name, v in answer.headers if name.lower() == _CODING), b"identity")
        if coding.strip().lower() != b"identity":
            raise SenderError("it has a Content-Encoding", status=415, code="unsupported-coding")
        headers = [(FIELD_NAMES[name], value) for name, value in answer.headers]
        return decode(headers, answer.body, max_batch=self._most)

    def _planned(
        self, events: Sequence[Decoded], key: bytes | None, hops: int
    ) -> list[Publication]:
        """All of them, or none is published."""
        counted: Header = (HOPS, str(hops).encode())
        return [
            publication
            for decoded in events
            for publication in self._router.plan(
                replace(decoded, foreign=(counted,)),
                key,
                self._route,
                f"reply to {self._subscription}",
            )
        ]

    async def _publish(self, publications: Sequence[Publication]) -> list[BrokerError]:
        """What went wrong. One submit for each place, so that it gets its events in their order."""
        places: dict[tuple[LogName, str], list[Publication]] = {}
        for publication in publications:
            places.setdefault((publication.log, publication.topic), []).append(publication)
        submitted = [
            self._logs[log].submit(topic, *written(there)) for (log, topic), there in places.items()
        ]
        results = await asyncio.gather(*submitted)
        return [each for result in results for each in result if isinstance(each, BrokerError)]

    def _concluded(
        self, answer: SinkAnswer, errors: Sequence[BrokerError], events: int
    ) -> SinkAnswer:
        lasting = [
            error for error in errors if not (isinstance(error, BrokerRefused) and error.of_record)
        ]
        if lasting:
            pauses = [pause for pause in map(pause_of, lasting) if pause is not None]
            hold = max(pauses) if len(pauses) == len(lasting) else 0
            return self._again(answer, str(lasting[0]), hold)
        if errors:
            return self._left(answer, "refused", str(errors[0]), events)
        self._counters.add("replies", self._subscription, "published", by=events)
        return answer

    def _again(self, answer: SinkAnswer, why: str, hold: float = 0.0) -> SinkAnswer:
        self._counters.add("replies", self._subscription, "unstored")
        said = f"answered {answer.status}, but its reply was not stored: {why}"
        return SinkAnswer(None, REPLY, said, hold=hold)

    def _left(self, answer: SinkAnswer, outcome: str, why: str, events: int = 1) -> SinkAnswer:
        self._counters.add("replies", self._subscription, outcome, by=events)
        _log.warning("%s: a reply is not published (%s): %s", self._subscription, outcome, why)
        return answer


def claims_event(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the answer says of itself that it holds an event: any other is none of our affair."""
    for name, value in headers:
        lower = name.lower()
        if lower.startswith(b"ce-"):
            return True
        if lower == b"content-type" and value.strip().lower().startswith(_FAMILY):
            return True
    return False


def hops_of(decoded: Decoded) -> int:
    """How many replies led to this event. What is no number counts as the most: a header of this name
    is ours alone."""
    for name, value in decoded.foreign:
        if name.lower() == HOPS:
            text = value or b""
            return int(text) if text.isdigit() and len(text) < _DIGITS else MOST_HOPS
    return 0
