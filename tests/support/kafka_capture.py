"""Record the requests that third-party clients send to the Kafka listener.

    python tests/support/kafka_capture.py > tests/corpus/kafka_wire/frames.txt

Each line is a frame: the name of the client, then the bytes in hexadecimal without their size.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from app.kafka_listener import connection
from app.kafka_listener.sasl import SaslUsers
from kafka_listening import KafkaTestListener, kafka_listening

FRAMES = Path(__file__).parents[1] / "corpus" / "kafka_wire" / "frames.txt"
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
HEADERS = [("ce_id", b"1"), ("twice", None), ("twice", b"")]


def frames(path: Path = FRAMES) -> list[tuple[str, bytes]]:
    """Return the recorded frames, each with the name of its client."""
    lines = path.read_text().splitlines()
    return [
        (who, bytes.fromhex(frame)) for who, _, frame in (line.partition(" ") for line in lines)
    ]


async def _aiokafka(listening: KafkaTestListener) -> None:
    for codec in CODECS:
        producer = AIOKafkaProducer(
            bootstrap_servers=listening.servers,
            client_id="aio",
            enable_idempotence=codec is None,
            compression_type=codec,
        )
        await producer.start()
        await producer.send_and_wait("aio", b"value " * 30, key=b"key", headers=HEADERS)
        await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=listening.servers, client_id="aio")
    await consumer.start()
    place = TopicPartition("aio", 0)
    consumer.assign([place])
    await consumer.seek_to_beginning()
    await consumer.getmany(timeout_ms=2_000)
    await consumer.offsets_for_times({place: 1})
    await consumer.stop()


def _librdkafka(servers: str, **settings: str) -> None:
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "rd",
                "enable.idempotence": codec is None,
                "compression.type": codec or "none",
                **settings,
            }
        )
        producer.produce("rd", b"value " * 30, key=b"key", headers=HEADERS, partition=0)
        producer.flush(10)
    alone = {"group.id": "g", "enable.auto.commit": False, "client.id": "rd"}
    consumer = Consumer({"bootstrap.servers": servers, **alone, **settings})
    consumer.assign([Place("rd", 0, 0)])
    consumer.poll(10)
    consumer.get_watermark_offsets(Place("rd", 0))
    consumer.offsets_for_times([Place("rd", 0, 1)], timeout=10)
    consumer.close()


def _group_and_admin(servers: str) -> None:
    settings = {"bootstrap.servers": servers, "client.id": "rd"}
    consumer = Consumer({**settings, "group.id": "many", "auto.offset.reset": "earliest"})
    consumer.subscribe(["rd"])
    for _ in range(20):
        if consumer.poll(1) is not None:
            break
    consumer.commit(asynchronous=False)
    consumer.committed([Place("rd", 0)], timeout=10)
    consumer.close()
    admin = AdminClient(settings)
    asked = [
        *admin.create_topics([NewTopic("made", 2)]).values(),
        *admin.create_partitions([NewPartitions("made", 3)]).values(),
        *admin.describe_configs([ConfigResource("topic", "rd")]).values(),
        *admin.delete_topics(["made"]).values(),
        *admin.describe_consumer_groups(["many"]).values(),
        admin.list_consumer_groups(),
        admin.describe_cluster(),
        *admin.delete_consumer_groups(["many"]).values(),
    ]
    for each in asked:
        each.exception(10)


async def _kcat(listening: KafkaTestListener) -> None:
    for arguments in (["-L"], ["-C", "-t", "rd", "-e", "-q"], ["-Q", "-t", "rd:0:-1"]):
        process = await asyncio.create_subprocess_exec(
            "kcat", "-b", listening.servers, *arguments, stdout=asyncio.subprocess.DEVNULL
        )
        await process.wait()


async def _capture() -> list[tuple[str, bytes]]:
    taken: dict[tuple[str, bytes], None] = {}
    who = ""
    read = connection.read_request

    def noting(frame: bytes, offered: object) -> object:
        taken[who, frame] = None
        return read(frame, offered)  # type: ignore[arg-type]

    connection.read_request = noting  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        async with kafka_listening(Path(folder) / "open", log={"partitions": 1}) as listening:
            who = "aiokafka"
            await _aiokafka(listening)
            who = "librdkafka"
            await asyncio.to_thread(_librdkafka, listening.servers)
            await asyncio.to_thread(_group_and_admin, listening.servers)
            who = "kcat"
            await _kcat(listening)
        logins = SaslUsers({"ann": "secret"}, ["PLAIN", "SCRAM-SHA-256"])
        async with kafka_listening(Path(folder) / "shut", logins=logins) as listening:
            who = "librdkafka"
            for mechanism in logins.mechanisms:
                await asyncio.to_thread(
                    lambda chosen=mechanism: _librdkafka(
                        listening.servers,
                        **{
                            "security.protocol": "SASL_PLAINTEXT",
                            "sasl.mechanism": chosen,
                            "sasl.username": "ann",
                            "sasl.password": "secret",
                        },
                    )
                )
    return _one_of_a_kind(list(taken))


def _one_of_a_kind(taken: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Return the three largest frames for each client, API and version, and the twelve largest for
    the API Produce."""
    kinds: dict[tuple[str, bytes], list[bytes]] = {}
    for who, frame in taken:
        kinds.setdefault((who, frame[:4]), []).append(frame)
    return [
        (who, frame)
        for (who, kind), each in kinds.items()
        for frame in sorted(each, key=len, reverse=True)[: 12 if kind[:2] == b"\0\0" else 3]
    ]


if __name__ == "__main__":
    sys.stdout.writelines(f"{who} {frame.hex()}\n" for who, frame in asyncio.run(_capture()))
