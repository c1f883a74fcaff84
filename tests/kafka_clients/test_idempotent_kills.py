"""librdkafka's idempotent producer through kills of Skybridge: nothing lost, nothing twice, no wedge."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.log.engine import Engine
from app.log.settings import EngineSettings
from app.model.message import Partition
from service_process import ServiceProcess, free_ports

pytestmark = pytest.mark.fault
RECORDS, KILLS, PARTITIONS = 20_000, 2, 2
SETTLED = 60  # seconds


async def test_an_idempotent_producer_survives_kills(tmp_path: Path) -> None:
    """The numbers of a batch are in the transaction of its records: what is sent again is known."""
    events, admin, kafka = free_ports(3)
    file = tmp_path / "skybridge.yaml"
    file.write_text(f"""\
version: 1
server: {{events: {{port: {events}}}, admin: {{port: {admin}}}}}
store: {{kind: sqlite, path: {tmp_path}/store.db}}
brokers:
  log: {{kind: embedded, path: {tmp_path}/log, partitions: {PARTITIONS},
         kafka_listener: "127.0.0.1:{kafka}"}}
routes: [{{name: all, to: {{broker: log, topic: other}}}}]
""")
    service = ServiceProcess(file, tmp_path, admin)
    service.start()
    told: list[str] = []
    try:
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{kafka}",
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "reconnect.backoff.max.ms": 200,
            }
        )
        for n in range(RECORDS):
            producer.produce(
                "t", b"%d" % n, partition=n % PARTITIONS,
                on_delivery=lambda error, _: told.append(error.name() if error else ""),
            )  # fmt: skip
            producer.poll(0.001 if n % 50 == 0 else 0)
            if n % (RECORDS // (KILLS + 1)) == RECORDS // (KILLS + 1) - 1 and n < RECORDS * 0.9:
                service.kill()
                service.start()
        assert producer.flush(SETTLED) == 0
    finally:
        service.kill()
    assert told == [""] * RECORDS
    engine = Engine(EngineSettings(path=tmp_path / "log"))
    await engine.start()
    for partition in range(PARTITIONS):
        runs = await engine.scan(Partition("t", partition), 0, list)
        found = [int(body or b"") for run in runs for _, _, body, _ in run.records]
        assert found == list(range(partition, RECORDS, PARTITIONS))
    await engine.stop()
