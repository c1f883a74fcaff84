"""Positions of Pulsar messages, and the full names of partitions."""

from __future__ import annotations

from typing import Any, NamedTuple

from pulsar import MessageId

from app.errors import PositionOutOfRange
from app.model.position import LEDGER_ENTRY

_LEDGER_BITS, _ENTRY_BITS, _BATCH_BITS = (
    31,
    20,
    12,
)  # 63 bits together fit a signed integer of a database
NOT_BATCHED = -1


class Position(NamedTuple):
    """The position of a message. Positions of one partition have the order of these tuples."""

    ledger: int
    entry: int
    batch: int = NOT_BATCHED

    @property
    def text(self) -> str:
        """Return the position as text: ``ledger:entry``, with the index in the batch if there is one."""
        suffix = "" if self.batch == NOT_BATCHED else f":{self.batch}"
        return f"{self.ledger}:{self.entry}{suffix}"

    @property
    def offset(self) -> int:
        """Return the position as one number.

        The number grows with the position if a ledger has less than 2**20 entries, and a batch less than
        4,095 messages. A broker's default is 50,000 entries.
        """
        entry = min(self.entry, (1 << _ENTRY_BITS) - 1)
        batch = min(self.batch + 1, (1 << _BATCH_BITS) - 1)
        ledger = self.ledger & ((1 << _LEDGER_BITS) - 1)
        return ledger << (_ENTRY_BITS + _BATCH_BITS) | entry << _BATCH_BITS | batch

    @property
    def next(self) -> Position:
        """Return the position of the next entry, if it is in the same ledger."""
        return Position(self.ledger, self.entry + 1)

    def message_id(self) -> Any:
        return MessageId(-1, self.ledger, self.entry, self.batch)


BEGINNING = Position(-1, -1)
"""The position before all messages of a partition."""


def place_of(message_id: Any) -> Position:
    return Position(message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())


def read_position(text: str) -> Position:
    """Parse the text of a position. Raise PositionOutOfRange for any other text."""
    match = LEDGER_ENTRY.fullmatch(text)
    if match is None:
        raise PositionOutOfRange(f"{text!r} is not a position of Pulsar: ledger:entry, or :batch")
    ledger, entry, batch = match.groups()
    return Position(int(ledger), int(entry), NOT_BATCHED if batch is None else int(batch))


def full_name(topic: str, namespace: str) -> str:
    """Return ``tenant/namespace/topic`` for a topic name, which may lack the first two parts."""
    name = topic.removeprefix("persistent://")
    return name if name.count("/") == 2 else f"{namespace}/{name}"  # noqa: PLR2004


def wire_name(topic: str, namespace: str, partition: int | None) -> str:
    """Return the full name of a partition, or that of a topic without partitions if ``partition`` is None."""
    suffix = "" if partition is None else f"-partition-{partition}"
    return f"persistent://{full_name(topic, namespace)}{suffix}"
