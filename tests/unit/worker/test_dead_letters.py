"""Dead letters: copied, then stored, then finished; for whatever the message was read from."""

from __future__ import annotations

import asyncio

import pytest

from app.bindings import kafka
from app.bindings.amqp_table import from_table
from app.bindings.record import Record
from app.delivery.plan import DeadLetterIt
from app.errors import BrokerRefused, BrokerUnavailable, StaleOwner, StoreFull, StoreUnavailable
from app.interfaces import EventName, Parked
from app.model.message import Message, Partition
from app.sinks.dead_letters import DeadLetterWriter
from app.telemetry import Counters
from app.worker.conclusions import Conclusions
from app.worker.delivery import Delivery, Verdict
from app.worker.gate import EndpointState
from app.worker.origins import LogPartition, OffsetCommits
from app.worker.owned_partition import OwnedPartition
from app.worker.shared import DispatcherContext, TaskScope
from app.worker.stored_rows import StoredRow, StoredRows
from fake_log import FakeLog
from memory_store import MemoryStore
from virtual_clock import VirtualClock
from worker_doubles import a_subscription, an_event

ORDERS = Partition("orders", 0)
REFUSED = Verdict(DeadLetterIt("status-415"), "status-415", "no", 415)
TOLD = [("dead-lettered", "billing", {"cause": "status-415"})]


class Rig:
    def __init__(self):
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self.copies = FakeLog("copies")
        self.counters = Counters()
        self.told = []

    def letters(self, copies="dead"):
        settings = {"dead_letter": {"broker": "copies", "topic": copies}} if copies else {}
        subscription = a_subscription(**settings)
        copied = self.copies if copies else None
        letters = DeadLetterWriter(subscription, self.clock, self.counters, copied, self.note)
        return Conclusions(self.shared(subscription), None, None, None, letters)

    def shared(self, subscription=None):
        """What the parts have in common; None for what is not asked here."""
        subscription = subscription or a_subscription()
        return DispatcherContext(
            subscription, self.store, self.clock, lambda: 0.5, TaskScope(), None, None, None, None
        )

    def note(self, *word):
        self.told.append(word)

    def held(self, message=None, foreign=""):
        """A message of the log, as its owner holds it."""
        message = message or a_message()
        decoded = None if foreign else kafka.decode(message.record)
        owned = OwnedPartition(ORDERS, message.epoch, Holding(), 1)
        origin = LogPartition(owned, self.store.letters, None, OffsetCommits(self.clock))
        delivery = Delivery(message, decoded, b"lane", origin, foreign)
        delivery.attempts = 3
        return delivery

    async def parked(self):
        """A message that is a row, as its owner holds it."""
        row = Parked(subscription="billing", broker="log", message=a_message(), lane=b"lane")
        await self.store.parked.park([row])
        (row,) = await self.store.parked.find()
        delivery = self.held(row.message)
        rows = StoredRows(self.shared())
        delivery.origin = StoredRow(row, delivery.origin.owned, rows, Held())
        return delivery

    @property
    def copied(self):
        return len(self.copies.partitions[Partition("dead", 0)])


def a_message(record=None, epoch=0):
    return Message(record or an_event(1), ORDERS, "0", 0, 0, epoch)


class Held:
    """What read a row, and does nothing at its end."""

    def row_closed(self, row, *, done, due=0.0):
        pass

    def row_deleted(self, row):
        pass


class Holding:
    """A consumer that holds all that it is asked of."""

    def holds(self, message):
        return True


@pytest.fixture
async def rig():
    rig = Rig()
    await rig.copies.create_topic("dead", 1)
    return rig


async def test_a_letter_tells_what_it_was_in_line_with_and_which_event_it_is(rig):
    """A redrive needs the lane, a person the event."""
    await rig.letters(copies=None).dead_letter(rig.held(), REFUSED)
    (letter,) = rig.store.letters.rows
    assert (letter.lane, letter.event) == (b"lane", EventName("1", "/t", "t"))
    assert (letter.cause, letter.detail, letter.status, letter.attempts) == (
        "status-415",
        "no",
        415,
        3,
    )


async def test_operators_are_told_once_it_is_stored(rig):
    """Not of what may still become something else."""
    rig.store.failures.append(StoreUnavailable("busy"))
    letters, held = rig.letters(), rig.held()
    with pytest.raises(StoreUnavailable):
        await letters.dead_letter(held, REFUSED)
    assert rig.told == []
    await letters.dead_letter(held, REFUSED)
    assert rig.told == TOLD


async def test_the_copy_is_acknowledged_before_the_letter_is_stored(rig):
    """Rule 2: storing finishes a message that is a row, so nothing may be missing by then."""
    rig.copies.refusals.append(BrokerUnavailable("away"))
    letters, held = rig.letters(), rig.held()
    with pytest.raises(BrokerUnavailable):
        await letters.dead_letter(held, REFUSED)
    assert (rig.copied, rig.store.letters.rows) == (0, [])
    await letters.dead_letter(held, REFUSED)
    assert (rig.copied, len(rig.store.letters.rows)) == (1, 1)


@pytest.mark.parametrize("kind", ["record-too-large", "not-capable", "unwritable", "rejected"])
async def test_what_its_topic_can_never_take_is_stored_without_a_copy(rig, kind, caplog):
    """A header name of Kafka may be longer than AMQP has room for, a topic of dead letters compacted: the key of
    the event would wait for ever. The log and a counter have the copy that is missing."""
    rig.copies.refusals.append(BrokerRefused("no message of this broker", kind=kind))
    await rig.letters().dead_letter(rig.held(), REFUSED)
    assert (rig.copied, len(rig.store.letters.rows)) == (0, 1)
    assert rig.counters.values()["dead_letter_copies_refused"] == {("billing", kind): 1}
    assert "no message of this broker" in caplog.text


@pytest.mark.parametrize("kind", ["unknown-topic", "not-authorised", "other"])
async def test_a_copy_that_an_operator_can_make_possible_holds_its_message(rig, kind):
    rig.copies.refusals.append(BrokerRefused("no such topic", kind=kind))
    with pytest.raises(BrokerRefused):
        await rig.letters().dead_letter(rig.held(), REFUSED)
    assert (rig.copied, rig.store.letters.rows) == (0, [])


async def test_a_copy_is_marked_with_the_values_that_its_topic_may_have_no_type_for(rig):
    """R9: without it, null would say that the attribute which made it no event was never there."""
    record = from_table({"ce-f": 1.5, "x-t": {"a": [2**31]}, "x-n": 5}, None, b"x")
    held = rig.held(a_message(record), "of type float")
    await rig.letters().dead_letter(
        held, Verdict(DeadLetterIt("foreign"), "foreign", "of type float")
    )
    ((copy, _),) = rig.copies.partitions[Partition("dead", 0)]
    assert dict(copy.headers)["skybridge-dead-letter-typed"] == (
        b'{"ce-f":1.5,"x-t":{"a":[2147483648]}}'
    )


async def test_a_store_that_is_full_is_asked_again_and_the_copy_is_made_once(rig):
    """Rule 8: a full bound holds the message back, perhaps for hours; it is not copied for every try."""
    rig.store.failures.extend([StoreFull("no room"), StoreFull("no room")])
    letters, held = rig.letters(), rig.held()
    for _ in range(2):
        with pytest.raises(StoreFull):
            await letters.dead_letter(held, REFUSED)
    await letters.dead_letter(held, REFUSED)
    assert (rig.copied, len(rig.store.letters.rows)) == (1, 1)


async def test_a_parked_row_becomes_a_letter_in_one_step_and_has_its_copy(rig):
    """The row and the letter are never both there, and never both gone."""
    await rig.letters().dead_letter(await rig.parked(), REFUSED)
    assert await rig.store.parked.find() == []
    assert (rig.copied, len(rig.store.letters.rows)) == (1, 1)


async def test_a_parked_row_stays_while_its_copy_cannot_be_made(rig):
    """Else a kill at this moment would leave a letter without its copy, and nobody to make it."""
    rig.copies.refusals.append(BrokerUnavailable("away"))
    with pytest.raises(BrokerUnavailable):
        await rig.letters().dead_letter(await rig.parked(), REFUSED)
    assert len(await rig.store.parked.find()) == 1
    assert rig.store.letters.rows == []


async def test_a_newer_owner_has_the_last_word(rig):
    """Rule 5: what is stored under an old epoch is refused, and nobody is told of it."""
    await rig.store.owners.own("billing", "log", [ORDERS], 7)
    with pytest.raises(StaleOwner):
        await rig.letters().dead_letter(rig.held(a_message(epoch=6)), REFUSED)
    assert (rig.store.letters.rows, rig.told) == ([], [])


async def test_the_word_of_a_410_is_stored_before_it_is_told(rig):
    """W5: it must outlive the process that heard it."""
    rig.store.failures.append(StoreUnavailable("busy"))
    gate = EndpointState(rig.shared(), rig.note)
    disabling = asyncio.create_task(gate.disable("status-410"))
    await rig.clock.rest()
    assert rig.told == []
    await rig.clock.advance(1)
    await disabling
    assert (await rig.store.halts.all())["billing"].kind == "disabled"
    assert rig.told == [("disabled", "billing", {"cause": "status-410"})]


async def test_a_record_that_is_no_event_is_copied_as_it_is(rig):
    """The copy is the record, marked; not an event made of it."""
    message = a_message(Record(b"\xff", (("x", None),), None))
    await rig.letters().dead_letter(rig.held(message, "no event"), REFUSED)
    ((copy, _),) = rig.copies.partitions[Partition("dead", 0)]
    assert (copy.key, copy.body, copy.headers[0]) == (b"\xff", None, ("x", None))
    assert rig.store.letters.rows[0].event == EventName()
