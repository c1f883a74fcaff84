"""What the administration answers, as far as it is of use here."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from app.brokers.pulsar.positions import Position


class Subscription(msgspec.Struct, rename="camel"):
    """``active_consumer_name``: who owns the partition; empty for nobody."""

    msg_backlog: int = 0
    active_consumer_name: str | None = None
    subscription_properties: dict[str, str] = {}


class PartitionStats(msgspec.Struct):
    subscriptions: dict[str, Subscription] = {}


class PartitionedStats(msgspec.Struct):
    partitions: dict[str, PartitionStats] = {}


class Count(msgspec.Struct):
    partitions: int


class LedgerSize(msgspec.Struct, rename="camel"):
    ledger_id: int
    entries: int = 0


class Cursor(msgspec.Struct, rename="camel"):
    mark_delete_position: str = ""


class Internal(msgspec.Struct, rename="camel"):
    """The ledgers of one partition, and the cursors of its subscriptions."""

    last_confirmed_entry: str
    ledgers: list[LedgerSize] = []
    cursors: dict[str, Cursor] = {}

    @property
    def earliest(self) -> Position:
        return Position(self.ledgers[0].ledger_id, 0) if self.ledgers else self.latest

    @property
    def last(self) -> Position:
        """Of the newest entry; its number is -1 where the newest ledger is empty."""
        ledger, _, entry = self.last_confirmed_entry.partition(":")
        return Position(int(ledger), int(entry))

    @property
    def latest(self) -> Position:
        """Where the next message will be, should it be in the same ledger."""
        return self.last.next

    def committed(self, group: str) -> Position | None:
        """The lowest place that ``group`` has not finished, as the broker counts it."""
        cursor = self.cursors.get(quote(group, safe=""), self.cursors.get(group))
        if cursor is None:
            return None
        ledger, _, entry = cursor.mark_delete_position.partition(":")
        return Position(int(ledger), int(entry)).next


class MessageId(msgspec.Struct, rename="camel"):
    ledger_id: int
    entry_id: int
    batch_index: int = -1


class Lookup(msgspec.Struct, rename="camel"):
    broker_url: str = ""
    broker_url_tls: str = ""
    native_url: str = ""


class Retention(msgspec.Struct, rename="camel"):
    retention_time_in_minutes: int = 0
    retention_size_in_mb: int = msgspec.field(default=0, name="retentionSizeInMB")


class Words(msgspec.Struct):
    reason: str = ""
