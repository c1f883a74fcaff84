"""``/v1/topics``: the Metadata and Offset answers of the Kafka protocol guide."""

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
from app.api.http.problems import Refused
from app.api.http.slices import Slices
from app.api.http.views import View
from app.errors import BrokerError
from app.interfaces import Log
from app.model.metadata import LogMetadata, PartitionMetadata

Broker = Annotated[str, Path(description="its name in the configuration")]
Topic = Annotated[str, Path(description="name on the broker; may contain slashes")]
OnePartition = Annotated[int | None, Query(ge=0, description="all by default")]


_DIGITS = 20  # of a time; with as many it is too late
Position = Annotated[str | None, BeforeValidator(lambda text: text or None)]
"""Inside, an empty text where nobody tells."""


class PartitionView(BaseModel):
    number: int
    leader: int | None = Field(description="null during an election")
    replicas: list[int]
    isr: list[int] = Field(description="in-sync replicas")
    earliest: Position = Field(description="first stored position; null if unknown")
    latest: Position = Field(description="position of the next record")


class TopicView(View):
    broker: str
    name: str
    partitions: list[PartitionView]


class PartitionOffsets(View):
    number: int
    earliest: Position
    latest: Position
    at_time: str | None = Field(
        None, description="position of the first record stored at the requested time or later"
    )


class GroupOffset(View):
    group: str
    subscription: str | None = Field(description="the subscription of the group, if it has one")
    partition: int
    committed: str | None = Field(description="null if the group has no position or it is unknown")
    lag: int | None = Field(description="records after this position; null if unknown")


class OffsetsView(BaseModel):
    broker: str
    topic: str
    time_ms: int | None = Field(description="the requested time, milliseconds since the epoch")
    partitions: list[PartitionOffsets]
    groups: list[GroupOffset]


routes = router("/v1/topics", tags=["topics"])
"""Is to come after ``records``: a topic's name may have slashes, and whatever follows belongs to
it unless another route takes it."""


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
        Query(description="RFC 3339, or milliseconds since the epoch", examples=["1767225600000"]),
    ] = None,
    group: Annotated[
        list[str] | None, Query(description="by default the groups of the subscriptions")
    ] = None,
    partition: OnePartition = None,
) -> Response:
    """Earliest, latest and by-time positions of each partition, and positions of groups
    (Offset)."""
    log = log_of(brokers, broker)
    time_ms = None if time is None else _time(time)
    ours = subscriptions.groups(broker, topic)
    metadata = await log.metadata([topic], list(group or ours))
    ends = _ends(metadata, broker, topic, partition)
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
                groups, lambda each: GroupOffset.of(each, subscription=ours.get(each.group))
            ),
        }
    )


@routes.operation("GET", "topics", (404, 503), response_model=list[TopicView])
async def topics(
    brokers: BrokersDep,
    broker: Annotated[str | None, Query(description="all by default")] = None,
) -> Response:
    """Every topic of every broker that answers, or of one broker (Metadata)."""
    names = list(brokers.kinds) if broker is None else [broker]
    logs = [log_of(brokers, name) for name in names]
    found = await asyncio.gather(*map(_all, logs))
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
    """One topic's partitions (Metadata): leader, replicas, in-sync replicas, and both ends."""
    for each in (await log_of(brokers, broker).metadata([topic])).topics:
        if each.name == topic and each.partitions:
            return TopicView.of(each, broker=broker)
    raise unknown_topic(broker, topic)


async def _all(log: Log) -> LogMetadata | BrokerError:
    try:
        return await log.metadata()
    except BrokerError as error:
        return error


def _time(text: str) -> int:
    number = text.isdecimal() and text.isascii()
    time_ms = int(text[:_DIGITS]) if number else start_points.time_of(text)
    if time_ms is None or time_ms > start_points.LATEST_MS:
        raise Refused(
            400,
            "bad-time",
            f"{text[:50]!r} is not a time: write 2026-01-01T00:00:00Z, with its zone, or milliseconds",
        )
    return time_ms


def _ends(
    metadata: LogMetadata, broker: str, topic: str, partition: int | None
) -> Sequence[PartitionMetadata]:
    """Of the partitions asked for."""
    known = next((each.partitions for each in metadata.topics if each.name == topic), ())
    if not known:
        raise unknown_topic(broker, topic)
    ends = [each for each in known if partition in (None, each.number)]
    if not ends and partition is not None:
        raise start_points.unknown_partition(topic, partition)
    return ends


def unknown_topic(broker: str, topic: str) -> Refused:
    return Refused(
        404,
        "unknown-topic",
        f"broker {broker} has no topic {topic}: /v1/topics lists all topics; publishing creates none",
    )


async def ends_of(
    log: Log, broker: str, topic: str, partition: int | None = None
) -> Sequence[PartitionMetadata]:
    """The partitions that are to be read. Raises Refused for what is not there."""
    return _ends(await log.metadata([topic]), broker, topic, partition)


def log_of(brokers: Brokers, broker: str) -> Log:
    """Those of the configuration; what else ``logs`` may hold is no broker by itself."""
    if broker not in brokers.kinds:
        known = ", ".join(brokers.kinds)
        raise Refused(404, "unknown-broker", f"no broker {broker}; known are: {known}")
    return brokers.logs[broker]
