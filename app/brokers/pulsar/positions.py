"""Positions of Pulsar, and the names of partitions on the wire."""

from __future__ import annotations

from typing import Any, NamedTuple

from pulsar import MessageId

from app.errors import PositionOutOfRange
from app.model.position import LEDGER_ENTRY

_LEDGER_BITS, _ENTRY_BITS, _BATCH_BITS = 31, 20, 12  # 63 together: a signed integer of a database
NOT_BATCHED = -1


class Position(NamedTuple):
    """Where a message is. Places of one partition are ordered as these tuples are."""

    ledger: int
    entry: int
    batch: int = NOT_BATCHED

    @property
    def text(self) -> str:
        """The opaque position: ``ledger:entry``, with the place in the batch where it was in one."""
        suffix = "" if self.batch == NOT_BATCHED else f":{self.batch}"
        return f"{self.ledger}:{self.entry}{suffix}"

    @property
    def offset(self) -> int:
        """The place as one number: it grows with the place as long as a ledger has less than 2**20
        entries (a broker's default is 50,000), and a batch less than 4,095 messages."""
        entry = min(self.entry, (1 << _ENTRY_BITS) - 1)
        batch = min(self.batch + 1, (1 << _BATCH_BITS) - 1)
        ledger = self.ledger & ((1 << _LEDGER_BITS) - 1)
        return ledger << (_ENTRY_BITS + _BATCH_BITS) | entry << _BATCH_BITS | batch

    @property
    def next(self) -> Position:
        """The first place of the entry after this one, should it be in the same ledger."""
        return Position(self.ledger, self.entry + 1)

    def message_id(self) -> Any:
        return MessageId(-1, self.ledger, self.entry, self.batch)


BEGINNING = Position(-1, -1)
"""Before whatever a partition holds."""


def place_of(message_id: Any) -> Position:
    return Position(message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())


def read_position(text: str) -> Position:
    """Raises PositionOutOfRange: text that no message ever had is outside of every log."""
    match = LEDGER_ENTRY.fullmatch(text)
    if match is None:
        raise PositionOutOfRange(f"{text!r} is not a position of Pulsar: ledger:entry, or :batch")
    ledger, entry, batch = match.groups()
    return Position(int(ledger), int(entry), NOT_BATCHED if batch is None else int(batch))


def full_name(topic: str, namespace: str) -> str:
    """``tenant/namespace/topic`` of a name that may lack the first two, or begin ``persistent://``."""
    name = topic.removeprefix("persistent://")
    return name if name.count("/") == 2 else f"{namespace}/{name}"  # noqa: PLR2004


def wire_name(topic: str, namespace: str, partition: int | None) -> str:
    """What the client calls a partition; None: the topic has no partitions, and is one itself."""
    suffix = "" if partition is None else f"-partition-{partition}"
    return f"persistent://{full_name(topic, namespace)}{suffix}"
