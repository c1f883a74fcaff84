"""The contract of every store: parked messages, and messages in pull queues."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec.structs import replace

from app.delivery.lane_id import lane_id
from app.errors import StaleOwner, StoreFull
from app.interfaces import ParkedCount, QueueCount, StoredLane
from store_samples import (
    ALL,
    BROKER,
    NOW,
    ORDERS,
    PAYMENTS,
    SUBSCRIPTION,
    a_letter,
    a_row,
    an_offer,
    offsets,
)

MINE = (SUBSCRIPTION, BROKER)
MINUTE = 60_000


class ParkedContract:
    async def rows(self, store, lane=b"k", after=-1, limit=100):
        return await store.parked.rows(*MINE, ORDERS, lane, after=after, limit=limit)

    async def test_rows_of_a_lane_come_in_the_order_of_their_offsets(self, store):
        """The parked rows with one key are returned in the order of their offsets, whatever the
        order of the writes."""
        await store.parked.park([a_row(9), a_row(10), a_row(8, b"other")])
        await store.parked.park([a_row(2), a_row(5, partition=PAYMENTS)])
        assert offsets(await self.rows(store)) == [2, 9, 10]
        assert offsets(await self.rows(store, after=2)) == [9, 10]
        assert offsets(await self.rows(store, limit=1)) == [2]

    async def test_new_rows_are_numbered_above_all_earlier_ones(self, store):
        """The store numbers the rows of a log without offsets, each above all earlier rows.

        A number is never used again, even after its row is gone or the owner has changed.
        """
        await store.parked.park([a_row(9), a_row(3), a_row(5, partition=PAYMENTS)], numbered=True)
        first = await self.rows(store)
        assert [row.message.position for row in first] == ["9", "3"]
        await store.parked.unpark(first)
        await store.owners.own(*MINE, [ORDERS], 4)
        await store.parked.park([a_row(7, epoch=4), a_row(1, epoch=4)], numbered=True)
        await store.parked.park([a_row(1, epoch=4), a_row(2, epoch=4)], numbered=True)  # repeated
        second = await self.rows(store)
        assert [row.message.position for row in second] == ["7", "1", "2"]
        assert min(offsets(second)) > max(offsets(first))

    async def test_a_row_comes_back_as_it_was(self, store):
        row = a_row(7, due_ms=NOW + 5, cause="status-503", detail="é", steps=2, attempts=3)
        await store.parked.park([row])
        (kept,) = await self.rows(store)
        assert replace(kept, id=0) == row

    async def test_rows_of_one_event_are_found(self, store):
        """The parked rows of an event are found by its id."""
        await store.parked.park([a_row(1), a_row(2)])
        assert offsets(await store.parked.find(event_id="2")) == [2]
        assert await store.parked.find("another", event_id="2") == []

    async def test_a_key_of_any_length_parks(self, store):
        """A key of any length can be parked. Skybridge accepts keys of up to 64 KiB, which a
        database cannot index as they are."""
        key = random.Random(1).randbytes(20_000)
        lane = lane_id(key, None, ORDERS, "7")
        await store.parked.park([a_row(7, lane)])
        assert offsets(await self.rows(store, lane)) == [7]

    async def test_the_same_message_is_parked_once(self, store):
        """A message that is parked twice has one row, with the values of the first write."""
        await store.parked.park([a_row(1, due_ms=1)])
        await store.owners.own(*MINE, [ORDERS], 6)
        await store.parked.park([a_row(1, due_ms=2, epoch=6), a_row(2, epoch=6)])
        assert [row.due_ms for row in await self.rows(store)] == [1, 0]

    async def test_all_are_parked_or_none(self, store):
        """The rows of one write are all parked or none. Otherwise a newer event of a key could be
        delivered before a missing older one."""
        await store.owners.own(*MINE, [PAYMENTS], 9)
        with pytest.raises(StaleOwner):
            await store.parked.park([a_row(1), a_row(2, partition=PAYMENTS, epoch=8)])
        assert await store.parked.find() == []

    async def test_nothing_to_park_is_no_error(self, store):
        await store.parked.park([])
        await store.parked.unpark([])
        assert await store.parked.count() == {}

    async def test_a_lane_is_due_when_its_oldest_is(self, store):
        """The parked rows with one key are due when the oldest of them is. The new owner of a
        partition reads this time."""
        await store.parked.park([a_row(3, due_ms=30), a_row(2, due_ms=20), a_row(9, b"b")])
        await store.parked.park([a_row(1, partition=PAYMENTS, due_ms=10)])
        await store.parked.park([a_row(1, subscription="audit")])
        assert await store.parked.lanes(*MINE, [ORDERS]) == {
            ORDERS: {b"k": StoredLane(2, 20), b"b": StoredLane(1, 0)}
        }
        both = await store.parked.lanes(*MINE, [ORDERS, PAYMENTS])
        assert both[PAYMENTS] == {b"k": StoredLane(1, 10)}

    async def test_finished_rows_are_gone_and_may_be_finished_again(self, store):
        await store.parked.park([a_row(1), a_row(2), a_row(3)])
        first, second, _ = await self.rows(store)
        for _ in range(2):
            await store.parked.unpark([first, second])
        assert offsets(await self.rows(store)) == [3]

    async def test_a_repeated_write_never_affects_a_later_row(self, store):
        """A repeated delete never removes a later row, because no row id is used twice."""
        await store.parked.park([a_row(1)])
        (gone,) = await self.rows(store)
        await store.parked.unpark([gone])
        await store.parked.park([a_row(2)])
        await store.parked.unpark([gone])
        await store.parked.defer(replace(gone, due_ms=99))
        assert [(row.message.offset, row.due_ms) for row in await self.rows(store)] == [(2, 0)]

    async def test_a_new_owner_finishes_rows_of_the_former_one(self, store):
        """A new owner can finish the rows of the former owner, because the rows that it reads get
        its epoch."""
        await store.parked.park([a_row(1, epoch=5)])
        await store.owners.own(*MINE, [ORDERS], 6)
        (row,) = await self.rows(store)
        with pytest.raises(StaleOwner):
            await store.parked.unpark([row])
        await store.parked.unpark([replace(row, message=replace(row.message, epoch=6))])
        assert await self.rows(store) == []

    async def test_a_deferred_row_keeps_its_place(self, store):
        await store.parked.park([a_row(1), a_row(2)])
        row = (await self.rows(store))[0]
        later = replace(row, steps=3, attempts=4, due_ms=NOW + 9, cause="timeout", detail="15 s")
        await store.parked.defer(later)
        assert await self.rows(store) == [later, (await self.rows(store))[1]]

    async def test_counts_by_subscription(self, store):
        await store.parked.park([a_row(1, at_ms=NOW + 3), a_row(2), a_row(3, b"other")])
        await store.parked.park([a_row(1, subscription="audit", at_ms=NOW + 1)])
        await store.letters.add(a_letter(9))
        await store.letters.redrive(ALL, rate=0, now_ms=NOW + 9, limit=1)
        assert await store.parked.count() == {
            "billing": ParkedCount(4, 2, 0, NOW, 1),
            "audit": ParkedCount(1, 1, 0, NOW + 1, 0),
        }

    async def test_an_event_without_a_key_counts_as_no_key(self, store):
        lanes = [lane_id(None, None, ORDERS, str(number)) for number in (1, 2)]
        await store.parked.park([a_row(1, lanes[0]), a_row(2, lanes[1]), a_row(3)])
        assert await store.parked.count() == {"billing": ParkedCount(3, 1, 2, NOW, 0)}

    async def test_keys_that_wait_longest_come_first(self, store):
        await store.parked.park([a_row(5, b"b"), a_row(1, b"a"), a_row(2, b"b")])
        await store.parked.park([a_row(1, b"c", subscription="audit")])
        keys = await store.parked.keys()
        assert [(key.oldest.lane, key.rows, key.oldest.message.offset) for key in keys] == [
            (b"b", 2, 5),
            (b"a", 1, 1),
            (b"c", 1, 1),
        ]
        assert {key.oldest.message.record.body for key in keys} == {None}
        assert [key.oldest.lane for key in await store.parked.keys("billing", 1)] == [b"b"]

    async def test_all_rows_are_found_page_by_page(self, store):
        await store.parked.park([a_row(3), a_row(1), a_row(2, subscription="audit")])
        first = await store.parked.find(limit=2)
        assert offsets(first) == [3, 1]
        assert offsets(await store.parked.find(after=first[-1].id)) == [2]
        assert offsets(await store.parked.find("billing")) == [3, 1]

    async def test_many_at_once_are_all_there(self, store):
        await asyncio.gather(*(store.parked.park([a_row(n)]) for n in range(100)))
        assert offsets(await self.rows(store, limit=1000)) == list(range(100))


class PulledContract:
    async def receive(self, store, now=NOW, most=10, **settings):
        wanted = {"lock_ms": MINUTE, "now_ms": now, "most": most, "most_bytes": 1 << 20} | settings
        return await store.pulled.receive(SUBSCRIPTION, **wanted)

    async def test_a_row_is_found_by_position_and_by_event_id(self, store):
        offer = an_offer(1)
        await store.pulled.offer([offer, an_offer(2)])
        await self.receive(store, consumer="shop")
        place = SUBSCRIPTION, BROKER, ORDERS
        at = await store.pulled.at(*place, offer.message.position)
        assert at is not None
        assert (at.consumer, at.deliveries) == ("shop", 1)
        assert await store.pulled.at(*place, "99") is None
        assert at in await store.pulled.named(offer.event.id, 10)
        assert await store.pulled.named("no such event", 10) == []

    async def test_a_lane_hands_out_only_its_oldest_event(self, store):
        """A pull queue hands out only the oldest event of each key, so that consumers keep the
        order per key."""
        await store.pulled.offer([an_offer(1), an_offer(2), an_offer(5, b"b"), an_offer(6, b"b")])
        first = await self.receive(store)
        assert offsets(first) == [1, 5]
        assert await self.receive(store) == []
        await store.pulled.acknowledge(SUBSCRIPTION, [first[0].token], NOW)
        assert offsets(await self.receive(store)) == [2]

    async def test_a_received_event_is_unchanged_and_has_a_token_and_a_count(self, store):
        await store.pulled.offer([an_offer(1), an_offer(2, b"b")])
        one, other = await self.receive(store)
        bare = replace(one, id=0, token="", locked_until_ms=0, deliveries=0)
        assert bare == an_offer(1)
        assert (one.deliveries, one.locked_until_ms) == (1, NOW + MINUTE)
        assert len({one.token, other.token, ""}) == 3

    async def test_receive_returns_at_most_the_requested_count_oldest_first(self, store):
        await store.pulled.offer([an_offer(n, b"%d" % n) for n in range(5)])
        assert offsets(await self.receive(store, most=2)) == [0, 1]
        assert offsets(await self.receive(store, most=2)) == [2, 3]

    async def test_the_event_that_exceeds_the_byte_bound_is_the_last(self, store):
        """The event that exceeds the byte bound is the last one handed out. So an event that is
        larger than the bound can be received, too."""
        await store.pulled.offer([an_offer(n, b"%d" % n) for n in range(5)])
        assert offsets(await self.receive(store, most_bytes=1)) == [0]
        assert offsets(await self.receive(store)) == [1, 2, 3, 4]

    async def test_the_same_message_is_offered_once_and_only_by_its_owner(self, store):
        await store.pulled.offer([an_offer(1)])
        await store.owners.own(*MINE, [ORDERS], 6)
        await store.pulled.offer([an_offer(1, epoch=6)])
        await store.pulled.offer([])
        assert await store.pulled.count(SUBSCRIPTION) == 1

    async def test_all_queues_are_counted_with_their_oldest_event(self, store):
        assert await store.pulled.count_all() == {}
        first, other = an_offer(1), replace(an_offer(2, b"b"), subscription="other")
        await store.pulled.offer([first, replace(an_offer(3), at_ms=first.at_ms + 9), other])
        await self.receive(store)
        assert await store.pulled.count_all() == {
            SUBSCRIPTION: QueueCount(2, first.at_ms),
            "other": QueueCount(1, other.at_ms),
        }

    async def test_an_event_with_an_expired_lock_is_handed_out_again(self, store):
        """An event whose lock has expired is handed out again, because the consumer may have died."""
        await store.pulled.offer([an_offer(1)])
        (lost,) = await self.receive(store)
        assert await self.receive(store, NOW + MINUTE - 1) == []
        (again,) = await self.receive(store, NOW + MINUTE)
        assert (again.deliveries, again.token != lost.token) == (2, True)
        late = NOW + MINUTE
        assert await store.pulled.acknowledge(SUBSCRIPTION, [lost.token], late) == {
            lost.token: False
        }
        assert await store.pulled.count(SUBSCRIPTION) == 1

    async def test_a_token_holds_until_its_lock_runs_out(self, store):
        await store.pulled.offer([an_offer(1)])
        (one,) = await self.receive(store)
        tokens = [one.token, "nobody's", ""]
        assert await store.pulled.locked(SUBSCRIPTION, tokens, NOW + MINUTE - 1) == [one]
        assert await store.pulled.locked(SUBSCRIPTION, tokens, NOW + MINUTE) == []
        assert await store.pulled.locked("audit", tokens, NOW) == []

    @pytest.mark.parametrize("token", ["\0", "a\0b", "\ud800"])
    async def test_text_that_cannot_be_a_token_matches_no_lock(self, store, token):
        """A text that cannot be a lock token matches no lock. PostgreSQL cannot store every
        character that a client may send."""
        await store.pulled.offer([an_offer(1)])
        await self.receive(store)
        assert await store.pulled.locked(SUBSCRIPTION, [token], NOW) == []
        assert await store.pulled.acknowledge(SUBSCRIPTION, [token], NOW) == {token: False}
        assert await store.pulled.count(SUBSCRIPTION) == 1

    async def test_acknowledged_is_finished(self, store):
        await store.pulled.offer([an_offer(1), an_offer(2, b"b")])
        one, _ = await self.receive(store)
        tokens = [one.token, "nobody's"]
        assert await store.pulled.acknowledge("audit", tokens, NOW) == dict.fromkeys(tokens, False)
        assert await store.pulled.acknowledge(SUBSCRIPTION, tokens, NOW) == {
            one.token: True,
            "nobody's": False,
        }
        assert await store.pulled.acknowledge(SUBSCRIPTION, [one.token], NOW) == {one.token: False}
        assert await store.pulled.count(SUBSCRIPTION) == 1

    async def test_released_is_free_after_its_delay_and_keeps_its_place(self, store):
        await store.pulled.offer([an_offer(1), an_offer(2)])
        (one,) = await self.receive(store)
        assert await store.pulled.release(SUBSCRIPTION, [one.token], delay_ms=500, now_ms=NOW) == {
            one.token: True
        }
        assert await store.pulled.acknowledge(SUBSCRIPTION, [one.token], NOW) == {one.token: False}
        assert await self.receive(store, NOW + 499) == []
        assert offsets(await self.receive(store, NOW + 500)) == [1]

    async def test_a_renewed_lock_counts_from_now(self, store):
        await store.pulled.offer([an_offer(1)])
        (one,) = await self.receive(store)
        later = NOW + MINUTE - 1
        renewed = await store.pulled.renew(SUBSCRIPTION, [one.token], lock_ms=MINUTE, now_ms=later)
        assert renewed == {one.token: True}
        assert await self.receive(store, later + MINUTE - 1) == []
        assert len(await self.receive(store, later + MINUTE)) == 1

    async def test_rejected_becomes_a_dead_letter_in_the_same_step(self, store):
        """Rejecting a received event makes it a dead letter in the same step. The lock token
        protects the write, because a consumer owns no partition and has no epoch."""
        await store.pulled.offer([an_offer(1), an_offer(2, b"b")])
        await store.owners.own(*MINE, [ORDERS], 9)
        one, other = await self.receive(store)
        letters = {one.token: a_letter(1), "nobody's": a_letter(7)}
        assert await store.pulled.bury(letters, NOW) == {one.token: True, "nobody's": False}
        assert offsets(await store.letters.find(ALL)) == [1]
        assert await store.pulled.locked(SUBSCRIPTION, [one.token, other.token], NOW) == [other]

    async def test_a_full_store_rejects_no_pulled_event(self, house):
        store = await house.open(max_letters=1)
        await store.pulled.offer([an_offer(1), an_offer(2, b"b")])
        one, other = await self.receive(store)
        with pytest.raises(StoreFull):
            await store.pulled.bury({one.token: a_letter(1), other.token: a_letter(2)}, NOW)
        assert await store.letters.find(ALL) == []
        assert await store.pulled.count(SUBSCRIPTION) == 2

    async def test_exhausted_events_are_locked_for_dead_lettering(self, store):
        await store.pulled.offer([an_offer(1), an_offer(2, b"b")])
        for _ in range(2):
            for each in await self.receive(store, most=1):
                await store.pulled.release(SUBSCRIPTION, [each.token], delay_ms=0, now_ms=NOW)
        wear = {"most_deliveries": 2, "now_ms": NOW}
        (worn,) = await store.pulled.worn_out(SUBSCRIPTION, **wear)
        assert (worn.message.offset, worn.deliveries) == (1, 2)
        assert await store.pulled.worn_out(SUBSCRIPTION, **wear) == []
        assert await store.pulled.bury({worn.token: a_letter(1)}, NOW) == {worn.token: True}

    async def test_counts_by_subscription(self, store):
        await store.pulled.offer([an_offer(1), an_offer(2), an_offer(1, subscription="audit")])
        counts = [await store.pulled.count(name) for name in ("billing", "audit", "nobody")]
        assert counts == [2, 1, 0]
