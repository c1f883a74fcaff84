"""Publish events that webhooks return as answers (setting ``reply``). A route publishes them before
the delivery finishes. An unreadable reply, or a reply that its route refuses, is counted and
logged, and the delivery succeeds. The same request would bring the same reply. If a reply cannot be
stored, the attempt fails and the webhook is called again. The metric ``replies`` counts the
outcomes published, unreadable, refused, unstored and looping."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from app.bindings.forwarding import ROUTE
from app.bindings.headers import FIELD_NAMES
from app.bindings.http import decode
from app.bindings.record import Decoded, Header
from app.delivery.outcomes import REPLY
from app.errors import BrokerError, BrokerRefused, SenderError
from app.interfaces import Log, SinkAnswer
from app.model.log_name import LogName
from app.routing.plan import Router
from app.routing.publications import Publication, records_and_identities
from app.sinks.topic import retry_after_of
from app.telemetry import Counters

HOPS = "skybridge-replies"  # record header of a reply: the number of replies that led to it
MAX_HOPS = 16  # replies to replies; more are taken for a loop

_KEY, _CODING = b"skybridge-key", b"content-encoding"
_SERVER_FAULT = 500  # from this status on, Skybridge is at fault
_DIGITS = 4  # of the longest valid count of hops
_FAMILY = b"application/cloudevents"
_log = logging.getLogger("skybridge.worker")


@dataclass(eq=False, repr=False)
class ReplyPublisher:
    """The publisher of the replies to one subscription. ``_most`` is the largest number of events
    in one answer.
    """

    _subscription: str
    _route: str
    _router: Router
    _logs: Mapping[LogName, Log]
    _counters: Counters
    _most: int

    async def take(
        self, answer: SinkAnswer, answered: Sequence[Decoded], key: bytes | None
    ) -> SinkAnswer:
        """Publish the events in an answer. Return the answer, or one that causes a retry if a reply
        was not stored.

        Args:
            answer: the answer of the webhook.
            answered: the events of the request.
            key: the key of the record, if the request was made of one record.
        """
        if not contains_event(answer.headers):
            return answer
        try:
            events = self._read(answer)
        except SenderError as error:
            return self._count_unpublished(
                answer, "unreadable", error.code
            )  # the code only, because the title quotes the answer
        hops = 1 + max(map(reply_hops, answered), default=0)
        if hops > MAX_HOPS:
            return self._count_unpublished(
                answer, "looping", f"it is reply number {hops} in a row", len(events)
            )
        named = next((value for name, value in answer.headers if name.lower() == _KEY), key)
        try:
            publications = self._plan(events, named, hops)
        except SenderError as error:
            if error.status >= _SERVER_FAULT:
                return self._unstored(answer, error.title)
            return self._count_unpublished(answer, "refused", error.title, len(events))
        return self._conclude(answer, await self._publish(publications), len(events))

    def _read(self, answer: SinkAnswer) -> Sequence[Decoded]:
        if answer.cut:
            raise SenderError("it is larger than response_limit", status=413, code="too-large")
        coding = next((v for name, v in answer.headers if name.lower() == _CODING), b"identity")
        if coding.strip().lower() != b"identity":
            raise SenderError(
                "it has a Content-Encoding", status=415, code="unsupported-content-encoding"
            )
        headers = [(FIELD_NAMES[name], value) for name, value in answer.headers]
        return decode(headers, answer.body, max_batch=self._most)

    def _plan(self, events: Sequence[Decoded], key: bytes | None, hops: int) -> list[Publication]:
        """Plan the publications of all events, so that either all events have a plan or none is
        published.
        """
        beside: tuple[Header, ...] = ((HOPS, str(hops).encode()), (ROUTE, self._route.encode()))
        return [
            publication
            for decoded in events
            for publication in self._router.plan(
                replace(decoded, foreign=beside),
                key,
                self._route,
                f"reply to {self._subscription}",
            )
        ]

    async def _publish(self, publications: Sequence[Publication]) -> list[BrokerError]:
        """Publish to each topic with one submit, so that its events keep their order. Return the
        errors.
        """
        topics: dict[tuple[LogName, str], list[Publication]] = {}
        for publication in publications:
            topics.setdefault((publication.log, publication.topic), []).append(publication)
        submitted = [
            self._logs[log].submit(topic, *records_and_identities(grouped))
            for (log, topic), grouped in topics.items()
        ]
        results = await asyncio.gather(*submitted)
        return [each for result in results for each in result if isinstance(each, BrokerError)]

    def _conclude(
        self, answer: SinkAnswer, errors: Sequence[BrokerError], events: int
    ) -> SinkAnswer:
        lasting = [
            error for error in errors if not (isinstance(error, BrokerRefused) and error.of_record)
        ]
        if lasting:
            pauses = [pause for pause in map(retry_after_of, lasting) if pause is not None]
            hold = max(pauses) if len(pauses) == len(lasting) else 0
            return self._unstored(answer, str(lasting[0]), hold)
        if errors:
            return self._count_unpublished(answer, "refused", str(errors[0]), events)
        self._counters.add("replies", self._subscription, "published", by=events)
        return answer

    def _unstored(self, answer: SinkAnswer, why: str, hold: float = 0.0) -> SinkAnswer:
        self._counters.add("replies", self._subscription, "unstored")
        detail = f"answered {answer.status}, but its reply was not stored: {why}"
        return SinkAnswer(None, REPLY, detail, hold=hold)

    def _count_unpublished(
        self, answer: SinkAnswer, outcome: str, why: str, events: int = 1
    ) -> SinkAnswer:
        self._counters.add("replies", self._subscription, outcome, by=events)
        _log.warning("%s: a reply is not published (%s): %s", self._subscription, outcome, why)
        return answer


def contains_event(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return True if the headers declare that the answer contains an event. Other answers are
    ignored.
    """
    for name, value in headers:
        lower = name.lower()
        if lower.startswith(b"ce-"):
            return True
        if lower == b"content-type" and value.strip().lower().startswith(_FAMILY):
            return True
    return False


def reply_hops(decoded: Decoded) -> int:
    """Return the number of replies that led to this event.

    An invalid count yields ``MAX_HOPS``, because only Skybridge sets this header.
    """
    for name, value in decoded.foreign:
        if name.lower() == HOPS:
            text = value or b""
            return int(text) if text.isdigit() and len(text) < _DIGITS else MAX_HOPS
    return 0
