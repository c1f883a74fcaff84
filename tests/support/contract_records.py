"""Cases of the broker contract on records. A record is read as it was stored, in the stored order
and from the right partition."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from app.bindings.record import Record
from app.brokers.portable import PortableLog
from app.errors import (
    BrokerRefused,
)
from app.model.message import Message, Partition
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from contract_tools import (
    JAVA_HASHES,
    Harness,
    bodies,
    fresh_group,
    has,
    publish,
    take,
    text,
)

LARGE = 20_000  # bytes of a body that is larger than any other object of a publish


@contextmanager
def collector_off() -> Iterator[list[object]]:
    """Turn the garbage collector off. ``gc.collect`` moves what it finds into the list that is yielded."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def sized(value: object) -> int:
    return len(value) if isinstance(value, bytes | bytearray) else 0


class RecordCases:
    """Test cases of stored records. A base of ``BrokerContract``."""

    async def test_what_is_published_is_consumed(self, harness: Harness, log: PortableLog) -> None:
        """A consumer gets key, headers and body of a record as they were published."""
        topic = await harness.fresh_topic(log)
        record = Record(b"k", (("ce_id", b"1"), ("content-type", b"text/plain")), b"hello")
        (receipt,) = await publish(log, topic, [record])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        (message,) = await take(consumer, 1)
        assert message.record == record
        assert message.partition == Partition(topic, receipt.partition)
        if has(harness, "positions"):
            assert message.position == receipt.position
        await consumer.close()

    async def test_records_of_one_key_keep_their_order(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """Records of one key keep their order, even with many submissions at once."""
        topic = await harness.fresh_topic(log)
        sent = [text(f"{key}-{number}", key) for number in range(50) for key in ("a", "b", "c")]
        results = await asyncio.gather(*(log.submit(topic, [record]) for record in sent))
        assert all(isinstance(result, Receipt) for (result,) in results)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, len(sent))
        for key in (b"a", b"b", b"c"):
            got = [m.record.body for m in messages if m.record.key == key]
            assert got == [b"%b-%d" % (key, number) for number in range(50)]
        await consumer.close()

    async def test_one_submit_keeps_the_order_of_its_records(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """Records of one submit with the same key are stored in order, with increasing positions."""
        topic = await harness.fresh_topic(log)
        receipts = await publish(log, topic, [text(str(n), "one") for n in range(20)])
        assert len({receipt.partition for receipt in receipts}) == 1
        if has(harness, "positions"):
            ranks = [harness.rank(receipt.position) for receipt in receipts]
            assert ranks == sorted(set(ranks))
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        assert bodies(await take(consumer, 20)) == [b"%d" % n for n in range(20)]
        await consumer.close()

    async def test_no_published_body_waits_for_the_garbage_collector(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A service runs the collector rarely (``runtime.heap``). Bodies in reference cycles would fill its
        memory until then."""
        topic = await harness.fresh_topic(log)
        body = "x" * LARGE
        await publish(log, topic, [text(body, "warm")])
        with collector_off() as garbage:
            for number in range(20):
                await publish(log, topic, [text(body, str(number))])
            gc.collect()
            kept = [each for each in gc.get_referents(*garbage) if sized(each) >= LARGE]
        assert kept == []

    async def test_no_consumed_body_waits_for_the_garbage_collector(
        self, harness: Harness, log: PortableLog
    ) -> None:
        topic = await harness.fresh_topic(log)
        sent = [text("x" * LARGE, str(number)) for number in range(20)]
        await publish(log, topic, sent)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        with collector_off() as garbage:
            await consumer.settle(await take(consumer, len(sent)))
            gc.collect()
            kept = [each for each in gc.get_referents(*garbage) if sized(each) >= LARGE]
        assert kept == []
        await consumer.close()

    async def test_no_body_and_an_empty_body_are_told_apart(self, harness: Harness) -> None:
        """A record without a body (a tombstone) differs from one with an empty body."""
        records = [Record(b"k", (), None), Record(b"k", (), b""), Record(b"k", (), b"x")]
        expected = [None if has(harness, "null_body") else b"", b"", b"x"]
        assert bodies(await self._round_trip(harness, records)) == expected

    async def test_headers_keep_order_repeats_and_null_values(self, harness: Harness) -> None:
        """Headers keep their order, repeats and null values."""
        null = None if has(harness, "null_headers") else b""
        headers = (("a", b"1"), ("b", b""), ("a", b"2"), ("c", null), ("a", b"1"))
        (message,) = await self._round_trip(harness, [Record(b"k", headers, b"x")])
        if not has(harness, "repeated_headers"):
            headers = headers[:2] + headers[3:4]
        assert message.record.headers == headers

    async def test_bytes_that_are_no_text_survive(self, harness: Harness) -> None:
        """Keys, header values and bodies are bytes, which need not be UTF-8."""
        key = b"\xff\x00\x80" if has(harness, "binary_keys") else b"key"
        value = b"\x00\xfe\xff" if has(harness, "binary_headers") else b"\x00\x01"
        record = Record(key, (("raw", value),), bytes(range(256)))
        (message,) = await self._round_trip(harness, [record])
        assert message.record == record

    async def test_text_beyond_ascii_survives(self, harness: Harness) -> None:
        """Headers can hold any Unicode text, as attribute values do (CloudEvents core 1.3)."""
        value = "Grüße, 世界 🌍".encode()
        record = Record(value, (("ce_größe", b"1"), ("ce_subject", value)), value)
        (message,) = await self._round_trip(harness, [record])
        assert message.record == record

    async def test_a_key_can_be_missing_or_empty(self, harness: Harness) -> None:
        """A missing key and an empty key are different."""
        records = [Record(None, (), b"none"), Record(b"", (), b"empty")]
        messages = await self._round_trip(harness, records)
        assert {m.record.body: m.record.key for m in messages} == {b"none": None, b"empty": b""}

    async def test_a_large_record_survives(self, harness: Harness) -> None:
        """A record of 900 kB, which is within the default bound of every broker, is stored
        unchanged.
        """
        body = bytes(range(256)) * 3_600
        (message,) = await self._round_trip(harness, [Record(b"k", (), body)])
        assert message.record.body == body

    async def test_a_record_above_the_bound_is_refused_and_harms_no_neighbour(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A record that is too large is refused as too large, and the other records of the submit
        are stored."""
        bound = harness.capabilities.max_record
        assert bound, "a log declares how large a record may be"
        topic = await harness.fresh_topic(log)
        (refusal,) = await log.submit(topic, [Record(b"k", (), bytes(bound + 1))])
        assert isinstance(refusal, BrokerRefused)
        assert refusal.kind == "record-too-large"
        await publish(log, topic, [text("next", "k")])

    async def test_a_key_lands_where_kafkas_java_client_puts_it(
        self, harness: Harness, log: PortableLog
    ) -> None:
        """A key has the same partition on every log as with Kafka's Java client."""
        topic = await harness.fresh_topic(log, partitions=7)
        for key, positive_hash in JAVA_HASHES.items():
            (receipt,) = await publish(log, topic, [Record(key, (), b"x")])
            assert receipt.partition == positive_hash % 7

    async def test_records_without_a_key_spread(self, harness: Harness, log: PortableLog) -> None:
        """Records without a key go to all partitions, so that none gets all the load."""
        topic = await harness.fresh_topic(log, partitions=3)
        used: set[int] = set()
        for _ in range(40):
            receipts = await publish(log, topic, [text("x") for _ in range(50)])
            used |= {receipt.partition for receipt in receipts}
            if len(used) == 3:
                break
        assert used == {0, 1, 2}

    async def _round_trip(self, harness: Harness, records: Sequence[Record]) -> list[Message]:
        log = await harness.make_log()
        topic = await harness.fresh_topic(log, partitions=1)
        await publish(log, topic, records)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, len(records))
        await consumer.close()
        await log.stop()
        return messages
