"""What a group does not want is left out by its headers, and nothing else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.kafka import decode
from app.bindings.record import Record
from app.brokers.driver import Joining
from app.brokers.kafka.consumer import KafkaConsumer, is_unwanted
from app.brokers.kafka.ownership import Owned
from app.brokers.kafka.settings import KafkaSettings
from app.delivery.offsets import FinishedRuns
from app.errors import SenderError
from app.filters.index import Types
from app.interfaces import Wanted
from app.model.message import Partition
from app.model.start import EARLIEST

WANTED = Types(exact=frozenset(["a"]), prefixes=frozenset(["ab."]))
EVENT = {"ce_specversion": b"1.0", "ce_id": b"1", "ce_source": b"/s", "ce_type": b"other"}
PLACE = Partition("orders", 0)
values = st.sampled_from(
    [
        *(None, b"", b"1.0", b"0.3", b"a", b"ab.c", b"other", b"\xff", b"application/json"),
        *(b"application/cloudevents+json", b" Application/CloudEvents", b"/s"),
    ]
)


def headers(**changed: bytes | None) -> list[tuple[str, bytes | None]]:
    return list({**EVENT, **changed}.items())


@pytest.mark.parametrize(
    ("changed", "unwanted"),
    [
        ({}, True),
        ({"ce_type": b"a"}, False),
        ({"ce_type": b"ab.c"}, False),
        ({"ce_type": b"ab"}, True),
        ({"ce_type": None}, False),
        ({"ce_specversion": b"0.3"}, False),
        ({"ce_id": b""}, False),
        ({"content-type": b"application/cloudevents+json"}, False),
        ({"content-type": b"application/json"}, True),
    ],
)
def test_only_binary_events_of_other_types_are_unwanted(
    changed: dict[str, bytes | None], unwanted: bool
) -> None:
    """A structured event's mirrored headers may lie (K12): its body says what it is."""
    assert is_unwanted(headers(**changed), WANTED) is unwanted


def test_a_header_that_comes_twice_is_looked_at_closely() -> None:
    """Which one counts, the binding says."""
    assert not is_unwanted([*headers(), ("ce_type", b"a")], WANTED)


@given(
    st.lists(st.tuples(st.sampled_from([*EVENT, "content-type", "ce_time"]), values), max_size=8)
)
def test_nothing_wanted_is_left_out(some: list[tuple[str, bytes | None]]) -> None:
    """An event left out by mistake would be lost without a word (reliability G1)."""
    if is_unwanted(some, WANTED):
        try:
            decoded = decode(Record(None, tuple(some), b"x"))
        except SenderError:
            return  # an event of another type, with a fault beside
        assert not WANTED.holds(decoded.event.attributes["type"])


async def test_what_is_left_out_is_finished_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a group that wants little would never commit, and its lag would grow (rule 2)."""
    passed: list[int] = []
    wanted = Wanted(WANTED, lambda _: True, passed.append)
    settings = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1")
    consumer = KafkaConsumer(settings, Joining("g", ["orders"], EARLIEST, wanted=wanted))
    owned = consumer._owned = Owned(1, {PLACE: FinishedRuns(0)})

    def raw(offset: int, kind: bytes) -> Any:
        return SimpleNamespace(
            offset=offset, key=None, value=b"", timestamp=0, headers=headers(ce_type=kind)
        )

    found = [raw(0, b"other"), raw(1, b"a"), raw(2, b"other"), raw(3, b"other")]
    messages = consumer._ours({TopicPartition("orders", 0): found})
    assert [message.offset for message in messages] == [1]
    assert passed == [3]
    assert owned.window(PLACE) == 3, "the wanted one is open"
    await consumer.settle(messages)
    assert owned.due()[TopicPartition("orders", 0)] == (4, "")
    consumer._owned = Owned(2, {})
    await consumer.close()
