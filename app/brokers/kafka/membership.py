"""Our place in a group: how it is taken, and until when we may be sure of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from app.brokers.aiokafka_adapter import HEARTBEAT, SYNC_GROUP, client_of, coordinator_of
from app.brokers.kafka.connection import shut
from app.brokers.kafka.heartbeats import AT_ONCE_MS, Heartbeats
from app.brokers.kafka.settings import ISOLATION, KafkaSettings

log = logging.getLogger(__name__)

# No poll for long is no reason to leave: a full window, or a paused subscription, lasts for hours.
# Heartbeats come from a task of their own; what a busy loop costs is the lease below (reliability
# 5.1: #335, #406, #727).
NEVER_MS = 2**31 - 1
BEATS = 5  # in a session time-out: four may be lost; more are most of what members at rest cost
NOBODY = -1  # the generation of a member that the group has thrown out
_SIGNS = (HEARTBEAT, SYNC_GROUP)  # requests whose answer shows that the group counts on the member
_ALIVE = (0, 27)  # no error; a rebalance is under way, and the member still counts


def make_consumer(
    settings: KafkaSettings, group: str, client_id: str, *, paced: bool
) -> AIOKafkaConsumer:
    """A member to be, which commits only what it is told to. ``paced``: ``Heartbeats`` says when it sends one."""
    heartbeat = interval_of(settings)
    rebalance = heartbeat + settings.handover + settings.request_timeout
    options = settings.client() | {
        "client_id": client_id or settings.client_id,
        # The answer to a join comes when every member has joined, or is given up.
        "request_timeout_ms": _ms(rebalance + settings.request_timeout),
    }
    return AIOKafkaConsumer(
        group_id=group,
        group_instance_id=settings.instance_id,  # unique within its group
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # of its own fetches, which there are none of
        consumer_timeout_ms=NEVER_MS,  # of the routine that would fetch
        isolation_level=ISOLATION,
        session_timeout_ms=_ms(settings.session_timeout),
        heartbeat_interval_ms=AT_ONCE_MS if paced else _ms(heartbeat),
        rebalance_timeout_ms=_ms(rebalance),
        max_poll_interval_ms=NEVER_MS,
        **options,
    )


def interval_of(settings: KafkaSettings) -> float:
    """Seconds between two heartbeats."""
    return settings.session_timeout / BEATS


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


class Membership:
    """What aiokafka knows of our place in the group and does not say: the generation, the commits'
    metadata, and when the group last heard of us.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        session_timeout: float,
        monotonic: Callable[[], float] = time.monotonic,
        beats: Heartbeats | None = None,
    ) -> None:
        self._consumer = consumer
        self._beats = beats
        self._session_timeout = session_timeout
        self._monotonic = monotonic
        self._sure_until = 0.0
        self._beat_failed = False  # the last heartbeat: its repetition waits for no other
        self._client: Any = client_of(consumer)
        self._send = self._client.send
        self._client.send = self._observe

    @property
    def generation(self) -> int:
        """Grows with every rebalance of the group: the epoch of ownership."""
        generation: int = coordinator_of(self._consumer).generation
        return generation

    @property
    def thrown_out(self) -> bool:
        """The group went on without us: what we held is somebody else's by now."""
        return self.generation == NOBODY

    def sure(self) -> bool:
        """Whether the group cannot yet have given our partitions away, by our own clock (rule 5).

        Counted from when the last heartbeat that was answered *left*: the group's own clock for our
        session started after that.
        """
        return self._monotonic() < self._sure_until

    def rest(self, places: Collection[TopicPartition]) -> None:
        """Fetch nothing: others read for the member. Raises IllegalStateError if it does not own them now."""
        self._consumer.pause(*places)

    async def committed(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        offsets: Mapping[TopicPartition, OffsetAndMetadata] = await coordinator_of(
            self._consumer
        ).fetch_committed_offsets(list(places))
        return offsets

    async def leave(self, within: float) -> None:
        """Give everything back and hang up. Bounded."""
        await shut(self._consumer, self._client, within)

    async def _observe(self, node: int, request: Any, **options: Any) -> Any:
        if self._beats is not None and request.API_KEY == HEARTBEAT:
            return await self._beat(self._beats, node, request, **options)
        return await self._sent(self._send(node, request, **options), request)

    async def _beat(self, beats: Heartbeats, node: int, request: Any, **options: Any) -> Any:
        """Where all beat; on its own connection where that does not answer, or does not know the node."""
        if not self._beat_failed:
            await beats.depart()
        self._beat_failed = True
        try:
            answer = await self._sent(beats.send(node, request), request)
        except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing of this member
            log.debug("a heartbeat goes on a connection of its own: %r", error)
            answer = await self._sent(self._send(node, request, **options), request)
        self._beat_failed = answer.error_code not in _ALIVE
        return answer

    async def _sent(self, sending: Awaitable[Any], request: Any) -> Any:
        left = self._monotonic()
        answer = await sending
        if request.API_KEY in _SIGNS and answer.error_code in _ALIVE:
            self._sure_until = left + self._session_timeout
        return answer
