"""A topic as a sink (a *mirror*): encode the event for the broker, keep its key, and publish it.

The result of the broker becomes the HTTP status that a webhook would have answered. So one table
(``delivery.outcomes``) decides for both kinds of sink.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from app.bindings.forwarding import ORIGIN_HEADERS, is_wanted, without_headers
from app.bindings.record import Decoded, Record
from app.bindings.spooled import from_spooled
from app.bindings.table import BINDINGS
from app.errors import (
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    PublishUnknown,
    SenderError,
    UnclearRefusal,
)
from app.interfaces import DeliveryRequest, Log, PublishResult, Sink, SinkAnswer, unwritable
from app.model.route import Exchange, Target
from app.model.subscription import Subscription
from app.routing.places import compile_place
from app.routing.publications import DEFAULT_PULSAR_PROFILE, PulsarProfile, encode_options_of

STORED = SinkAnswer(202)
NO_BROKER_PAUSE = 30.0  # seconds between attempts for a broker that left the configuration
MIN_PAUSE = 1.0  # shortest pause in seconds for an unavailable broker

_STATUSES = {  # by kind of refusal
    "unknown-topic": 404,
    "unroutable": 404,
    "not-authorised": 403,
    "record-too-large": 413,
    "rejected": 422,
    "unwritable": 422,
    "not-capable": 422,
}
_REFUSED = 500  # for any other refusal
_NO_ATTRIBUTES: Mapping[str, str] = {}


class TopicSink(Sink):
    """The sink of a subscription that delivers to a topic. The log is shared, so this sink neither
    starts nor stops it.

    Args:
        target: the topic or exchange.
        subscription: the subscription.
        log: the log of the target's broker.
        kind: the kind of that broker.
        manner: settings of the encoding.
        within: seconds after which the log itself reports an unknown result.
        attested: whether records of the source prove their producer. The embedded log accepts
            producer names only from such sources, because it treats them as proof.

    Raises:
        SetupError: the target is invalid for this kind of broker.
    """

    def __init__(
        self,
        target: Target | Exchange,
        subscription: Subscription,
        log: Log,
        kind: str,
        *,
        manner: PulsarProfile = DEFAULT_PULSAR_PROFILE,
        within: float = 0.0,
        attested: bool = True,
    ) -> None:
        source, forward = subscription.source, subscription.forward_headers
        setting = f"subscriptions.{subscription.id}.sink"
        self._log = log
        self._topic = compile_place(target, kind, setting=setting)
        self._binding = BINDINGS[kind]
        self._writing = encode_options_of(subscription, manner)
        self._forward = None if forward is None else frozenset(forward)  # None: all of them
        # A template may not lead back to what the subscription reads.
        self._sources = frozenset(source.topics if source.broker == target.broker else ())
        self._within = within
        self._anonymous = kind == "embedded" and not attested

    async def send(self, outgoing: DeliveryRequest) -> SinkAnswer:
        try:
            topic, record = self._written(outgoing)
        except SenderError as error:
            return unwritable(str(error))
        if topic in self._sources:
            return unwritable(f"topic {topic} is a source of the same subscription: a loop")
        published = self._log.submit(topic, (record,))
        try:
            (result,) = await self._in_time(published, outgoing.timeout)
        except TimeoutError:
            return SinkAnswer(None, "timeout", f"no answer from {self._log.name} in time")
        return sink_answer(result)

    def _written(self, outgoing: DeliveryRequest) -> tuple[str, Record]:
        record, decoded = outgoing.message.record, outgoing.decoded
        if decoded is None:
            copy = self._binding.copied(record)
            if self._anonymous:
                copy = replace(copy, headers=without_headers(copy.headers, ORIGIN_HEADERS))
            return self._topic(_NO_ATTRIBUTES), copy
        if self._anonymous and decoded.foreign:
            decoded = replace(decoded, foreign=without_headers(decoded.foreign, ORIGIN_HEADERS))
        if self._forward is not None and decoded.foreign:
            decoded = _with_forwarded_headers(decoded, self._forward)
        topic = self._topic(decoded.event.attributes)
        return topic, self._binding.encode(decoded, self._writing, record.key)

    async def _in_time(
        self, published: asyncio.Future[list[PublishResult]], seconds: float
    ) -> list[PublishResult]:
        """Wait for the result, at most ``seconds``. A timer is needed only if the log's own limit
        is later.

        After a time-out, a record that is not on the wire yet is no longer sent.
        """
        if self._within <= seconds:
            return await published
        async with asyncio.timeout(seconds):
            return await published


@dataclass(eq=False, repr=False)
class SpoolSink(Sink):
    """The sink that empties a spool: it publishes each record as it was spooled, to the destination
    stored with it.

    ``_logs`` are the logs by name. ``_report`` is called with the result of each record, before its
    answer returns.
    """

    _logs: Mapping[str, Log]
    _report: Callable[[str, Record, PublishResult], None]

    async def send(self, outgoing: DeliveryRequest) -> SinkAnswer:
        try:
            destination, record = from_spooled(outgoing.message.record)
        except BrokerRefused as error:
            return unwritable(str(error))
        log = self._logs.get(destination.log)
        if log is None:
            cause = f"there is no broker {destination.log!r} any more: add it to brokers again"
            return SinkAnswer(503, detail=cause, retry_after=str(round(NO_BROKER_PAUSE)))
        (result,) = await log.submit(destination.topic, (record,))
        self._report(destination.topic, record, result)
        return sink_answer(result)


def sink_answer(result: PublishResult) -> SinkAnswer:
    """Return the result of a publish as an answer of the sink."""
    if not isinstance(result, BrokerError):
        return STORED
    if isinstance(result, BrokerRefused):
        return SinkAnswer(_STATUSES.get(result.kind, _REFUSED), detail=str(result))
    pause = retry_after_of(result)
    return SinkAnswer(
        result.status, detail=str(result), retry_after=None if pause is None else str(pause)
    )


def retry_after_of(error: BrokerError) -> int | None:
    """Return the seconds for which an unavailable broker should get no further requests.

    The wait does not count against the schedule of an event. Return None if the event may be at
    fault; then its schedule decides.
    """
    if isinstance(error, PublishUnknown | UnclearRefusal) or not isinstance(
        error, BrokerUnavailable
    ):
        return None
    return math.ceil(max(MIN_PAUSE, error.retry_after or 0.0))


def _with_forwarded_headers(decoded: Decoded, forward: Collection[str]) -> Decoded:
    """Return the event with only those of its extra headers that the subscription forwards."""
    headers = tuple(header for header in decoded.foreign if is_wanted(header[0].lower(), forward))
    return replace(decoded, foreign=headers)
