"""Record batches as a client makes and reads them, by aiokafka."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from app.bindings.record import Record

ROOM = 4 << 20


def batch(
    of: Sequence[Record], codec: int = 0, producer: int = -1, epoch: int = -1, first: int = -1
) -> bytes:
    """As a producer makes it, by aiokafka."""
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
    """By a client's own code: offset, time, kind of time, record."""
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
