"""Metadata and positions of Pulsar topics, computed from answers of the administration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.brokers.pulsar.admin import PulsarAdmin, ask_each
from app.brokers.pulsar.answers import PartitionInternals, PartitionStats
from app.brokers.pulsar.positions import Position
from app.brokers.pulsar.reader import wire_of
from app.model.message import Partition
from app.model.metadata import GroupLag, LogMetadata, PartitionMetadata, ReadTopics, TopicMetadata


async def describe(
    admin: PulsarAdmin, broker: str, topics: Sequence[str] | None, groups: ReadTopics
) -> LogMetadata:
    """Return metadata of the existing topics, sorted by name, and the lag of the groups. None means all
    topics.

    The broker that serves a partition counts as its leader and only replica. Brokers hold no data, and Pulsar
    does not report the bookies that do. Brokers have no numbers, so this answer numbers them by address. A
    lag counts entries. If another producer writes batches, a whole batch is one entry.
    """
    asked = sorted(topics) if topics is not None else await admin.topics()
    partitioned = zip(asked, await ask_each(admin.wires_if_there, asked), strict=True)
    found = [(topic, every) for topic, every in partitioned if every]
    wires = [wire for _, every in found for wire in every.values()]
    held = dict(zip(wires, await ask_each(admin.internal_if_there, wires), strict=True))
    leaders = dict(zip(wires, await ask_each(admin.leader, wires), strict=True))
    numbers = _numbers(leaders)
    described = tuple(
        TopicMetadata(
            topic,
            tuple(_partition(n, held[wire], numbers[wire]) for n, wire in every.items()),
        )
        for topic, every in found
    )
    lags: list[GroupLag] = []
    counted = await ask_each(admin.stats, [topic for topic, _ in found] if groups else ())
    for (topic, every), stats in zip(found, counted, strict=False):
        readers = [group for group, read in groups.items() if topic in read]
        lags += _lags(topic, every, held, stats, readers)
    return LogMetadata(broker, described, tuple(lags))


def _numbers(leaders: Mapping[str, str | None]) -> dict[str, int | None]:
    addresses = sorted({address for address in leaders.values() if address is not None})
    return {
        wire: None if address is None else addresses.index(address)
        for wire, address in leaders.items()
    }


def _partition(
    number: int, held: PartitionInternals | None, leader: int | None
) -> PartitionMetadata:
    replicas = () if leader is None else (leader,)
    return PartitionMetadata(
        number=number,
        leader=leader,
        replicas=replicas,
        isr=replicas,
        earliest=held.earliest.text if held else "",
        latest=held.latest.text if held else "",
    )


def _lags(
    topic: str,
    wires: Mapping[int, str],
    held: Mapping[str, PartitionInternals | None],
    stats: Mapping[str, PartitionStats],
    groups: Sequence[str],
) -> list[GroupLag]:
    lags = []
    for group in groups:
        for number, wire in wires.items():
            place = held[wire]
            committed = place.committed(group) if place else None
            subscription = stats[wire].subscriptions.get(group) if wire in stats else None
            lag = None if subscription is None else subscription.msg_backlog
            lags.append(GroupLag(group, topic, number, committed.text if committed else None, lag))
    return lags


async def position_at(admin: PulsarAdmin, partition: Partition, time_ms: int) -> str:
    """Return the position of the first message stored at ``time_ms`` or later. If there is none, return the
    end of the partition."""
    wire = await wire_of(admin, partition)
    place = await admin.place_at(wire, time_ms)
    held = await admin.internal(wire)
    return (held.latest if place > held.last else max(place, held.earliest)).text


async def position_back(admin: PulsarAdmin, partition: Partition, count: int) -> str:
    """Return the position that is ``count`` entries before the end. If another producer writes batches, a
    whole batch is one entry."""
    return before_end(await admin.internal(await wire_of(admin, partition)), count).text


def before_end(held: PartitionInternals, count: int) -> Position:
    """Return the position that is ``count`` entries before the end. Entries are counted ledger by ledger,
    from the newest ledger."""
    missing = count
    for ledger in reversed(held.ledgers):
        is_open = ledger.ledger_id == held.last.ledger  # its ``entries`` is not counted yet
        entries = held.last.entry + 1 if is_open else ledger.entries
        if missing <= entries:
            return Position(ledger.ledger_id, entries - missing)
        missing -= entries
    return held.earliest
