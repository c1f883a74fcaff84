"""Write record batches into a real topic that no client library would make."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from app.bindings.record import Record

CRC_AT, CRC_COVERS = 17, 21  # byte offsets in a batch: the checksum, and the first byte it covers


def batch(
    records: Sequence[Record], instead: tuple[bytes, bytes], *, compression: int = 0
) -> bytes:
    """Return a record batch in which some bytes are replaced before compression, with a correct
    checksum.

    Args:
        records: The records of the batch.
        instead: The bytes to replace and their replacement, of equal length.
        compression: The compression of Kafka's protocol, 0 for none.
    """
    assert len(instead[0]) == len(instead[1])
    builder = DefaultRecordBatchBuilder(2, compression, 0, -1, -1, -1, 1 << 20)
    for offset, record in enumerate(records):
        builder.append(offset, 1_000 + offset, record.key, record.body, list(record.headers))
    built = bytearray(builder.build())
    assert instead[0] in built
    built = bytearray(bytes(built).replace(*instead))
    built[CRC_AT:CRC_COVERS] = struct.pack(">I", calc_crc32c(bytes(built[CRC_COVERS:])))
    return bytes(built)


async def produce(bootstrap_servers: str, topic: str, raw: bytes) -> None:
    """Write the batch unchanged to partition 0. Raises AssertionError if the broker refuses it."""
    client = AIOKafkaClient(bootstrap_servers=bootstrap_servers)
    await client.bootstrap()
    try:
        request = ProduceRequest(
            transactional_id=None, required_acks=-1, timeout=5_000, topics=[(topic, [(0, raw)])]
        )
        answer = await client.send(client.get_random_node(), request)
        [(_, [(_, code, *_)])] = answer.topics
        assert code == 0, f"the broker refused it with error {code}"
    finally:
        await client.close()
