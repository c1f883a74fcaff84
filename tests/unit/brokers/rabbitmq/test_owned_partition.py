"""A queue that is ours: what is settled is acknowledged once, and nothing else ever is."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from pamqp import frame as pamqp_frame

from amqp_writing import at_exchange
from app.bindings.record import Record
from app.brokers.rabbitmq.owned_partition import OwnedQueue
from app.brokers.rabbitmq.read_frames import Delivered
from app.brokers.rabbitmq.topology import parse_exchange
from app.model.message import Partition


class Wire:
    """Stands for the broker: which deliveries are open there."""

    def __init__(self, count: int) -> None:
        self.open = set(range(1, count + 1))
        self.frames = 0

    def write(self, wire: bytes) -> None:
        while wire:
            size, _, method = pamqp_frame.unmarshal(wire)
            wire = wire[size:]
            self.frames += 1
            assert method.delivery_tag in self.open, "the server would close the channel"
            upto = range(1, method.delivery_tag) if method.multiple else ()
            self.open -= {method.delivery_tag, *upto}


class Channel:
    number = 1


def delivery(tag: int) -> Delivered:
    return Delivered(tag, Record(None, (), b""))


def owned_of(wire: Wire, count: int) -> OwnedQueue:
    owned = OwnedQueue(Partition("t", 0), wire, lambda: None)
    owned.channel, owned.epoch = Channel(), 7
    for tag in range(1, count + 1):
        owned.delivered(delivery(tag))
    return owned


@given(st.integers(1, 60), st.integers(0, 60), st.randoms(use_true_random=False))
def test_in_any_order_the_broker_keeps_what_is_open_and_nothing_else(
    count: int, taken: int, chance: random.Random
) -> None:
    """Rule 2: each message is acknowledged when it is finished, and no other with it."""
    wire = Wire(count)
    owned = owned_of(wire, count)
    messages = owned.take(taken)
    assert [message.offset for message in messages] == list(range(1, min(count, taken) + 1))
    finished: set[int] = set()
    offsets = [message.offset for message in messages]
    chance.shuffle(offsets)
    while offsets:
        some = [offsets.pop() for _ in range(chance.randint(1, len(offsets)))]
        owned.settle(some + list(finished)[:3])  # settling twice is settling once
        finished |= set(some)
        assert wire.open == set(range(1, count + 1)) - finished
        assert owned.unsettled == count - len(finished)
    assert owned.window == 0


def test_a_run_from_the_head_is_one_frame() -> None:
    wire = Wire(1_000)
    owned = owned_of(wire, 1_000)
    owned.settle([message.offset for message in owned.take(1_000)])
    assert (wire.frames, wire.open) == (1, set())


def test_what_was_not_handed_out_cannot_be_settled() -> None:
    """A settle that overtakes its delivery would lose it."""
    wire = Wire(3)
    owned = owned_of(wire, 3)
    owned.take(1)
    owned.settle([2, 3, 99])
    assert wire.open == {1, 2, 3}


def test_a_position_is_unique_in_time() -> None:
    """Dead letters are unique by position: another ownership must never use it again."""
    first, second = owned_of(Wire(1), 1), owned_of(Wire(1), 1)
    second.epoch = 8
    assert first.take(1)[0].position != second.take(1)[0].position


def test_an_exchange_and_its_routing_key_travel_as_one_text() -> None:
    for exchange, key in (("orders", "a.b"), ("", "queue"), ("x", ""), ("x", "a:b:c")):
        assert parse_exchange(at_exchange(exchange, key)) == (exchange, key)
    assert parse_exchange("orders") is None
