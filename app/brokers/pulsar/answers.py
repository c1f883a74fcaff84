"""The answers of Pulsar's administration, with the fields that Skybridge uses."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from app.brokers.pulsar.positions import Position


class SubscriptionStats(msgspec.Struct, rename="camel"):
    """The state of a subscription in one partition. ``active_consumer_name`` is the owner; it is empty if
    there is none."""

    msg_backlog: int = 0
    active_consumer_name: str | None = None
    subscription_properties: dict[str, str] = {}


class PartitionStats(msgspec.Struct):
    """The statistics of one partition, by subscription."""

    subscriptions: dict[str, SubscriptionStats] = {}


class PartitionedStats(msgspec.Struct):
    """The statistics of a topic, by the full name of the partition."""

    partitions: dict[str, PartitionStats] = {}


class PartitionCount(msgspec.Struct):
    """The number of partitions of a topic. It is 0 for a topic without partitions."""

    partitions: int


class LedgerSize(msgspec.Struct, rename="camel"):
    """A ledger of a partition. The broker does not count ``entries`` of the open ledger."""

    ledger_id: int
    entries: int = 0


class SubscriptionCursor(msgspec.Struct, rename="camel"):
    """The position of a subscription: the entry up to which all messages are acknowledged."""

    mark_delete_position: str = ""


class PartitionInternals(msgspec.Struct, rename="camel"):
    """The ledgers of one partition, and the cursors of its subscriptions."""

    last_confirmed_entry: str
    ledgers: list[LedgerSize] = []
    cursors: dict[str, SubscriptionCursor] = {}

    @property
    def earliest(self) -> Position:
        return Position(self.ledgers[0].ledger_id, 0) if self.ledgers else self.latest

    @property
    def last(self) -> Position:
        """Return the position of the newest entry. Its entry number is -1 if the newest ledger is empty."""
        ledger, _, entry = self.last_confirmed_entry.partition(":")
        return Position(int(ledger), int(entry))

    @property
    def latest(self) -> Position:
        """Return the position of the next message to be published. The position is right if that message is
        stored in the same ledger."""
        return self.last.next

    def committed(self, group: str) -> Position | None:
        """Return the lowest position that ``group`` has not finished. Return None if the group has no
        subscription."""
        cursor = self.cursors.get(quote(group, safe=""), self.cursors.get(group))
        if cursor is None:
            return None
        ledger, _, entry = cursor.mark_delete_position.partition(":")
        return Position(int(ledger), int(entry)).next


class MessageIdAnswer(msgspec.Struct, rename="camel"):
    """The id of a message. ``batch_index`` is -1 for a message that is not in a batch."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1


class BrokerLookup(msgspec.Struct, rename="camel"):
    """The addresses of the broker that serves a partition."""

    broker_url: str = ""
    broker_url_tls: str = ""
    native_url: str = ""

    @property
    def address(self) -> str:
        """Return the first address that is not empty, or "" if no broker serves the partition."""
        return self.broker_url or self.broker_url_tls or self.native_url


class RetentionPolicy(msgspec.Struct, rename="camel"):
    """The time and size limits of retention. Messages are kept within these limits after all subscriptions
    have acknowledged them."""

    retention_time_in_minutes: int = 0
    retention_size_in_mb: int = msgspec.field(default=0, name="retentionSizeInMB")


class ErrorReason(msgspec.Struct):
    """The body of an error answer."""

    reason: str = ""
