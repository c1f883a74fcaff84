"""A topic as a sink: the event written for its broker, under the key that it has (K11), and published.

A *mirror*. What the broker says becomes the status that a webhook would have answered, so that one
table (``delivery.outcomes``) concludes for both.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from app.bindings.forwarding import PRODUCER, is_wanted, without
from app.bindings.record import Decoded, Record
from app.bindings.spooled import restored
from app.bindings.table import BINDINGS
from app.errors import (
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    PublishUnknown,
    SenderError,
    UnclearRefusal,
)
from app.interfaces import Log, Outgoing, PublishResult, Sink, SinkAnswer, unwritable
from app.model.route import Exchange, Target
from app.model.subscription import Subscription
from app.routing.places import compile_place
from app.routing.publications import USUAL, Manner, writing_of

STORED = SinkAnswer(202)
NO_BROKER_PAUSE = 30.0  # seconds, for a broker that left the configuration
LEAST_PAUSE = 1.0  # seconds that a broker which is away is left alone

_STATUSES = {  # spec.md 9
    "unknown-topic": 404,
    "unroutable": 404,
    "not-authorised": 403,
    "record-too-large": 413,
    "rejected": 422,
    "unwritable": 422,
    "not-capable": 422,
}
_REFUSED = 500  # for whatever else a broker may not want
_NO_ATTRIBUTES: Mapping[str, str] = {}


class TopicSink(Sink):
    """Of a subscription whose ``sink`` is ``target``, on a broker of that ``kind``. The log is not its own: it
    neither starts nor stops it. Raises SetupError for what can be no place there.

    ``within``   seconds after which the log itself says that nobody knows.
    ``attested`` whether records of the source prove their producer. The embedded log takes the name of a producer
                 from no other source, because there it is a proof.
    """

    def __init__(
        self,
        target: Target | Exchange,
        subscription: Subscription,
        log: Log,
        kind: str,
        *,
        manner: Manner = USUAL,
        within: float = 0.0,
        attested: bool = True,
    ) -> None:
        source, forward = subscription.source, subscription.forward_headers
        setting = f"subscriptions.{subscription.id}.sink"
        self._log = log
        self._topic = compile_place(target, kind, setting=setting)
        self._binding = BINDINGS[kind]
        self._writing = writing_of(subscription, manner)
        self._forward = None if forward is None else frozenset(forward)  # None: all of them (I3)
        # A template may not lead back to what the subscription reads.
        self._sources = frozenset(source.topics if source.broker == target.broker else ())
        self._within = within
        self._anonymous = kind == "embedded" and not attested

    async def send(self, outgoing: Outgoing) -> SinkAnswer:
        try:
            topic, record = self._written(outgoing)
        except SenderError as error:
            return unwritable(str(error))
        if topic in self._sources:
            return unwritable(f"{topic} is a source of the same subscription: it would go round")
        published = self._log.submit(topic, (record,))
        try:
            (result,) = await self._in_time(published, outgoing.timeout)
        except TimeoutError:
            return SinkAnswer(None, "timeout", f"no answer from {self._log.name} in time")
        return answer_of(result)

    def _written(self, outgoing: Outgoing) -> tuple[str, Record]:
        record, decoded = outgoing.message.record, outgoing.decoded
        if decoded is None:
            copy = self._binding.copied(record)
            if self._anonymous:
                copy = replace(copy, headers=without(copy.headers, PRODUCER))
            return self._topic(_NO_ATTRIBUTES), copy
        if self._anonymous and decoded.foreign:
            decoded = replace(decoded, foreign=without(decoded.foreign, PRODUCER))
        if self._forward is not None and decoded.foreign:
            decoded = _chosen(decoded, self._forward)
        topic = self._topic(decoded.event.attributes)
        return topic, self._binding.encode(decoded, self._writing, record.key)  # K11

    async def _in_time(
        self, published: asyncio.Future[list[PublishResult]], seconds: float
    ) -> list[PublishResult]:
        """A timer of our own only where the log's is later. What is given up is no longer sent unless
        it is on the wire already (rule 9)."""
        if self._within <= seconds:
            return await published
        async with asyncio.timeout(seconds):
            return await published


@dataclass(eq=False, repr=False)
class SpoolSink(Sink):
    """Where a spool is drained to: each record as it was spooled, to the destination that it has with it.

    ``logs``  that publish, by name. ``told``: hears what became of each record, before its answer.
    """

    _logs: Mapping[str, Log]
    _told: Callable[[str, Record, PublishResult], None]

    async def send(self, outgoing: Outgoing) -> SinkAnswer:
        try:
            destination, record = restored(outgoing.message.record)
        except BrokerRefused as error:
            return unwritable(str(error))
        log = self._logs.get(destination.log)
        if log is None:
            cause = f"there is no broker {destination.log!r} any more: add it to brokers again"
            return SinkAnswer(503, detail=cause, retry_after=str(round(NO_BROKER_PAUSE)))
        (result,) = await log.submit(destination.topic, (record,))
        self._told(destination.topic, record, result)
        return answer_of(result)


def answer_of(result: PublishResult) -> SinkAnswer:
    if not isinstance(result, BrokerError):
        return STORED
    if isinstance(result, BrokerRefused):
        return SinkAnswer(_STATUSES.get(result.kind, _REFUSED), detail=str(result))
    pause = pause_of(result)
    return SinkAnswer(
        result.status, detail=str(result), retry_after=None if pause is None else str(pause)
    )


def pause_of(error: BrokerError) -> int | None:
    """Seconds that a broker which is away is to be left alone, so that no event's schedule moves for it (rule 6).
    None where nobody knows: then the event's own schedule counts, for it may be the event's fault."""
    if isinstance(error, PublishUnknown | UnclearRefusal) or not isinstance(
        error, BrokerUnavailable
    ):
        return None
    return math.ceil(max(LEAST_PAUSE, error.retry_after or 0.0))


def _chosen(decoded: Decoded, forward: Collection[str]) -> Decoded:
    kept = tuple(header for header in decoded.foreign if is_wanted(header[0].lower(), forward))
    return replace(decoded, foreign=kept)
