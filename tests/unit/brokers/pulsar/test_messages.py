"""Records as messages of the client, and back."""

from __future__ import annotations

from app.brokers.pulsar.messages import record_of


class Raw:
    """A message of the client that another program published."""

    def properties(self) -> dict[str, str]:
        raise UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "invalid continuation byte")

    def partition_key(self) -> str:
        return "k"

    def has_null_value(self) -> bool:
        return False

    def data(self) -> bytes:
        return b"abc"

    def event_timestamp(self) -> int:
        return 0


def test_properties_that_are_no_utf8_stop_no_subscription() -> None:
    """The message comes as one that is no CloudEvent: it would be read again for ever otherwise."""
    record = record_of(Raw())
    assert (record.body, record.headers, record.key) == (b"abc", (), None)
