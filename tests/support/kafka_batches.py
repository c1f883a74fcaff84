"""Make and read record batches with aiokafka's code."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from app.bindings.record import Record

ROOM = 4 << 20


def batch(
    of: Sequence[Record], codec: int = 0, producer: int = -1, epoch: int = -1, first: int = -1
) -> bytes:
    """Return a record batch as a producer makes it.

    Args:
        of: The records.
        codec: The compression of Kafka's protocol, 0 for none.
        producer: The producer id, -1 for none.
        epoch: The producer epoch.
        first: The sequence number of the first record.
    """
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=first,
        batch_size=ROOM,
    )
    for n, record in enumerate(of):
        builder.append(n, 1_000 + n, record.key, record.body, list(record.headers))
    return bytes(builder.build())


def read_back(data: bytes) -> list[tuple[int, int, int, Record]]:
    """Return offset, time in ms, kind of time and record of each record, as a client reads them."""
    found = []
    memory = MemoryRecords(data)
    while memory.has_next():
        each = memory.next_batch()
        assert each is not None
        assert each.validate_crc()
        found += [
            (r.offset, r.timestamp, r.timestamp_type, Record(r.key, tuple(r.headers), r.value))
            for r in each
        ]
    return found
