"""SIGKILL of Skybridge under an idempotent Java producer: what was acknowledged is there, once."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from kafka_foreign import java, read, running_java
from kafka_serving import KafkaServing
from waiting import wait_until

pytestmark = pytest.mark.nightly

PATIENT = {
    "retries": "2147483647",  # the tool's own default is none
    "enable.idempotence": "true",
    "delivery.timeout.ms": "300000",
    "request.timeout.ms": "30000",
    "retry.backoff.ms": "20",
    "reconnect.backoff.max.ms": "100",
    "batch.size": "512",  # many batches, so that kills meet them in every state
}


class Journal:
    """What the producer has said so far: a line of JSON for each acknowledgement."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def acked(self) -> int:
        return self.path.read_bytes().count(b"producer_send_success")

    def lines(self, name: str) -> list[dict[str, Any]]:
        said = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in said if line["name"] == name]


def produce_under_kills(
    service: KafkaServing, topic: str, folder: Path, *, count: int, a_second: int, kills: int
) -> Journal:
    """The producer ends by itself, or its time is up."""
    seed = int(os.environ.get("SKYBRIDGE_SEED") or random.SystemRandom().randrange(10**9))
    print(f"SKYBRIDGE_SEED={seed}")
    moments = sorted(random.Random(seed).sample(range(1, count), kills))
    config, journal = folder / "producer.properties", Journal(folder / "journal")
    config.write_text("".join(f"{name}={value}\n" for name, value in PATIENT.items()))
    words = ["--topic", topic, "--max-messages", str(count), "--throughput", str(a_second)]
    words += ["--command-config", str(config)]
    with running_java("VerifiableProducer", service.servers, journal.path, *words) as producer:
        for moment in moments:
            wait_until(
                lambda at=moment: journal.acked >= at,
                f"{moment} messages",
                moved=lambda: journal.acked,
            )
            service.kill()
            service.start()
        wait_until(
            lambda: producer.poll() is not None,
            "the end of the producer",
            moved=lambda: journal.acked,
        )
        assert producer.returncode == 0
    return journal


@pytest.mark.fault
@pytest.mark.usefixtures("with_java")
@pytest.mark.parametrize(
    ("count", "a_second", "kills"),
    [(4_000, -1, 2), pytest.param(100_000, -1, 20, marks=pytest.mark.nightly)],
)
def test_acknowledged_records_survive_kills_each_once(
    own_serving, topic, tmp_path, count, a_second, kills
):
    """Producer id, epoch and sequence are of one commit with the rows (reliability G1): nothing is
    lost, nothing doubled, nothing out of order, and the producer is never stuck."""
    journal = produce_under_kills(
        own_serving, topic, tmp_path, count=count, a_second=a_second, kills=kills
    )
    assert journal.lines("producer_send_error") == []
    acked = {line["offset"]: line["value"] for line in journal.lines("producer_send_success")}
    found = {
        each.offset(): (each.value() or b"").decode()
        for each in read(own_serving.servers, topic, count)
    }
    assert found == acked
    assert list(found.values()) == [str(n) for n in range(count)]
    offsets = java("GetOffsetShell", own_serving.servers, "--topic", topic, "--time", "latest")
    assert offsets.strip() == f"{topic}:0:{count}", "more is there than was sent"
