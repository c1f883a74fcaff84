"""The identity of a lane is kept in the store, so it outlives the process that made it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.delivery.lane_id import lane_id, order_value
from app.model.message import Partition

P = Partition("orders", 3)
MESSAGES = st.tuples(
    st.none() | st.binary(max_size=6),
    st.none() | st.text(max_size=6),
    st.builds(Partition, st.text("ab:1", max_size=4), st.integers(0, 20)),
    st.integers(0, 100).map(str),
)


def what_counts(message: tuple[bytes | None, str | None, Partition, str]) -> object:
    key, attribute, partition, position = message
    if attribute is not None:
        return attribute
    return (partition, position, None) if key is None else (partition, None, key)


def test_the_bytes_are_these_for_ever() -> None:
    """Rows that an older release wrote are found by them (rule 5): a change here is a migration."""
    assert lane_id(b"alice", None, P, "7") == b"k3:6:orders:alice"
    assert lane_id(b"alice", "eu", P, "7") == b"aeu"
    assert lane_id(None, None, P, "7") == b"o3:6:orders:7"
    assert lane_id(b"", None, P, "7") == b"k3:6:orders:"


def test_two_messages_of_two_channels_of_rabbitmq_do_not_share_a_lane() -> None:
    """Their offset is the delivery tag, which counts from 1 in each channel: a healthy message would wait for a
    stranger that an earlier channel parked."""
    assert lane_id(None, None, P, "4-5") != lane_id(None, None, P, "9-5")


def test_a_long_key_has_a_lane_of_its_own_that_every_database_can_look_up() -> None:
    """A key may have 64 KiB (rule 8), an index of PostgreSQL 2,700 bytes: what cannot be parked would hold
    its lane for ever."""
    key = bytes(range(256)) * 256
    lanes = {
        lane_id(key, None, P, "7"),
        lane_id(key + b"x", None, P, "7"),
        lane_id(key, None, Partition("orders", 4), "7"),
        lane_id(None, "x" * 65_536, P, "7"),
        lane_id(None, "y" + "x" * 65_535, P, "7"),
    }
    assert len(lanes) == 5
    assert {lane[:1] for lane in lanes} == {b"d"}
    assert max(map(len, lanes)) <= 33


@given(MESSAGES, MESSAGES)
def test_two_messages_share_a_lane_exactly_when_they_share_what_orders_them(
    one: tuple[bytes | None, str | None, Partition, str],
    other: tuple[bytes | None, str | None, Partition, str],
) -> None:
    """Rule 3: sharing by accident would make keys wait for each other, not sharing would lose order."""
    assert (lane_id(*one) == lane_id(*other)) == (what_counts(one) == what_counts(other))


def test_producers_have_lanes_of_their_own_where_the_subscription_says_so() -> None:
    assert lane_id(b"alice", None, P, "7", b"shop") == b"p3:6:orders:4:shop:alice"
    assert lane_id(b"alice", "eu", P, "7", b"shop") == b"q4:shop:eu"
    assert lane_id(b"alice", None, P, "7", b"") == b"p3:6:orders:0::alice"
    assert lane_id(None, None, P, "7", b"shop") == lane_id(None, None, P, "7")


@given(st.tuples(st.binary(max_size=4), MESSAGES), st.tuples(st.binary(max_size=4), MESSAGES))
def test_two_messages_share_a_lane_of_a_producer_exactly_when_they_share_both(
    one: tuple[bytes, tuple[bytes | None, str | None, Partition, str]],
    other: tuple[bytes, tuple[bytes | None, str | None, Partition, str]],
) -> None:
    def counts(producer: bytes, message: tuple[bytes | None, str | None, Partition, str]) -> object:
        is_ordered = message[0] is not None or message[1] is not None
        return what_counts(message), producer if is_ordered else None

    shared = lane_id(*one[1], one[0]) == lane_id(*other[1], other[0])
    assert shared == (counts(*one) == counts(*other))


@given(MESSAGES, st.none() | st.binary(max_size=6))
def test_the_key_or_value_can_be_read_back(
    message: tuple[bytes | None, str | None, Partition, str], producer: bytes | None
) -> None:
    """An operator names what a lane orders by, not the lane."""
    key, attribute, _, _ = message
    wanted = key if attribute is None else attribute.encode("utf-8", "surrogatepass")
    assert order_value(lane_id(*message, producer)) == wanted
    assert order_value(lane_id(b"x" * 2_000, None, P, "7")) is None
