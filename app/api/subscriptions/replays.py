"""``:replay``: deliver a range of a log to one subscription again, in addition to its new events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Path, Response
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from app.api.access.operations import CallerDep, router
from app.api.access.parts import BrokersDep, RegistryDep, StoreDep
from app.api.asked.brokers import Brokers
from app.api.http import start_points
from app.api.http.moments import now_ms
from app.api.http.parameters import Rate
from app.api.http.problems import RequestRefused
from app.api.http.views import CopyingView
from app.api.subscriptions.routes import PATH, Id, entry_of
from app.api.subscriptions.verbs import runnable
from app.api.topics.records import demand_leaders
from app.api.topics.routes import ends_of, log_of
from app.interfaces import Log, Replay
from app.model.message import Partition
from app.model.metadata import PartitionMetadata
from app.model.pull import Pull
from app.model.start import Start
from app.model.subscription import Subscription


def _tag_of(value: object) -> str:
    """Return the tag by which pydantic chooses the model of a start or an end: ``word`` for a text such as
    ``earliest``, else ``place``."""
    return "word" if isinstance(value, str) else "place"


Position = Annotated[Start, Tag("place")]
Earliest = Annotated[Annotated[Literal["earliest"], Tag("word")] | Position, Discriminator(_tag_of)]
Latest = Annotated[Annotated[Literal["latest"], Tag("word")] | Position, Discriminator(_tag_of)]


class ReplayRequest(BaseModel):
    """The range to deliver again. Start and end have the form of `start` of a subscription. Partitions that
    `position` does not name are left out."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    begin: Earliest = Field(
        alias="from",
        description='earliest, {"time": "2026-01-01T00:00:00Z"} or {"position": {"0": "123"}}',
        examples=["earliest"],
    )
    until: Latest = Field(
        "latest",
        description="end of the range, exclusive; latest is the end at the time of the request",
    )
    topic: str | None = Field(
        None, description="only this topic; by default all topics of the subscription"
    )
    rate: Rate = Field(0, description="events per second, at least one a day; 0 for no limit")
    dry_run: bool = Field(False, description="true to return the plan only")


class ReplayView(CopyingView):
    """The remaining range of a replay in one partition."""

    id: int = Field(description="id of the replay of this partition")
    topic: str = Field(description="name of the topic")
    partition: int = Field(description="number of the partition")
    next: str = Field(description="first position that may be unfinished")
    until: str = Field(description="end of the range, exclusive")
    remaining: int | None = Field(
        description="maximum number of remaining records; null if positions are not numbers"
    )
    done: int = Field(description="number of finished records")
    rate: float = Field(description="events per second; 0 for no limit")
    asked_ms: int = Field(description="time of the request, in ms since the epoch")


class ReplayPlan(BaseModel):
    """The ranges of a replay."""

    dry_run: bool = Field(description="true if nothing was started")
    replays: list[ReplayView] = Field(description="range of each partition, without empty ones")
    total: int | None = Field(
        description="maximum number of records, including filtered ones; null if positions are not numbers"
    )


routes = router(PATH, tags=["subscriptions"])


@routes.operation(
    "POST /{id}:replay",
    "replay_subscription",
    (400, 403, 404, 409, 416, 422, 501, 503),
    responses={200: {"model": ReplayPlan, "description": "The plan (`dry_run`)."}},
    status_code=202,
)
async def replay(
    registry: RegistryDep,
    brokers: BrokersDep,
    store: StoreDep,
    by: CallerDep,
    id: Id,
    body: ReplayRequest,
    response: Response,
) -> ReplayPlan:
    """Deliver a range again, in addition to new events, with the filters, order and retries of the
    subscription. The group's position does not change. A subscription has one replay at a time."""
    subscription = runnable(await entry_of(registry, id))
    planned = await _plan_ranges(brokers, subscription, body, now_ms(store.clock))
    if body.dry_run:
        by.annotate_audit(detail="dry run")
        response.status_code = 200
        return _plan(planned, dry_run=True)
    if not planned:
        raise RequestRefused(422, "empty-range", "the range is empty")
    numbers = await store.replays.ask(planned)
    if not numbers:
        raise RequestRefused(
            409, "under-way", f"a replay of {id} is running. Wait for it, or DELETE its /replays"
        )
    await registry.nudge()
    asked = zip(planned, numbers, strict=True)
    return _plan([replace(each, id=number) for each, number in asked], dry_run=False)


@routes.operation("GET /{id}/replays", "replays", (404, 503))
async def replays(registry: RegistryDep, store: StoreDep, id: Id) -> list[ReplayView]:
    """Return the remaining ranges of the subscription's replay. The list is empty when the replay is done."""
    entry = await entry_of(registry, id)
    return [_view(each) for each in await store.replays.all(entry.id)]


@routes.operation("DELETE /{id}/replays", "cancel_replays", (404, 503), status_code=204)
async def cancel(registry: RegistryDep, store: StoreDep, id: Id) -> Response:
    """Cancel the subscription's replay. Attempts that are in flight still finish."""
    entry = await entry_of(registry, id)
    for each in await store.replays.all(entry.id):
        await store.replays.end(each.id)
    await registry.nudge()
    return Response(status_code=204)


@routes.operation("DELETE /{id}/replays/{replay}", "cancel_replay", (404, 503), status_code=204)
async def cancel_one(
    registry: RegistryDep,
    store: StoreDep,
    id: Id,
    replay: Annotated[
        int, Path(ge=1, le=2**63 - 1, description="id of the replay of one partition")
    ],
) -> Response:
    """Cancel the subscription's replay in one partition."""
    entry = await entry_of(registry, id)
    known = {each.id for each in await store.replays.all(entry.id)}
    if replay not in known:
        raise RequestRefused(404, "unknown-replay", f"{entry.id} has no running replay {replay}")
    await store.replays.end(replay)
    await registry.nudge()
    return Response(status_code=204)


async def _plan_ranges(
    brokers: Brokers, subscription: Subscription, body: ReplayRequest, asked_ms: int
) -> list[Replay]:
    """Return one replay for each partition. Partitions with an empty range are left out. The rate is divided
    among the partitions."""
    broker = subscription.source.broker
    log = _replayable(brokers, subscription)
    found = []
    for topic in _topics(subscription, body):
        ends = demand_leaders(await ends_of(log, broker, topic), topic)
        begin = await _places(log, topic, ends, body.begin, unnamed=None)
        until = await _places(log, topic, ends, body.until, unnamed="latest")
        found += [
            Replay(
                subscription=subscription.id,
                broker=broker,
                partition=Partition(topic, number),
                next=begin[number],
                until=until[number],
                asked_ms=asked_ms,
            )
            for number in begin
            if begin[number] != until[number] and _distance(begin[number], until[number]) != 0
        ]
    return [replace(each, rate=body.rate / len(found)) for each in found]


def _replayable(brokers: Brokers, subscription: Subscription) -> Log:
    """Return the log of a subscription. Raise Refused with 409 for a pull subscription, and for a log that
    cannot be read again."""
    log = log_of(brokers, subscription.source.broker)
    if isinstance(subscription.sink, Pull):
        raise RequestRefused(
            409,
            "not-replayable",
            f"subscription {subscription.id} has a pull queue. Create another pull subscription that starts there",
        )
    if not log.capabilities.replayable:
        raise RequestRefused(
            409,
            "not-replayable",
            f"broker {log.name} cannot be read again, because reads consume messages. Store the events in a log"
            " that can: the embedded log, Kafka, Pulsar or a RabbitMQ stream",
        )
    return log


def _topics(subscription: Subscription, body: ReplayRequest) -> Sequence[str]:
    """Return the topics to replay. Raise Refused with 422 for a topic that the subscription does not read, or
    for a position without a topic."""
    topics = subscription.source.topics
    if body.topic is not None and body.topic not in topics:
        raise RequestRefused(422, "unknown-topic", f"topic is none of {', '.join(topics)}")
    chosen = topics if body.topic is None else (body.topic,)
    positions = any(isinstance(each, Start) and each.position for each in (body.begin, body.until))
    if positions and len(chosen) > 1:
        raise RequestRefused(
            422,
            "topic-needed",
            "position needs a topic, because a position belongs to one. Set topic",
        )
    return chosen


async def _places(
    log: Log,
    topic: str,
    ends: Sequence[PartitionMetadata],
    at: str | Start,
    *,
    unnamed: Literal["latest"] | None,
) -> dict[int, str]:
    """Return the position in each partition. Partitions that ``at`` does not name start at ``unnamed``. They
    are left out if ``unnamed`` is None."""
    if isinstance(at, Start) and at.time is not None and not log.capabilities.seek_by_time:
        raise RequestRefused(
            422, "not-capable", f"broker {log.name} cannot seek by time. Send positions"
        )
    found = await start_points.resolve(log, topic, ends, _start_text(at))
    named = {number: place.position for number, place in found.items()}
    if isinstance(at, Start) and at.position is not None:
        wanted = set(at.position)
        others = {each.number: each.latest for each in ends} if unnamed else {}
        return others | {number: named[number] for number in wanted}
    return named


def _start_text(at: str | Start) -> str:
    """Return a start or an end in the form that ``start_points.resolve`` accepts."""
    if isinstance(at, str):
        return at
    if at.time is not None:
        return at.time
    return ",".join(f"{number}@{position}" for number, position in (at.position or {}).items())


def _plan(replays: Sequence[Replay], *, dry_run: bool) -> ReplayPlan:
    """Return the answer for these replays."""
    views = [_view(each) for each in replays]
    counts = [each.remaining for each in views]
    known = [count for count in counts if count is not None]
    return ReplayPlan(
        dry_run=dry_run, replays=views, total=sum(known) if len(known) == len(counts) else None
    )


def _view(replay: Replay) -> ReplayView:
    place = replay.partition
    remaining = _distance(replay.next, replay.until)
    return ReplayView.of(replay, topic=place.topic, partition=place.number, remaining=remaining)


def _distance(begin: str, until: str) -> int | None:
    """Return the number of records between two positions, or None if positions are not numbers, as on Pulsar."""
    if begin.isdecimal() and until.isdecimal():
        return max(0, int(until) - int(begin))
    return None
