"""``/v1/topics``: metadata and positions of topics, as Kafka's Metadata and ListOffsets return them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import BaseModel, BeforeValidator, Field

from app.api.access.operations import router
from app.api.access.parts import BrokersDep, SubscriptionsDep
from app.api.asked.brokers import Brokers
from app.api.http import start_points
from app.api.http.bodies import json_answer
from app.api.http.problems import RequestRefused
from app.api.http.slices import Slices
from app.api.http.views import CopyingView
from app.errors import BrokerError
from app.interfaces import Log
from app.model.metadata import LogMetadata, PartitionMetadata
from app.model.moment import LATEST_MS, time_of

Broker = Annotated[str, Path(description="name of the broker in the configuration")]
Topic = Annotated[str, Path(description="name of the topic on the broker; may contain slashes")]
OnePartition = Annotated[
    int | None, Query(ge=0, description="number of the partition; all by default")
]


_DIGITS = 20  # digits of a time that are read; so many are beyond the latest time anyway
Position = Annotated[str | None, BeforeValidator(lambda text: text or None)]
"""A position as text. The empty text, which logs return for an unknown position, becomes null."""


class PartitionView(BaseModel):
    """A partition of a topic."""

    number: int = Field(description="number of the partition")
    leader: int | None = Field(description="node id of the leader; null during an election")
    replicas: list[int] = Field(description="node ids of the replicas")
    isr: list[int] = Field(description="node ids of the in-sync replicas")
    earliest: Position = Field(description="first stored position; null if unknown")
    latest: Position = Field(description="position of the next record")


class TopicView(CopyingView):
    """A topic and its partitions."""

    broker: str = Field(description="name of the broker")
    name: str = Field(description="name of the topic")
    partitions: list[PartitionView] = Field(description="partitions of the topic")


class PartitionOffsets(CopyingView):
    """Positions of one partition."""

    number: int = Field(description="number of the partition")
    earliest: Position = Field(description="first stored position; null if unknown")
    latest: Position = Field(description="position of the next record; null if unknown")
    at_time: str | None = Field(
        None, description="position of the first record stored at the requested time or later"
    )


class GroupOffset(CopyingView):
    """The committed position of a group in one partition."""

    group: str = Field(description="name of the group")
    subscription: str | None = Field(description="id of the subscription of the group, if any")
    partition: int = Field(description="number of the partition")
    committed: str | None = Field(description="committed position; null if none or unknown")
    lag: int | None = Field(
        description="number of records after the committed position; null if unknown"
    )


class OffsetsView(BaseModel):
    """Positions of a topic and of the groups that read it."""

    broker: str = Field(description="name of the broker")
    topic: str = Field(description="name of the topic")
    time_ms: int | None = Field(description="the requested time, in ms since the epoch")
    partitions: list[PartitionOffsets] = Field(description="positions of each partition")
    groups: list[GroupOffset] = Field(description="committed positions of groups")


routes = router("/v1/topics", tags=["topics"])
"""The routes of topics. They must be included after those of ``records``. The name of a topic may contain
slashes, so a route of a topic also matches the longer paths of its records."""


@routes.operation(
    "GET /{broker}/{topic:path}/offsets",
    "offsets",
    (400, 403, 404, 501, 503),
    response_model=OffsetsView,
)
async def offsets(
    brokers: BrokersDep,
    subscriptions: SubscriptionsDep,
    broker: Broker,
    topic: Topic,
    time: Annotated[
        str | None,
        Query(description="RFC 3339 or milliseconds since the epoch", examples=["1767225600000"]),
    ] = None,
    group: Annotated[
        list[str] | None,
        Query(description="names of groups; those of the subscriptions by default"),
    ] = None,
    partition: OnePartition = None,
) -> Response:
    """Return the earliest and latest position of each partition, the position at a time, and the positions of
    groups (Kafka's ListOffsets)."""
    log = log_of(brokers, broker)
    time_ms = None if time is None else _parse_time(time)
    own_groups = subscriptions.groups(broker, topic)
    metadata = await log.metadata([topic], {name: [topic] for name in group or own_groups})
    ends = _requested_partitions(metadata, broker, topic, partition)
    found = {} if time_ms is None else await start_points.by_time(log, topic, ends, time_ms)
    at = {number: place.position for number, place in found.items()}
    groups = (
        each
        for each in metadata.groups
        if each.topic == topic and partition in (None, each.partition)
    )
    slices = Slices()
    return json_answer(
        {
            "broker": broker,
            "topic": topic,
            "time_ms": time_ms,
            "partitions": await slices.rows(
                ends, lambda each: PartitionOffsets.of(each, at_time=at.get(each.number))
            ),
            "groups": await slices.rows(
                groups, lambda each: GroupOffset.of(each, subscription=own_groups.get(each.group))
            ),
        }
    )


@routes.operation("GET", "topics", (404, 503), response_model=list[TopicView])
async def topics(
    brokers: BrokersDep,
    broker: Annotated[str | None, Query(description="name of the broker; all by default")] = None,
) -> Response:
    """Return every topic of one broker, or of every broker that answers (Kafka's Metadata)."""
    names = list(brokers.kinds) if broker is None else [broker]
    logs = [log_of(brokers, name) for name in names]
    found = await asyncio.gather(*map(_metadata_or_error, logs))
    refusals = [each for each in found if isinstance(each, BrokerError)]
    if refusals and len(refusals) == len(found):
        raise refusals[0]
    every = [
        (name, each)
        for name, metadata in zip(names, found, strict=True)
        if isinstance(metadata, LogMetadata)
        for each in metadata.topics
    ]
    rows = await Slices().rows(every, lambda pair: TopicView.of(pair[1], broker=pair[0]))
    return json_answer(rows)


@routes.operation("GET /{broker}/{topic:path}", "topic", (403, 404, 503))
async def topic(brokers: BrokersDep, broker: Broker, topic: Topic) -> TopicView:
    """Return the partitions of one topic: leader, replicas, in-sync replicas, earliest and latest position
    (Kafka's Metadata)."""
    for each in (await log_of(brokers, broker).metadata([topic])).topics:
        if each.name == topic and each.partitions:
            return TopicView.of(each, broker=broker)
    raise unknown_topic(broker, topic)


async def _metadata_or_error(log: Log) -> LogMetadata | BrokerError:
    """Return the metadata of a log, or the error of its broker."""
    try:
        return await log.metadata()
    except BrokerError as error:
        return error


def _parse_time(text: str) -> int:
    """Return milliseconds since the epoch. Raise Refused with 400 if the text is not a time."""
    number = text.isdecimal() and text.isascii()
    time_ms = int(text[:_DIGITS]) if number else time_of(text)
    if time_ms is None or time_ms > LATEST_MS:
        raise RequestRefused(
            400,
            "bad-time",
            f"{text[:50]!r} is not a time. Write 2026-01-01T00:00:00Z with a time zone, or milliseconds",
        )
    return time_ms


def _requested_partitions(
    metadata: LogMetadata, broker: str, topic: str, partition: int | None
) -> Sequence[PartitionMetadata]:
    """Return the metadata of the requested partition, or of all partitions. Raise Refused with 404 if the
    topic or the partition does not exist."""
    known = next((each.partitions for each in metadata.topics if each.name == topic), ())
    if not known:
        raise unknown_topic(broker, topic)
    ends = [each for each in known if partition in (None, each.number)]
    if not ends and partition is not None:
        raise start_points.unknown_partition(topic, partition)
    return ends


def unknown_topic(broker: str, topic: str) -> RequestRefused:
    """Return the refusal with 404 of a topic that the broker does not have."""
    return RequestRefused(
        404,
        "unknown-topic",
        f"broker {broker} has no topic {topic}. /v1/topics lists all topics. This request creates none",
    )


async def ends_of(
    log: Log, broker: str, topic: str, partition: int | None = None
) -> Sequence[PartitionMetadata]:
    """Return the partitions to read, with their ends. Raise Refused with 404 if the topic or the partition
    does not exist."""
    return _requested_partitions(await log.metadata([topic]), broker, topic, partition)


def log_of(brokers: Brokers, broker: str) -> Log:
    """Return the log of a configured broker. Raise Refused with 404 for any other name, including names of
    internal logs."""
    if broker not in brokers.kinds:
        known = ", ".join(brokers.kinds)
        raise RequestRefused(
            404, "unknown-broker", f"broker {broker} does not exist. Known brokers are: {known}"
        )
    return brokers.logs[broker]
