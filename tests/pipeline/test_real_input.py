"""GitHub's 329 example payloads through the bridge into a real Kafka and into the embedded log: the archive
of the one says the same as the archive of the other, and gives back the very bytes.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.bindings.record import ContentMode, Decoded, Record
from app.cli.client import EventsClient
from app.cli.feed import github_feed
from app.errors import SetupError
from app.event.value import CloudEvent
from app.features.lake.settings import archived_topics, kafka_place
from app.interfaces.clock import SystemClock
from app.pipeline.archive import run
from app.pipeline.archive.job import ArchivePlan
from app.pipeline.replay import run as replay
from app.pipeline.replay.choice import RecordChoice
from app.pipeline.replay.notes import ReplayNotes
from app.pipeline.replay.plan import LakeReplayOrder, plan_replay
from app.pipeline.replay.run import ReplayPace
from app.pipeline.replay.topic import TopicOutlet, writer
from app.pipeline.settings import Lake
from configuration import configuration, loaded, route, written
from free_ports import free_ports
from lake_folders import lake_in, session_of
from replay_records import by_key, open_topic, stored_records
from service import running
from skipping import skip_or_fail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT, TOGETHER = 329, 25  # events; of one request, whose body has a bound
SERVERS = Path(__file__).parents[2] / ".servers"

pytestmark = [pytest.mark.nightly, pytest.mark.kafka]


def feed() -> list[CloudEvent]:
    try:
        environ = {"SKYBRIDGE_CACHE": str(SERVERS), **os.environ}
        return github_feed(environ, "2026-11-21T00:00:00Z").events
    except SetupError as missing:
        skip_or_fail(missing)


def batched(events: list[CloudEvent]) -> Iterator[list[CloudEvent]]:
    for begin in range(0, len(events), TOGETHER):
        yield events[begin : begin + TOGETHER]


async def replayed(session: SparkSession, lake: Lake, kafka: str, topic: str) -> None:
    log, clock = open_topic(kafka, topic, 1), SystemClock()
    order = LakeReplayOrder(RecordChoice(), f"main/{topic}", marked=False)
    plan, chosen = await asyncio.to_thread(plan_replay, session, lake, order)
    notes = ReplayNotes(session, f"{lake.catalog.warehouse}/_checkpoints", plan.id)
    notes.begin(plan)
    await log.start()
    try:
        outlet = TopicOutlet(log, topic, writer("recorded", None), clock)
        outcome = await replay.run(plan, chosen, outlet, notes, ReplayPace(clock), clock)
    finally:
        await log.stop()
    assert (outcome.sent, outcome.refused) == (COUNT, {})


def of(kafka: str, topic: str) -> list[Record]:
    return [record for _, record in stored_records(kafka, topic)]


@pytest.mark.usefixtures("spark")
async def test_both_logs_come_to_the_same_lake(kafka: str, tmp_path: Path) -> None:
    events = feed()
    name = f"github-{uuid4().hex[:8]}"
    embedded = {"kafka_listener": f"127.0.0.1:{free_ports(1)[0]}"}
    main = {"kind": "kafka", "bootstrap_servers": kafka, "topics": {"create": True}}
    settings = configuration(
        tmp_path,
        installation=name,
        brokers={"log": embedded, "main": main},
        routes=[
            route(
                to=[{"broker": broker, "topic": name} for broker in ("log", "main")],
                key={"mapper": "partitionkey"},
            )
        ],
        timeouts={"request_head": "60s", "request_body": "60s", "drain": "60s"},
        log={"level": "warning"},
    )
    config = loaded(written(settings, tmp_path)).config
    async with running(settings, tmp_path) as service:
        client = EventsClient(f"{service.events_url}/events", timeout=120.0)
        for several in batched(events):
            fates = await client.send([Decoded(e, ContentMode.BINARY) for e in several], "batch")
            assert {fate.status for fate in fates if not fate.accepted} == set()
        await client.close()
        counts = {}
        for broker in ("main", "log"):
            lake = lake_in(tmp_path / f"lake-{broker}")
            session = session_of(lake)
            plan = ArchivePlan(
                place=kafka_place(config, broker),
                topics=archived_topics(config, broker),
            )
            outcome = await asyncio.to_thread(run.once, session, lake, plan)
            assert outcome == run.ArchiveResult(COUNT, COUNT, 0, 0)
            table = lake.table("events")
            rows = session.sql(f"SELECT type, count(*) AS n FROM {table} GROUP BY type").collect()
            counts[broker] = Counter({row["type"]: row["n"] for row in rows})
        await replayed(session, lake, kafka, f"{name}.again")  # out of the embedded log
    assert by_key(of(kafka, f"{name}.again")) == by_key(of(kafka, name)), "key, value and headers"
    assert counts["main"] == counts["log"] == Counter(each.type for each in events)
