"""GitHub's 329 example payloads through the bridge into a real Kafka and into the embedded log: the archive
of the one says the same as the archive of the other.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from app.bindings.record import ContentMode, Decoded
from app.cli.client import EventsClient
from app.cli.feed import github_feed
from app.config.load import load
from app.errors import SetupError
from app.event.value import CloudEvent
from app.pipeline.archive import run
from app.pipeline.archive.stream import Plan
from app.runtime.build import build
from app.runtime.clock import SystemClock
from app.runtime.pipeline import archived_topics, kafka_place
from app.runtime.service import Service
from lake_house import lake_in, session_of

COUNT = 329
SERVERS = Path(__file__).parents[2] / ".servers"

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(1800)]

CONFIG = """
version: 1
installation: {name}
server: {{events: {{port: 0}}, admin: {{port: 0}}}}
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log, kafka_listener: "127.0.0.1:{port}"}}
  main: {{kind: kafka, bootstrap_servers: "{kafka}", topics: {{create: true}}}}
routes:
  - name: both
    to: [{{broker: log, topic: {name}}}, {{broker: main, topic: {name}}}]
    key: {{mapper: partitionkey}}
timeouts: {{not_ready: 0, drain: 5s}}
log: {{level: warning}}
"""


def feed() -> list[CloudEvent]:
    try:
        environ = {"SKYBRIDGE_CACHE": str(SERVERS), **os.environ}
        return github_feed(environ, "2026-11-21T00:00:00Z").events
    except SetupError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.usefixtures("spark")
async def test_both_logs_come_to_the_same_lake(kafka: str, tmp_path: Path) -> None:
    import asyncio

    events = feed()
    name = f"github-{uuid4().hex[:8]}"
    file = tmp_path / "skybridge.yaml"
    values = {"folder": tmp_path, "name": name, "kafka": kafka, "port": free_port()}
    file.write_text(CONFIG.format(**values))
    config = load(file, {}).config
    service = Service(build(config, SystemClock()))
    await service.start()
    try:
        client = EventsClient(f"{service.events_url}/events")
        fates = await client.send([Decoded(each, ContentMode.BINARY) for each in events], "batch")
        await client.close()
        assert all(fate.accepted for fate in fates)
        counts = {}
        for broker in ("main", "log"):
            lake = lake_in(tmp_path / f"lake-{broker}")
            session = session_of(lake)
            plan = Plan(
                place=kafka_place(config, broker),
                topics=archived_topics(config, broker),
                checkpoints=f"{lake.catalog.warehouse}/_checkpoints",
            )
            outcome = await asyncio.to_thread(run.once, session, lake, plan)
            assert outcome == run.Outcome(COUNT, COUNT, 0, 0)
            table = lake.table("events")
            rows = session.sql(f"SELECT type, count(*) AS n FROM {table} GROUP BY type").collect()
            counts[broker] = Counter({row["type"]: row["n"] for row in rows})
    finally:
        await service.stop()
    assert counts["main"] == counts["log"] == Counter(each.type for each in events)
