"""Join a consumer group with aiokafka, and compute until when this member's lease is valid."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from app.brokers.aiokafka_adapter import (
    FIND_COORDINATOR,
    HEARTBEAT,
    OFFSET_COMMIT,
    SYNC_GROUP,
    client_of,
    coordinator_of,
)
from app.brokers.kafka.connection import shut
from app.brokers.kafka.heartbeats import AT_ONCE_MS, Heartbeats, patience_of
from app.brokers.kafka.quick_requests import QuickRequests
from app.brokers.kafka.settings import ISOLATION, KafkaSettings

log = logging.getLogger(__name__)

# A member must not leave the group because it does not poll: a full window, or a paused subscription, can last for
# hours. Heartbeats come from a task of their own (aiokafka issues 335, 406, 727).
NEVER_MS = 2**31 - 1
BEATS = 5  # heartbeats in a session time-out, of which four may be lost
NO_GENERATION = -1  # the generation of a member that the group has removed
_SIGNS = (HEARTBEAT, SYNC_GROUP)  # requests whose answer proves membership
_ALIVE = (0, 27)  # no error; rebalance in progress, in which the member still counts


def make_consumer(
    settings: KafkaSettings, group: str, client_id: str, *, paced: bool
) -> AIOKafkaConsumer:
    """Return a consumer that is ready to join the group, and commits only on request.

    Args:
        settings: How to reach the cluster, and the time limits.
        group: The name of the group.
        client_id: The client id. If it is empty, the settings give the client id.
        paced: Whether ``Heartbeats`` decides when a heartbeat is sent.
    """
    heartbeat = interval_of(settings)
    rebalance = heartbeat + settings.handover + settings.request_timeout
    options = settings.client() | {
        "client_id": client_id or settings.client_id,
        # A join is answered when every member has joined or was removed.
        "request_timeout_ms": _ms(rebalance + settings.request_timeout),
    }
    return AIOKafkaConsumer(
        group_id=group,
        group_instance_id=settings.instance_id,  # unique within its group
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # unused, because this consumer never fetches
        consumer_timeout_ms=NEVER_MS,  # unused too
        isolation_level=ISOLATION,
        session_timeout_ms=_ms(settings.session_timeout),
        heartbeat_interval_ms=AT_ONCE_MS if paced else _ms(heartbeat),
        rebalance_timeout_ms=_ms(rebalance),
        max_poll_interval_ms=NEVER_MS,
        **options,
    )


def interval_of(settings: KafkaSettings) -> float:
    """Return the seconds between two heartbeats."""
    return settings.session_timeout / BEATS


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


class KafkaMembership:
    """The state of a member that aiokafka does not publish: generation, commit metadata, and the time of the
    last answered heartbeat."""

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
        self._beat_failed = False  # True: the next heartbeat does not wait for the common departure
        self._client: Any = client_of(consumer)
        self._requests = QuickRequests(self._client, patience_of(session_timeout))
        self._client.ready = self._requests.ready
        self._client.send = self._observe

    @property
    def generation(self) -> int:
        """Return the epoch of ownership, which grows with every rebalance of the group."""
        generation: int = coordinator_of(self._consumer).generation
        return generation

    @property
    def removed(self) -> bool:
        """Return True if the group has removed this member and given its partitions to other members."""
        return self.generation == NO_GENERATION

    def has_lease(self) -> bool:
        """Return True if the group cannot yet have given this member's partitions to other members, by the
        local clock.

        The session is measured from the moment when the last answered heartbeat was *sent*. The group
        measures the session from a later moment.
        """
        return self._monotonic() < self._sure_until

    def stop_fetching(self, places: Collection[TopicPartition]) -> None:
        """Stop the consumer from fetching these partitions, because shared readers read them.

        Raises IllegalStateError if the member does not own the partitions now.
        """
        self._consumer.pause(*places)

    async def committed(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        offsets: Mapping[TopicPartition, OffsetAndMetadata] = await coordinator_of(
            self._consumer
        ).fetch_committed_offsets(list(places))
        return offsets

    async def leave(self, within: float) -> None:
        """Leave the group and close the connections, within a time limit in seconds."""
        await shut(self._consumer, self._client, within)

    async def _observe(self, node: int, request: Any, **options: Any) -> Any:
        if self._beats is not None and request.API_KEY == HEARTBEAT:
            return await self._beat(self._beats, node, request, **options)
        if request.API_KEY == OFFSET_COMMIT:
            _drop_error_of(asyncio.current_task())
        if request.API_KEY == FIND_COORDINATOR:
            return await self._requests.ask_each(node, request)
        return await self._sent(self._requests.send(node, request, **options), request)

    async def _beat(self, beats: Heartbeats, node: int, request: Any, **options: Any) -> Any:
        """Send a heartbeat at the next common send time. If that fails, send it on the member's own
        connection. Without an answer there either, aiokafka searches for the coordinator again."""
        if not self._beat_failed:
            await beats.depart()
        self._beat_failed = True
        try:
            answer = await self._sent(beats.send(node, request), request)
        except Exception as error:  # noqa: BLE001 - the own connection is tried after any error
            log.debug("a heartbeat is sent on the member's own connection: %r", error)
            answer = await self._sent(self._requests.send(node, request, **options), request)
        self._beat_failed = answer.error_code not in _ALIVE
        return answer

    async def _sent(self, sending: Awaitable[Any], request: Any) -> Any:
        left = self._monotonic()
        answer = await sending
        if request.API_KEY in _SIGNS and answer.error_code in _ALIVE:
            self._sure_until = left + self._session_timeout
        return answer


def _drop_error_of(commit: asyncio.Task[Any] | None) -> None:
    """Let Python not report the error of a commit whose caller does not wait any more.

    aiokafka shields a commit, so that it goes on in a task of its own when its caller gives it up.
    """
    if commit is not None:
        commit.add_done_callback(lambda task: None if task.cancelled() else task.exception())
