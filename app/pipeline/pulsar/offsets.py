"""A message id of Pulsar as one number, which grows as the ids of a partition do. Pure.

It is the number that ``app.brokers.pulsar.places.Place.offset`` gives, which workers of Spark do not import.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_ENTRY_BITS: Final = 20
_BATCH_BITS: Final = 12
_LEDGERS: Final = 1 << 31
_ENTRIES: Final = 1 << _ENTRY_BITS
_BATCHED: Final = (1 << _BATCH_BITS) - 1  # one of them says: in no batch


class MessageId(NamedTuple):
    """``batch``: the place in its batch; -1 for a message of its own, and for the begin of an entry."""

    ledger: int
    entry: int
    batch: int = -1


def offset_of(ledger: int, entry: int, batch: int = -1) -> int:
    """Raises OverflowError for what has no number: two messages with one would be taken for one."""
    if ledger >= _LEDGERS or entry >= _ENTRIES or batch >= _BATCHED:
        raise OverflowError(
            f"message id {ledger}:{entry}:{batch} has no number: a ledger may have {_ENTRIES} entries"
            f" (managedLedgerMaxEntriesPerLedger), a batch {_BATCHED} messages"
        )
    return ledger << (_ENTRY_BITS + _BATCH_BITS) | entry << _BATCH_BITS | (batch + 1)


def message_id(offset: int) -> MessageId:
    """The other way."""
    above, batch = divmod(offset, 1 << _BATCH_BITS)
    ledger, entry = divmod(above, _ENTRIES)
    return MessageId(ledger, entry, batch - 1)
