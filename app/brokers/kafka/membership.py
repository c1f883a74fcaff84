"""Our place in a group: how it is taken, and until when we may be sure of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest
from aiokafka.structs import OffsetAndMetadata

from app.brokers.kafka.connection import shut
from app.brokers.kafka.settings import ISOLATION, KafkaSettings

# No poll for long is no reason to leave: a full window, or a paused subscription, lasts for hours.
# Heartbeats come from a task of their own; what a busy loop costs is the lease below (reliability
# 5.1: #335, #406, #727).
NEVER_MS = 2**31 - 1
BEATS = 5  # in a session time-out: four may be lost; more are most of what members at rest cost
NOBODY = -1  # the generation of a member that the group has thrown out
_ALIVE = (0, 27)  # no error; a rebalance is under way, and the member still counts


def make_consumer(settings: KafkaSettings, group: str, client_id: str) -> AIOKafkaConsumer:
    """A member to be, which commits only what it is told to, and never chooses a position itself."""
    heartbeat = settings.session_timeout / BEATS
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
        auto_offset_reset="none",
        isolation_level=ISOLATION,
        session_timeout_ms=_ms(settings.session_timeout),
        heartbeat_interval_ms=_ms(heartbeat),
        rebalance_timeout_ms=_ms(rebalance),
        max_poll_interval_ms=NEVER_MS,
        **options,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


class Membership:
    """What aiokafka knows of our place in the group and does not say: the generation, the commits'
    metadata, and when the group last heard of us. The only place that looks inside its consumer;
    ``test_internals`` guards what is found there.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        session_timeout: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._session_timeout = session_timeout
        self._monotonic = monotonic
        self._sure_until = 0.0
        self._client: Any = consumer._client  # noqa: SLF001
        self._send = self._client.send
        self._client.send = self._observe

    @property
    def generation(self) -> int:
        """Grows with every rebalance of the group: the epoch of ownership."""
        generation: int = self._consumer._coordinator.generation  # noqa: SLF001
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

    def fetch_nothing(self) -> None:
        """Others read for it: its own fetcher ends, and the place in the group is all that is left."""
        self._consumer._fetcher._fetch_task.cancel()  # noqa: SLF001

    async def committed(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        coordinator: Any = self._consumer._coordinator  # noqa: SLF001
        offsets: Mapping[
            TopicPartition, OffsetAndMetadata
        ] = await coordinator.fetch_committed_offsets(list(places))
        return offsets

    async def leave(self, within: float) -> None:
        """Give everything back and hang up. Bounded."""
        await shut(self._consumer, self._client, within)

    async def _observe(self, node: int, request: Any, **options: Any) -> Any:
        left = self._monotonic()
        answer = await self._send(node, request, **options)
        if isinstance(request, HeartbeatRequest | SyncGroupRequest) and answer.error_code in _ALIVE:
            self._sure_until = left + self._session_timeout
        return answer
