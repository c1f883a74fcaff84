"""Write record batches (format 2) for Fetch responses, with aiokafka's codec.

The functions may run in any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

import msgspec
from crc32c import crc32c

from app.brokers.aiokafka_adapter import batch_builder
from app.kafka_listener.batches import CHECKED, CRC, HEADER, LENGTH_END
from app.kafka_listener.node import LEADER_EPOCH
from app.log.codec import Fields
from app.log.stored_batches import StoredRun

_APPEND_TIME = 0x08  # the log sets the time
_OFFSET, _EPOCH, _SUM, _ATTRIBUTES = Struct(">q"), Struct(">i"), Struct(">I"), Struct(">h")
MAX_MERGED_RECORDS = 1_024  # records of a batch that is made of several, roughly


class EncodedBatches(msgspec.Struct, frozen=True):
    """Record batches for a Fetch response.

    ``data`` has the bytes of consecutive batches, ``after`` is the next offset, and ``records`` is
    the number of records.
    """

    data: bytes
    after: int
    records: int


def write_batches(runs: Iterable[StoredRun], offset: int, limit: int) -> EncodedBatches:
    """Encode as many records as fit into ``limit`` bytes, but at least one.

    The batches have the time of the log. ``offset`` is the offset of the first record.
    """
    parts: list[bytes] = []
    count, room = 0, limit
    for base, time_ms, records in _merged_runs(runs):
        if parts and room < HEADER.size:
            break
        batch, taken = _write(base, time_ms, records, room)
        if parts and len(batch) > room:
            break
        parts.append(batch)
        room -= len(batch)
        offset, count = base + taken, count + taken
        if taken < len(records):
            break
    return EncodedBatches(b"".join(parts), offset, count)


def _merged_runs(runs: Iterable[StoredRun]) -> Iterator[tuple[int, int, list[Fields]]]:
    """Yield base offset, time and records, with neighbouring runs of equal time merged, because a
    batch has one time.
    """
    base, time_ms = 0, 0
    records: list[Fields] = []
    for run in runs:
        if (
            records
            and run.time_ms == time_ms
            and run.base == base + len(records) < base + MAX_MERGED_RECORDS
        ):
            records = records + run.records
            continue
        if records:
            yield base, time_ms, records
        base, time_ms, records = run.base, run.time_ms, run.records
    if records:
        yield base, time_ms, records


def _write(base: int, time_ms: int, records: list[Fields], room: int) -> tuple[bytes, int]:
    """Return one encoded batch and the number of its records. At least one record is encoded,
    whatever its size.
    """
    builder = batch_builder(max(room, HEADER.size))
    append = builder.append
    taken = 0
    for key, headers, body, content_type in records:  # hot: the cost of every record
        fields = list(headers)
        if content_type is not None:
            fields.append(("content-type", content_type.encode()))
        if append(taken, time_ms, key, body, fields) is None:
            break
        taken += 1
    batch = builder.build()
    _OFFSET.pack_into(batch, 0, base)
    _EPOCH.pack_into(batch, LENGTH_END, LEADER_EPOCH)
    _ATTRIBUTES.pack_into(batch, CHECKED, _APPEND_TIME)
    _SUM.pack_into(batch, CRC, crc32c(memoryview(batch)[CHECKED:]))
    return bytes(batch), taken
