"""The contract of every store: owners, dead letters and redrive. ``store_contract_*`` has the other
parts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from msgspec.structs import replace

from app.bindings.record import Record
from app.errors import StaleOwner, StoreFull
from app.interfaces import DeadLetterFilter, EventName
from store_samples import (
    ALL,
    BROKER,
    NOW,
    ORDERS,
    PAYMENTS,
    RECORD,
    SUBSCRIPTION,
    a_letter,
    a_replay,
    a_row,
    an_offer,
    offsets,
)

MINE = (SUBSCRIPTION, BROKER)
TYPED = [1.5, 2**31, -(2**63), True, Decimal("1.10"), bytearray(b"\xff"), b"\xff", {"a": 1}, [],
         datetime(2018, 4, 5, 3, 56, 24, tzinfo=UTC)]  # fmt: skip
FENCED = {
    "a dead letter": lambda store: store.letters.add(a_letter(epoch=4)),
    "a parked row": lambda store: store.parked.park([a_row(epoch=4)]),
    "a finished row": lambda store: store.parked.unpark([replace(a_row(epoch=4), id=1)]),
    "a deferred row": lambda store: store.parked.defer(replace(a_row(epoch=4), id=1)),
    "an offered message": lambda store: store.pulled.offer([an_offer(epoch=4)]),
    "a replay's progress": lambda store: store.replays.save(replace(a_replay(), id=1, next="8"), 4),
}


async def everything(store):
    """Return the rows that a refused write must not have changed."""
    return (
        await store.letters.find(ALL),
        await store.parked.find(),
        await store.pulled.count(SUBSCRIPTION),
        await store.replays.all(),
    )


class OwnersContract:
    @pytest.mark.parametrize("write", FENCED.values(), ids=FENCED.keys())
    async def test_every_write_of_an_owner_is_refused_under_a_stale_epoch(self, store, write):
        """A write is refused under the epoch of an earlier owner, because a worker that lost its
        partition may not write for it."""
        await store.parked.park([a_row(1)])
        await store.replays.ask([a_replay()])
        await store.owners.own(*MINE, [ORDERS], 5)
        before = await everything(store)
        with pytest.raises(StaleOwner, match="epoch 5"):
            await write(store)
        assert await everything(store) == before

    @pytest.mark.parametrize("later", [1, 2**62])
    async def test_the_last_claim_makes_the_only_owner(self, store, later):
        """The owner that claims a partition last is its only owner, even with a smaller epoch.
        Epochs of different machines cannot be compared."""
        await store.owners.own(*MINE, [ORDERS], 900)
        await store.owners.own(*MINE, [ORDERS], later)
        with pytest.raises(StaleOwner):
            await store.letters.add(a_letter(epoch=900))
        await store.letters.add(a_letter(epoch=later))

    async def test_owning_again_changes_nothing(self, store):
        """A repeated claim of the same owner changes nothing."""
        for _ in range(2):
            await store.owners.own(*MINE, [ORDERS, PAYMENTS], 9)
        await store.letters.add(a_letter(epoch=9))

    async def test_a_log_with_growing_epochs_refuses_an_older_owner(self, store):
        """The late claim of a replaced owner is refused on a log whose epochs grow."""
        await store.owners.own(*MINE, [ORDERS], 6, newest=True)
        with pytest.raises(StaleOwner):
            await store.owners.own(*MINE, [PAYMENTS, ORDERS], 5, newest=True)
        await store.parked.park([a_row(1, epoch=6)])
        await store.owners.own(*MINE, [ORDERS], 6, newest=True)
        await store.owners.own(*MINE, [ORDERS], 7, newest=True)
        with pytest.raises(StaleOwner):
            await store.parked.park([a_row(2, epoch=6)])

    async def test_a_worker_without_a_claim_owns_nothing(self, store):
        """A worker that writes before any claim becomes the owner by its write. A write with another epoch is then
        refused."""
        await store.parked.park([a_row(1, epoch=6)])
        for epoch in (5, 7):
            with pytest.raises(StaleOwner):
                await store.parked.park([a_row(2, epoch=epoch)])

    async def test_partitions_brokers_and_subscriptions_have_owners_of_their_own(self, store):
        """Owners are kept by subscription, broker and partition. Two clusters may have a topic of
        the same name."""
        await store.owners.own(*MINE, [ORDERS], 9)
        await store.letters.add(a_letter(partition=PAYMENTS, epoch=1))
        await store.letters.add(a_letter(broker="other", epoch=1))
        await store.letters.add(a_letter(subscription="audit", epoch=1))
        assert len(await store.letters.find(ALL)) == 3


class LettersContract:
    @pytest.mark.parametrize("key", [None, b"", b"\xff"])
    @pytest.mark.parametrize("body", [None, b"", b"{}"])
    @pytest.mark.parametrize("content_type", [None, "", "a\0\udcff"])
    async def test_a_message_comes_back_byte_for_byte(self, store, key, body, content_type):
        """A dead letter has the message byte for byte: null is not empty, and headers repeat and
        keep their order."""
        headers = (*RECORD.headers, ("\udcff\udcfeb", b"odd"))
        letter = a_letter(record=Record(key, headers, body, content_type), lane=b"\0\xff")
        await store.letters.add(letter)
        (kept,) = await store.letters.find(ALL)
        assert replace(kept, id=0) == letter

    @pytest.mark.parametrize("value", TYPED, ids=repr)
    async def test_typed_headers_come_back_with_their_types(self, store, value):
        """Typed headers of a dead letter keep their types. So a reader that rejected a header value rejects it
        again for the same reason."""
        natives = {"ce-f": value, "nested": {"list": [value, "text", None]}}
        record = Record(None, (("ce-f", None),), b"", None, natives, "m-1", NOW)
        await store.letters.add(a_letter(record=record))
        (kept,) = await store.letters.find(ALL)
        assert kept.message.record == record
        back = kept.message.record.natives
        assert (type(back["ce-f"]), type(back["nested"]["list"][0])) == (type(value),) * 2

    async def test_the_same_message_becomes_one_dead_letter(self, store):
        """A message that is stored twice as a dead letter becomes one dead letter. A worker reads
        the message again after a crash between storing and committing."""
        await store.letters.add(a_letter(cause="status-415"))
        await store.owners.own(*MINE, [ORDERS], 6)
        await store.letters.add(a_letter(cause="status-400", epoch=6))
        assert await store.letters.count(ALL) == {("billing", "status-415"): 1}

    async def test_the_newest_come_first_page_by_page(self, store):
        """Dead letters are returned page by page, the newest first."""
        for offset in (3, 1, 2):
            await store.letters.add(a_letter(offset))
        first = await store.letters.find(ALL, 2)
        assert offsets(first) == [2, 1]
        assert offsets(await store.letters.find(ALL, 2, before=first[-1].id)) == [3]

    @pytest.mark.parametrize(
        ("choice", "meant"),
        [
            ({}, [3, 2, 1]),
            ({"subscription": "audit"}, [3]),
            ({"causes": ("foreign", "status-404")}, [2]),
            ({"since_ms": NOW + 2}, [3, 2]),
            ({"until_ms": NOW + 2}, [1]),
            ({"source": "/shop"}, [2, 1]),
            ({"type": "order.Made"}, [1]),
            ({"type": "order.*"}, [2, 1]),
            ({"event_id": "2"}, [2]),
            ({"type": "ORDER.*"}, []),
            ({"type": "*"}, [3, 2, 1]),
            ({"type": "order._ade"}, []),
        ],
    )
    async def test_a_choice_selects_exactly_the_letters_it_describes(self, store, choice, meant):
        """A filter selects exactly the dead letters that it describes."""
        made, paid = EventName("1", "/shop", "order.Made"), EventName("2", "/shop", "order.paid")
        await store.letters.add(a_letter(1, event=made, at_ms=NOW + 1))
        await store.letters.add(a_letter(2, event=paid, at_ms=NOW + 2, cause="foreign"))
        await store.letters.add(a_letter(3, subscription="audit", at_ms=NOW + 3))
        assert offsets(await store.letters.find(DeadLetterFilter(**choice))) == meant
        assert sum((await store.letters.count(DeadLetterFilter(**choice))).values()) == len(meant)
        assert await store.letters.discard(DeadLetterFilter(**choice)) == len(meant)
        assert len(await store.letters.find(ALL)) == 3 - len(meant)

    async def test_letters_are_counted_over_time(self, store):
        """Dead letters are counted by intervals that begin at whole multiples of their length.
        Empty intervals are left out."""
        begin = NOW - NOW % 1000
        for offset, (at_ms, cause) in enumerate(
            [(begin, "timeout"), (begin + 999, "timeout"), (begin + 999, "foreign"), (begin + 2000, "foreign")]
        ):  # fmt: skip
            await store.letters.add(a_letter(offset, at_ms=at_ms, cause=cause))
        assert await store.letters.count_over_time(ALL, 1000) == {
            (begin, "timeout"): 2,
            (begin, "foreign"): 1,
            (begin + 2000, "foreign"): 1,
        }
        choice = DeadLetterFilter(causes=("foreign",), since_ms=begin + 1000)
        assert await store.letters.count_over_time(choice, 1000) == {(begin + 2000, "foreign"): 1}

    async def test_letters_are_chosen_by_their_numbers(self, store):
        for offset in (1, 2, 3):
            await store.letters.add(a_letter(offset))
        ids = tuple(letter.id for letter in await store.letters.find(ALL))[:2]
        assert await store.letters.discard(DeadLetterFilter(ids=ids)) == 2
        assert offsets(await store.letters.find(ALL)) == [1]

    async def test_the_parked_row_of_a_letter_is_deleted_in_the_same_step(self, store):
        """Storing a dead letter deletes its parked row in the same step, so that the message is
        always in one place."""
        await store.parked.park([a_row(1), a_row(2)])
        first, _ = await store.parked.find()
        await store.letters.add(a_letter(1), parked=first.id)
        assert offsets(await store.parked.find()) == [2]

    async def test_one_stale_letter_of_many_does_not_refuse_the_others(self, store):
        """One dead letter with a stale epoch is refused, and the others of the same commit are
        stored."""
        await store.owners.own(*MINE, [ORDERS], 5)
        letters = [a_letter(n, epoch=4 if n == 25 else 5) for n in range(50)]
        fates = await asyncio.gather(
            *(store.letters.add(letter) for letter in letters), return_exceptions=True
        )
        assert [n for n, fate in enumerate(fates) if isinstance(fate, StaleOwner)] == [25]
        assert sum((await store.letters.count(ALL)).values()) == 49

    async def test_a_full_store_refuses_and_says_so_until_there_is_room(self, house):
        """A full store refuses dead letters and names its bound. A letter that is stored already is
        not refused."""
        store = await house.open(max_letters=2)
        await store.letters.add(a_letter(1))
        await store.letters.add(a_letter(2))
        await store.parked.park([a_row(3)])
        (row,) = await store.parked.find()
        with pytest.raises(StoreFull):
            await store.letters.add(a_letter(3), parked=row.id)
        assert offsets(await store.parked.find()) == [3]
        assert "2 dead letters" in (await store.health()).cause
        await store.letters.add(a_letter(1))
        assert await store.letters.discard(DeadLetterFilter(ids=(1,))) == 1
        await store.letters.add(a_letter(3), parked=row.id)
        assert (await store.health()).healthy
        assert offsets(await store.letters.find(ALL)) == [3, 2]

    async def test_text_that_no_column_can_hold_is_stored_in_readable_form(self, store):
        """A dead letter is stored even if its detail has characters that no column can hold,
        because the detail is the target's text."""
        await store.letters.add(a_letter(detail="it answered \udcff and \0"))
        (stored,) = await store.letters.find(ALL)
        assert stored.detail == "it answered ? and �"


class RedriveContract:
    async def redriven(self, store):
        return await store.parked.redriven(*MINE, {ORDERS: 5}, limit=100)

    async def test_the_oldest_become_rows_one_after_the_other(self, store):
        """Redriven dead letters become due one after the other, so that a target that has just
        recovered does not get all at once."""
        for offset in range(1, 5):
            await store.letters.add(a_letter(offset))
        assert await store.letters.redrive(ALL, rate=2, now_ms=NOW, limit=3) == 3
        assert [(row.message.offset, row.due_ms - NOW) for row in await self.redriven(store)] == [
            (1, 0),
            (2, 500),
            (3, 1000),
        ]
        assert offsets(await store.letters.find(ALL)) == [4]

    async def test_a_second_redrive_comes_behind_the_first(self, store):
        for offset in (1, 2, 3):
            await store.letters.add(a_letter(offset))
        await store.letters.redrive(ALL, rate=1, now_ms=NOW, limit=2)
        await store.letters.redrive(ALL, rate=1, now_ms=NOW + 10, limit=2)
        assert [row.due_ms - NOW for row in await self.redriven(store)] == [0, 1000, 2000]

    async def test_a_letter_redriven_twice_survives_the_deletion_of_its_first_row(self, store):
        """A letter that was redriven twice survives the late deletion of its first row, because
        rows are deleted by id."""
        await store.letters.add(a_letter())
        await store.letters.redrive(ALL, rate=0, now_ms=NOW, limit=9)
        (first,) = await self.redriven(store)
        await store.letters.add(a_letter())
        assert await store.letters.redrive(ALL, rate=0, now_ms=NOW, limit=9) == 1
        await store.parked.unpark([first])
        (second,) = await self.redriven(store)
        assert second.message.position == first.message.position

    async def test_a_redriven_row_that_fails_again_delays_no_other_lane(self, store):
        """A redriven row that fails again delays no event of another key, although it may wait for
        a day."""
        await store.letters.add(a_letter(1))
        await store.letters.redrive(ALL, rate=1, now_ms=NOW, limit=9)
        (failed,) = await self.redriven(store)
        await store.parked.defer(replace(failed, steps=1, attempts=1, due_ms=NOW + 86_400_000))
        await store.letters.add(a_letter(2, lane=b"other"))
        await store.letters.redrive(ALL, rate=1, now_ms=NOW, limit=9)
        assert {row.message.offset: row.due_ms - NOW for row in await self.redriven(store)} == {
            1: 86_400_000,
            2: 0,
        }

    async def test_the_letters_of_a_lane_wait_for_the_earlier_ones(self, store):
        """Dead letters with one key wait for the earlier ones until those are gone, also for those
        of a later redrive."""
        for offset in (1, 2, 3, 4):
            await store.letters.add(a_letter(offset))
        ids = [letter.id for letter in reversed(await store.letters.find(ALL))]
        await store.letters.redrive(replace(ALL, ids=tuple(ids[2:])), rate=0, now_ms=NOW, limit=9)
        third, fourth = await self.redriven(store)
        assert offsets([third, fourth]) == [3, 4]
        await store.letters.redrive(ALL, rate=0, now_ms=NOW + 5, limit=9)
        first, second = await self.redriven(store)
        assert offsets([first, second]) == [1, 2]
        await store.parked.defer(replace(first, steps=1, attempts=1, due_ms=NOW + 60_000))
        assert offsets(await self.redriven(store)) == [1]
        await store.parked.unpark([first])
        assert offsets(await self.redriven(store)) == [2]
        await store.letters.add(a_letter(2), parked=second.id)
        assert offsets(await self.redriven(store)) == [3, 4]

    async def test_letters_of_other_partitions_delay_no_letter(self, store):
        """Dead letters of other partitions delay no letter, because those partitions have other
        owners. With ``order_by``, one key may have rows in several partitions."""
        await store.letters.add(a_letter(1, partition=PAYMENTS))
        await store.letters.add(a_letter(2))
        await store.letters.redrive(ALL, rate=0, now_ms=NOW, limit=9)
        both = {PAYMENTS: 5, ORDERS: 5}
        first, _ = await store.parked.redriven(*MINE, both, limit=9)
        await store.parked.defer(replace(first, due_ms=NOW + 60_000))
        assert offsets(await store.parked.redriven(*MINE, both, limit=9)) == [1]
        assert offsets(await self.redriven(store)) == [2]

    async def test_without_a_rate_all_letters_are_due_at_once_with_new_attempts(self, store):
        letters = [a_letter(1), a_letter(2, subscription="audit")]
        for letter in letters:
            await store.letters.add(letter)
        assert await store.letters.redrive(ALL, rate=0, now_ms=NOW + 5, limit=9) == 2
        (row,) = await self.redriven(store)
        assert (row.redriven, row.steps, row.attempts, row.due_ms) == (True, 0, 0, NOW + 5)
        assert (row.message, row.lane, row.cause) == (letters[0].message, b"k", "status-415")

    async def test_redriven_rows_delay_no_later_events(self, store):
        """Later events of a key do not wait for redriven rows, which have lost their order already."""
        await store.letters.add(a_letter(1))
        await store.letters.redrive(ALL, rate=0, now_ms=NOW, limit=9)
        assert await store.parked.lanes(*MINE, [ORDERS]) == {}
        assert await store.parked.rows(*MINE, ORDERS, b"k", after=-1, limit=9) == []
        assert (await store.parked.count())[SUBSCRIPTION].redriven == 1

    async def test_the_longest_due_rows_of_the_given_partitions_come_first(self, store):
        for offset, partition in ((1, ORDERS), (2, PAYMENTS), (3, ORDERS)):
            await store.letters.add(a_letter(offset, partition=partition))
        await store.letters.redrive(ALL, rate=1, now_ms=NOW, limit=9)
        assert offsets(await self.redriven(store)) == [1, 3]
        both = await store.parked.redriven(*MINE, {PAYMENTS: 5, ORDERS: 5}, limit=2)
        assert offsets(both) == [1, 2]
        assert await store.parked.redriven(*MINE, {}, limit=2) == []

    async def test_redriving_a_parked_message_adds_no_second_row(self, store):
        """Redriving a message that is parked adds no second row. Such a message came again after a
        crash."""
        await store.letters.add(a_letter(1))
        await store.parked.park([a_row(1)])
        assert await store.letters.redrive(ALL, rate=0, now_ms=NOW, limit=9) == 1
        (row,) = await store.parked.find()
        assert not row.redriven
        assert await store.letters.find(ALL) == []
