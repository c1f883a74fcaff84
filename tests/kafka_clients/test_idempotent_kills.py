"""librdkafka's idempotent producer through kills of Skybridge: nothing lost, nothing twice, no wedge."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from app.log.engine import LogEngine
from app.log.settings import EngineSettings
from app.model.message import Partition
from configuration import configuration
from free_ports import free_ports
from service_process import ServiceProcess
from waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.fault]
KILLS, PARTITIONS = 2, 2
SETTLED = 240  # seconds


@pytest.mark.parametrize("records", [6_000, pytest.param(20_000, marks=pytest.mark.nightly)])
async def test_an_idempotent_producer_survives_kills(tmp_path: Path, records: int) -> None:
    """The numbers of a batch are in the transaction of its records: what is sent again is known."""
    (kafka,) = free_ports(1)
    log = {"partitions": PARTITIONS, "kafka_listener": f"127.0.0.1:{kafka}"}
    service = ServiceProcess(configuration(tmp_path, brokers={"log": log}), tmp_path)
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
        for n in range(records):
            producer.produce(
                "t", b"%d" % n, partition=n % PARTITIONS,
                on_delivery=lambda error, _: told.append(error.name() if error else ""),
            )  # fmt: skip
            producer.poll(0.001 if n % 50 == 0 else 0)
            if n % (records // (KILLS + 1)) == records // (KILLS + 1) - 1 and n < records * 0.9:
                _one_more(producer, told)
                service.kill()
                service.start()
        assert producer.flush(SETTLED) == 0
    finally:
        service.kill()
    assert told == [""] * records
    engine = LogEngine(EngineSettings(path=tmp_path / "log"))
    await engine.start()
    for partition in range(PARTITIONS):
        runs = await engine.scan(Partition("t", partition), 0, list)
        found = [int(body or b"") for run in runs for _, _, body, _ in run.records]
        assert found == list(range(partition, records, PARTITIONS))
    await engine.stop()


def _one_more(producer: Producer, told: list[str]) -> None:
    """So that a kill meets batches on their way, and some that are there."""
    before = len(told)

    def more() -> bool:
        producer.poll(0.01)
        return len(told) > before

    wait_until(more, "an acknowledgement", 120)
