"""The contract of every store: attempts, audit, subscriptions, halts, commands, replays, consents
and offsets."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from app.bindings.record import Record
from app.errors import StaleOwner, VersionConflict
from app.interfaces import (
    AttemptFilter,
    AuditEntry,
    AuditFilter,
    Command,
    Commit,
    EventName,
    Halt,
    HttpExchange,
    Progress,
    RetryResult,
    SubscriptionTotals,
)
from app.model.message import Partition
from app.store.audit import STRIDE, AuditBounds
from store_samples import (
    ALL,
    NOW,
    ORDERS,
    PAYMENTS,
    SUBSCRIPTION,
    a_letter,
    a_replay,
    a_row,
    an_attempt,
    an_offer,
)

GROUP = "skybridge.shop.billing"
MINUTE, HOUR = 60_000, 3_600_000
KEY, OTHER = b"\x00" * 32, b"\xff" * 32


class AttemptsContract:
    async def test_the_newest_come_first_as_they_were(self, store):
        attempts = [an_attempt(n) for n in range(1, 4)]
        await store.attempts.add(attempts)
        await store.attempts.add([])
        assert await store.attempts.find(AttemptFilter()) == attempts[::-1]
        assert await store.attempts.find(AttemptFilter(), 1) == [attempts[2]]

    async def test_unknown_values_are_stored_as_none(self, store):
        """Unknown values of an attempt are stored as None, such as the status of a refused connection or the next
        attempt after the last."""
        attempt = an_attempt(status=None, next_try_in=None)
        await store.attempts.add([attempt])
        assert await store.attempts.find(AttemptFilter()) == [attempt]

    async def test_the_request_and_its_answer_are_stored_byte_for_byte(self, store):
        exchange = HttpExchange(
            line="POST /hook HTTP/1.1",
            headers=(("ce-id", "é"), ("ce-id", "again")),
            body=b"\x00\xff",
            size=2,
            status_line="HTTP/1.1 503",
            answer_headers=(("Retry-After", "1"),),
            answer_body=b"",
        )
        attempt = an_attempt(exchange=exchange)
        await store.attempts.add([attempt])
        assert await store.attempts.find(AttemptFilter()) == [attempt]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({"event_id": "e1", "event_source": "/shop"}, [1]),
            ({"event_id": "e1", "event_source": "/other"}, []),
            ({"subscription": "audit"}, [3]),
            ({"event_id": "e1"}, [1]),
            ({"outcome": "delivered"}, [2]),
            ({"subscription": "billing", "outcome": "retry"}, [1]),
        ],
    )
    async def test_attempts_are_found_by_event_subscription_and_outcome(self, store, wanted, found):
        await store.attempts.add(
            [an_attempt(1), an_attempt(2, outcome="delivered"), an_attempt(3, subscription="audit")]
        )
        assert [each.number for each in await store.attempts.find(AttemptFilter(**wanted))] == found

    async def test_an_event_is_found_by_an_id_of_any_length(self, store):
        """The attempts of an event are found by an id of any length. Skybridge accepts ids of up to 64 KiB, which a
        database cannot index as they are."""
        long = random.Random(1).randbytes(20_000).hex()
        await store.attempts.add([an_attempt(1, event=EventName(long)), an_attempt(2)])
        (found,) = await store.attempts.find(AttemptFilter(event_id=long))
        assert found.number == 1
        assert long.startswith(found.event.id)

    async def test_the_last_success_replaces_the_previous_one(self, store):
        """The last success of a subscription replaces its previous success. Failed attempts stay."""
        done = {"outcome": "delivered"}
        await store.attempts.add([an_attempt(1)], [an_attempt(2, **done)])
        await store.attempts.add([], [an_attempt(3, subscription="audit", **done)])
        await store.attempts.add([an_attempt(4)], [an_attempt(5, **done)])
        assert [each.number for each in await store.attempts.find(AttemptFilter())] == [5, 4, 3, 1]

    async def test_attempts_beyond_age_or_count_are_deleted_oldest_first(self, store):
        await store.attempts.add([an_attempt(n) for n in range(1, 8)])
        assert await store.attempts.trim(before_ms=NOW + 3, most=100) == 2
        assert await store.attempts.trim(before_ms=0, most=3) == 2
        assert await store.attempts.trim(before_ms=0, most=3) == 0
        assert [each.number for each in await store.attempts.find(AttemptFilter())] == [7, 6, 5]

    async def test_old_headers_and_bodies_are_deleted_and_their_rows_stay(self, store):
        """A body may contain the address of a customer."""
        exchange = HttpExchange(line="POST / HTTP/1.1", headers=(), body=b"{}", size=2)
        await store.attempts.add([an_attempt(n, exchange=exchange) for n in range(1, 5)])
        await store.attempts.forget_exchanges(since_ms=NOW + 2, before_ms=NOW + 4)
        found = await store.attempts.find(AttemptFilter())
        assert [(each.number, each.exchange is not None) for each in found] == [
            (4, True),
            (3, False),
            (2, False),
            (1, True),
        ]


def an_entry(n: int = 1, **values: Any) -> AuditEntry:
    fields = {"kind": "change", "who": "ana", "address": "10.0.0.9", "operation": "pause"}
    return AuditEntry(**{**fields, "at_ms": NOW + n, **values})


async def put(store: Any, entry: AuditEntry, *, concluded: bool) -> None:
    """Store an entry at once, or first without its status, as for a request in progress."""
    if not concluded:
        await store.audit.add(entry)
        return
    number = await store.audit.add(replace(entry, status=None))
    await store.audit.conclude(replace(entry, id=number))


class AuditContract:
    async def test_an_entry_is_kept_with_its_outcome(self, store):
        entry = an_entry(target="billing")
        number = await store.audit.add(entry)
        assert await store.audit.find(AuditFilter()) == [replace(entry, id=number)]
        done = replace(entry, id=number, status=200, target="billing-2", detail="3 of 4")
        await store.audit.conclude(done)
        assert await store.audit.find(AuditFilter()) == [done]

    async def test_the_newest_come_first_and_pages_go_by_id(self, store):
        numbers = [await store.audit.add(an_entry(n)) for n in range(5)]
        page = await store.audit.find(AuditFilter(), 2)
        assert [each.id for each in page] == [numbers[4], numbers[3]]
        rest = await store.audit.find(AuditFilter(), 9, before=page[-1].id)
        assert [each.id for each in rest] == [numbers[2], numbers[1], numbers[0]]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({"kind": "look"}, [2]),
            ({"who": "bo"}, [3]),
            ({"operation": "resume"}, [4]),
            ({"target": "audit"}, [4]),
            ({"since_ms": NOW + 3}, [4, 3]),
            ({"until_ms": NOW + 2}, [1]),
            ({"who": "ana", "since_ms": NOW + 2, "until_ms": NOW + 4}, [2]),
        ],
    )
    async def test_entries_are_found_by_kind_caller_operation_object_and_time(
        self, store, wanted, found
    ):
        for each in (
            an_entry(1),
            an_entry(2, kind="look"),
            an_entry(3, who="bo"),
            an_entry(4, operation="resume", target="audit"),
        ):
            await store.audit.add(each)
        entries = await store.audit.find(AuditFilter(**wanted))
        assert [each.at_ms - NOW for each in entries] == found

    async def test_looks_never_push_changes_out(self, house):
        """Many reads (``look``) push no change out of the audit, because each kind has its own bound."""
        store = await house.open(audited=AuditBounds(change=3, look=5, refusal=5))
        for n in range(3):
            await store.audit.add(an_entry(n))
        for n in range(3, 3 + 2 * STRIDE):
            await store.audit.add(an_entry(n, kind="look"))
        assert len(await store.audit.find(AuditFilter(kind="change"), 999)) == 3
        looks = await store.audit.find(AuditFilter(kind="look"), 999)
        assert 5 <= len(looks) <= 5 + STRIDE
        assert looks[0].at_ms == NOW + 2 + 2 * STRIDE

    async def test_logins_never_push_changes_out(self, house):
        store = await house.open(audited=AuditBounds(change=3, login=5, look=5, refusal=5))
        for n in range(3):
            await store.audit.add(an_entry(n, status=200))
        for n in range(3, 3 + 2 * STRIDE):
            await store.audit.add(an_entry(n, kind="login", status=200, address=str(n)))
        assert len(await store.audit.find(AuditFilter(kind="change"), 999)) == 3
        assert 5 <= len(await store.audit.find(AuditFilter(kind="login"), 999)) <= 5 + STRIDE

    @pytest.mark.parametrize(
        ("kind", "status"),
        [("login", 200), ("login", 204), ("look", 200), ("refusal", 403), ("change", 422)],
    )
    @pytest.mark.parametrize("concluded", [False, True])
    async def test_equal_entries_become_one_with_a_count(self, store, kind, status, concluded):
        """Equal audit entries become one entry with a count. Entries are equal if their kind, caller, address,
        operation, object and status are."""
        alike = {"kind": kind, "target": "billing", "status": status}
        for n in range(1, 6):
            await put(store, an_entry(n, detail=str(n), **alike), concluded=concluded)
        (entry,) = await store.audit.find(AuditFilter())
        assert (entry.count, entry.at_ms, entry.last_ms) == (5, NOW + 1, NOW + 5)
        assert entry.detail == "5"
        other = {"who": "bo"}, {"address": "::1"}, {"operation": "o"}, {"target": "t"}
        for n, each in enumerate([*other, {"status": 503}], 6):
            await put(store, an_entry(n, **(alike | each)), concluded=concluded)
        found = await store.audit.find(AuditFilter())
        assert [each.count for each in found] == [1] * 5 + [5]

    @pytest.mark.parametrize("status", [None, 200, 202])
    async def test_a_change_that_may_have_happened_has_an_entry_of_its_own(self, store, status):
        for n in range(3):
            await store.audit.add(an_entry(n, status=status))
        found = await store.audit.find(AuditFilter())
        assert [(each.count, each.last_ms) for each in found] == [(1, None)] * 3

    async def test_an_entry_counts_uses_of_one_hour(self, store):
        for minutes in (0, 30, 59, 60, 90, 200):
            at = NOW + minutes * MINUTE
            await store.audit.add(an_entry(kind="login", status=200, at_ms=at))
        spans = [
            ((each.at_ms - NOW) // MINUTE, each.last_ms and (each.last_ms - NOW) // MINUTE)
            for each in await store.audit.find(AuditFilter())
        ]
        assert spans == [(200, None), (60, 90), (0, 59)]

    async def test_a_counted_entry_is_found_by_its_whole_time_span(self, store):
        for n in (1, 9):
            await store.audit.add(an_entry(n, kind="login", status=200))
        for wanted, count in (
            ({"since_ms": NOW + 9}, 1),
            ({"since_ms": NOW + 10}, 0),
            ({"until_ms": NOW + 2}, 1),
            ({"until_ms": NOW + 1}, 0),
        ):
            assert len(await store.audit.find(AuditFilter(**wanted))) == count

    async def test_a_repeated_entry_is_the_newest(self, store):
        """An entry that is counted again becomes the newest entry, with a new id, because pages are ordered by id."""
        await store.audit.add(an_entry(1, kind="login", status=200))
        between = await store.audit.add(an_entry(2, status=200))
        last = await store.audit.add(an_entry(3, kind="login", status=200))
        assert [each.id for each in await store.audit.find(AuditFilter())] == [last, between]

    async def test_text_from_outside_is_kept_readably(self, store):
        """Text from a request, such as a path, is stored in readable form, even with characters that no
        column can hold."""
        await store.audit.add(an_entry(target="a\0b\udc00" + "x" * 9000))
        (entry,) = await store.audit.find(AuditFilter())
        assert entry.target.startswith("a\ufffdb")
        assert len(entry.target) < 1000


class RegistryContract:
    async def test_a_subscription_comes_back_as_it_was_put(self, store):
        kept = await store.subscriptions.put("b", b"{}\xff", expected=None, now_ms=NOW)
        assert (kept.document, kept.created_ms, kept.updated_ms) == (b"{}\xff", NOW, NOW)
        assert await store.subscriptions.get("b") == kept
        assert await store.subscriptions.get("a") is None
        first = await store.subscriptions.put("a", b"[]", expected=0, now_ms=NOW)
        assert await store.subscriptions.all() == [first, kept]

    async def test_a_change_names_the_version_that_it_replaces(self, store):
        """A change of a subscription must name the version that it replaces. If two operators edit at once, the
        second is refused."""
        one = await store.subscriptions.put("b", b"1", expected=0, now_ms=NOW)
        two = await store.subscriptions.put("b", b"2", expected=one.version, now_ms=NOW + 1)
        assert two.version > one.version > 0
        assert (two.created_ms, two.updated_ms) == (NOW, NOW + 1)
        for stale in (0, one.version):
            with pytest.raises(VersionConflict) as conflict:
                await store.subscriptions.put("b", b"3", expected=stale, now_ms=NOW)
            assert conflict.value.found == two.version
            if stale:
                with pytest.raises(VersionConflict):
                    await store.subscriptions.delete("b", expected=stale)
        assert await store.subscriptions.get("b") == two

    async def test_a_reader_learns_what_changed_after_a_revision(self, store):
        """A process with a thousand subscriptions reads the changed ones alone, and notices a deletion by the totals."""
        of = SubscriptionTotals.of
        one, two, three = [
            await store.subscriptions.put(name, b"1", expected=0, now_ms=NOW) for name in "abc"
        ]
        first = await store.subscriptions.changes(-1)
        assert (first.changed, first.totals) == ([one, two, three], of([one, two, three]))
        assert first.revision == await store.subscriptions.revision()
        assert (await store.subscriptions.changes(first.revision)).changed == []
        new = await store.subscriptions.put("b", b"2", expected=None, now_ms=NOW + 1)
        await store.subscriptions.delete("a", expected=None)
        await store.halts.halt("c", "paused", "", NOW)
        second = await store.subscriptions.changes(first.revision)
        assert (second.changed, second.totals) == ([new], of([new, three]))
        assert second.revision > new.version > first.revision
        assert await store.subscriptions.ids() == {"b", "c"}
        restored = await store.subscriptions.changes(second.revision + 9)
        assert (restored.changed, restored.revision) == ([new, three], second.revision)

    async def test_creations_at_the_same_time_have_results_of_their_own(self, store):
        """A creation that shares a transaction has a result of its own: the second of an id is refused and undoes no
        other."""
        put = store.subscriptions.put
        results = await asyncio.gather(
            *(put(name, b"1", expected=0, now_ms=NOW) for name in ("a", "b", "a", "c")),
            return_exceptions=True,
        )
        assert [type(each) is VersionConflict for each in results] == [False, False, True, False]
        stored = await store.subscriptions.all()
        assert [each.id for each in stored] == ["a", "b", "c"]
        assert [results[0], results[1], results[3]] == stored
        assert stored[-1].version == await store.subscriptions.revision()

    async def test_a_missing_subscription_has_version_0(self, store):
        with pytest.raises(VersionConflict) as conflict:
            await store.subscriptions.put("b", b"1", expected=7, now_ms=NOW)
        assert conflict.value.found == 0
        with pytest.raises(VersionConflict):
            await store.subscriptions.delete("b", expected=7)
        assert await store.subscriptions.delete("b", expected=None) is False

    async def test_a_subscription_created_again_gets_a_greater_version(self, store):
        """A subscription that is created again gets a greater version. A client with an ETag of the old
        subscription can then not change the new one."""
        old = await store.subscriptions.put("b", b"1", expected=0, now_ms=NOW)
        assert await store.subscriptions.delete("b", expected=old.version) is True
        new = await store.subscriptions.put("b", b"1", expected=0, now_ms=NOW)
        assert new.version > old.version

    async def test_a_deleted_subscription_keeps_only_its_dead_letters(self, store):
        """A deleted subscription keeps only its dead letters, which an operator may still need."""
        for name in (SUBSCRIPTION, "audit"):
            await store.subscriptions.put(name, b"{}", expected=0, now_ms=NOW)
            await store.halts.halt(name, "paused", "", NOW)
            await store.commands.ask(
                Command(subscription=name, kind="test", body=b"", asked_ms=NOW)
            )
            await store.replays.ask([a_replay(subscription=name)])
            await store.consents.open(name.encode(), name, until_ms=NOW + 1, now_ms=NOW)
            await store.parked.park([a_row(subscription=name)])
            await store.pulled.offer([an_offer(subscription=name)])
            await store.letters.add(a_letter(subscription=name))
        assert await store.subscriptions.delete(SUBSCRIPTION, expected=None)
        left = [
            *[each.id for each in await store.subscriptions.all()],
            *await store.halts.all(),
            *[
                each.subscription
                for each in await store.commands.take([SUBSCRIPTION, "audit"], NOW)
            ],
            *[each.subscription for each in await store.replays.all()],
            *await store.parked.count(),
            *[name for name in (SUBSCRIPTION, "audit") if await store.pulled.count(name)],
            *[
                name
                for name in (SUBSCRIPTION, "audit")
                if await store.consents.call(name.encode(), None, NOW)
            ],
        ]
        assert left == ["audit"] * 7
        assert len(await store.letters.find(ALL)) == 2

    async def test_another_message_at_the_same_position_is_stored_too(self, store):
        """Another message at the same position is stored too. Offsets begin at 0 again in a recreated topic or
        another cluster. A redelivered message is still stored once."""
        name = EventName("new", "/s", "t")
        record = Record(b"k", (), b"new")
        made = (a_row, store.parked.park), (an_offer, store.pulled.offer)
        for make, keep in made:
            old = make()
            new = replace(old, message=replace(old.message, record=record), event=name)
            for rows in ([old], [new], [new]):
                await keep(rows)
        letter = a_letter()
        new = replace(letter, message=replace(letter.message, record=record), event=name)
        for each in (letter, new, new):
            await store.letters.add(each)
        assert await store.pulled.count(SUBSCRIPTION) == 2
        assert [each.event.id for each in await store.letters.find(ALL)] == ["new", letter.event.id]
        assert [each.event.id for each in await store.parked.find()] == ["7", "new"]
        assert await store.letters.redrive(ALL, rate=0, now_ms=NOW, limit=9) == 2
        assert [each.event.id for each in await store.parked.find()] == ["7", "new"]

    async def test_rows_written_after_the_deletion_are_not_inherited(self, store):
        """Rows that a worker writes after the deletion of its subscription are not inherited by a later
        subscription with the same id."""
        await store.subscriptions.put("audit", b"{}", expected=0, now_ms=NOW)
        for name in (SUBSCRIPTION, "audit"):
            await store.parked.park([a_row(subscription=name)])
            await store.pulled.offer([an_offer(subscription=name)])
            await store.halts.halt(name, "disabled", "410", NOW)
            await store.subscriptions.clear(name)
        assert list(await store.halts.all()) == list(await store.parked.count()) == ["audit"]
        offered = [await store.pulled.count(name) for name in (SUBSCRIPTION, "audit")]
        assert offered == [0, 1]

    async def test_the_revision_grows_only_with_changes_that_workers_apply(self, store):
        """The revision grows only with changes that workers apply. Workers ask for it every second."""
        await store.letters.add(a_letter())
        await store.consents.open(KEY, SUBSCRIPTION, until_ms=NOW + 1, now_ms=NOW)
        command = Command(subscription=SUBSCRIPTION, kind="test", body=b"", asked_ms=NOW)
        changes = (
            lambda: store.subscriptions.put("b", b"", expected=None, now_ms=NOW),
            lambda: store.halts.halt("b", "paused", "", NOW),
            lambda: store.halts.allow("b"),
            lambda: store.commands.ask(command),
            lambda: store.replays.ask([a_replay()]),
            lambda: store.replays.end(1),
            lambda: store.consents.call(KEY, None, NOW),
            lambda: store.letters.redrive(ALL, rate=0, now_ms=NOW, limit=1),
            lambda: store.subscriptions.delete("b", expected=None),
        )
        numbers = [await store.subscriptions.revision()]
        for change in changes:
            await change()
            numbers.append(await store.subscriptions.revision())
        assert numbers == sorted(set(numbers))
        await store.parked.park([a_row(9)])
        await store.letters.add(a_letter(9))
        await store.letters.discard(ALL)
        await store.attempts.add([an_attempt()])
        await store.replays.save(replace(a_replay(), id=2), 5)
        await store.consents.open(KEY, SUBSCRIPTION, until_ms=NOW + 1, now_ms=NOW)
        await store.consents.call(b"nobody's", None, NOW)
        await store.consents.take([KEY])
        assert await store.subscriptions.revision() == numbers[-1]


class HaltsContract:
    async def test_a_halt_stays_until_it_is_lifted(self, store):
        await store.halts.halt("billing", "paused", "by ops", NOW)
        await store.halts.halt("billing", "paused", "again", NOW + 5)
        assert await store.halts.all() == {"billing": Halt("paused", "again", NOW)}
        for _ in range(2):
            await store.halts.allow("billing")
        assert await store.halts.all() == {}

    async def test_a_disabled_subscription_that_is_paused_stays_disabled(self, store):
        """A disabled subscription that is paused stays disabled. Only an operator may resume delivery to a target
        that answered 410."""
        await store.halts.halt("billing", "paused", "by ops", NOW)
        await store.halts.halt("billing", "disabled", "status-410", NOW + 1)
        await store.halts.halt("billing", "paused", "by ops", NOW + 2)
        assert await store.halts.all() == {"billing": Halt("disabled", "status-410", NOW + 1)}


class CommandsContract:
    def command(self, subscription=SUBSCRIPTION, asked_ms=NOW):
        return Command(subscription=subscription, kind="test", body=b"{}", asked_ms=asked_ms)

    async def test_a_command_is_taken_once_and_answered(self, store):
        number = await store.commands.ask(self.command())
        assert await store.commands.take(["audit"], NOW) == []
        assert await store.commands.take([], NOW) == []
        (taken,) = await store.commands.take(["audit", SUBSCRIPTION], NOW)
        assert taken == replace(self.command(), id=number)
        assert await store.commands.take([SUBSCRIPTION], NOW) == []
        assert (await store.commands.get(number)).answer is None
        await store.commands.answer(number, b"[1]")
        assert (await store.commands.get(number)).answer == b"[1]"
        assert await store.commands.get(number + 1) is None

    async def test_a_command_expires_after_a_minute(self, store):
        """A command expires after a minute, because its caller waits no longer for the answer."""
        await store.commands.ask(self.command())
        assert await store.commands.take([SUBSCRIPTION], NOW + MINUTE) == []

    async def test_a_retry_reaches_every_worker_and_their_results_are_summed(self, store):
        """A command that one worker takes would reach only some of the keys."""
        asked = replace(self.command(), kind="retry")
        number = await store.commands.ask(asked)
        assert await store.commands.take([SUBSCRIPTION], NOW) == []
        for _ in range(2):
            assert await store.commands.retries([SUBSCRIPTION, "audit"], NOW) == [
                replace(asked, id=number)
            ]
        assert await store.commands.retries(["audit"], NOW) == []
        results = [RetryResult(keys=2), RetryResult(keys=3, probe=True, retry_after=1.5)]
        await asyncio.gather(*(store.commands.add_result(number, each) for each in results))
        answer = (await store.commands.get(number)).answer
        assert msgspec.json.decode(answer) == {"keys": 5, "probe": True, "retry_after": 1.5}
        assert await store.commands.retries([SUBSCRIPTION], NOW + MINUTE) == []

    async def test_old_answers_are_forgotten(self, store):
        old = await store.commands.ask(self.command())
        await store.commands.ask(self.command(asked_ms=NOW + HOUR))
        assert await store.commands.get(old) is None


class ConsentsContract:
    async def ask(self, store, key=KEY, now_ms=NOW):
        await store.consents.open(key, SUBSCRIPTION, until_ms=now_ms + HOUR, now_ms=now_ms)

    async def test_a_consent_is_taken_once_by_the_process_that_asked(self, store):
        """A consent is returned once, to the process that asked for it, although any gateway may receive the
        consent."""
        await self.ask(store)
        await self.ask(store, OTHER)
        assert await store.consents.take([KEY, OTHER]) == {}
        assert await store.consents.call(KEY, "60", NOW)
        await self.ask(store)  # the store must accept any write twice
        assert await store.consents.take([OTHER]) == {}
        assert await store.consents.take([]) == {}
        assert await store.consents.take([KEY, OTHER]) == {KEY: "60"}
        assert await store.consents.take([KEY, OTHER]) == {}
        assert await store.consents.call(OTHER, None, NOW)
        assert await store.consents.take([KEY, OTHER]) == {OTHER: None}

    async def test_an_address_serves_once(self, store):
        """An address for consent serves once: a second call has no effect, whether the first consent was taken or
        not."""
        await self.ask(store)
        assert await store.consents.call(KEY, "60", NOW)
        assert not await store.consents.call(KEY, "9", NOW)
        assert await store.consents.take([KEY]) == {KEY: "60"}
        assert not await store.consents.call(KEY, "9", NOW)

    async def test_an_unknown_or_expired_address_accepts_no_consent(self, store):
        await self.ask(store)
        assert not await store.consents.call(OTHER, None, NOW)
        assert not await store.consents.call(KEY, None, NOW + HOUR)
        assert await store.consents.take([KEY]) == {}

    async def test_a_closed_address_accepts_no_consent(self, store):
        """A closed address accepts no consent. A consent that came before the closing is returned."""
        for key in (KEY, OTHER):
            await self.ask(store, key)
        assert await store.consents.call(KEY, "60", NOW)
        assert await store.consents.close(KEY) == {KEY: "60"}
        assert await store.consents.close(OTHER) == {}
        assert await store.consents.close(OTHER) == {}
        assert not await store.consents.call(OTHER, None, NOW)

    async def test_the_next_open_deletes_expired_consents(self, store):
        """The next opening of an address deletes expired consents, also those of processes that have ended."""
        await self.ask(store)
        assert await store.consents.call(KEY, None, NOW)
        await self.ask(store, OTHER, NOW + HOUR)
        assert await store.consents.take([KEY]) == {}

    async def test_a_rate_that_no_column_can_hold_is_stored_in_readable_form(self, store):
        """A consent is stored even if its rate has characters that no column can hold. The process that asked for
        consent validates the rate."""
        await self.ask(store)
        assert await store.consents.call(KEY, "6\0é", NOW)
        assert await store.consents.take([KEY]) == {KEY: "6�é"}


class ReplaysContract:
    async def test_progress_is_kept_until_the_end(self, store):
        one, other = await store.replays.ask([a_replay(), a_replay(subscription="audit")])
        saved = replace(a_replay(), id=one, next="8", done=3)
        await store.replays.save(saved, 5)
        assert await store.replays.all(SUBSCRIPTION) == [saved]
        assert [each.id for each in await store.replays.all()] == [one, other]
        for _ in range(2):
            await store.replays.end(one)
        assert [each.id for each in await store.replays.all()] == [other]

    async def test_one_of_two_concurrent_replays_is_refused(self, store):
        """One of two replays that are requested at once is refused, because a subscription has one replay at a
        time."""
        both = (store.replays.ask([a_replay(), a_replay()]) for _ in range(2))
        asked = await asyncio.gather(*both)
        assert sorted(map(len, asked)) == [0, 2]
        assert len(await store.replays.all(SUBSCRIPTION)) == 2
        assert len(await store.replays.ask([a_replay(subscription="audit")])) == 1

    async def test_progress_of_an_ended_replay_is_ignored(self, store):
        await store.replays.save(replace(a_replay(), id=7), 5)
        assert await store.replays.all() == []


class AlertsContract:
    async def test_a_report_replaces_the_last_one_of_its_process_and_its_beat_grows(self, store):
        first = await store.alerts.report("a", b"one")
        assert [(each.process, each.document) for each in first.reports] == [("a", b"one")]
        await store.alerts.report("b", b"two")
        board = await store.alerts.report("a", b"\x00three")
        found = {each.process: each for each in board.reports}
        assert found["a"].document == b"\x00three"
        assert found["b"].document == b"two"
        assert found["a"].beat > first.reports[0].beat

    async def test_one_process_becomes_the_sender(self, store):
        board = await store.alerts.report("a", b"")
        assert (board.sender, board.state) == ("", b"")
        assert await store.alerts.take("a", board)
        assert not await store.alerts.take("b", board)
        assert (await store.alerts.report("b", b"")).sender == "a"

    async def test_a_sender_that_works_is_not_replaced(self, store):
        assert await store.alerts.take("a", await store.alerts.report("a", b""))
        seen = await store.alerts.report("b", b"")
        grown = await store.alerts.report("a", b"")
        assert grown.beat > seen.beat
        assert not await store.alerts.take("b", seen)
        assert await store.alerts.take("b", grown)

    async def test_only_the_sender_stores_what_was_sent(self, store):
        assert await store.alerts.take("a", await store.alerts.report("a", b""))
        assert await store.alerts.save("a", b"sent by a")
        assert not await store.alerts.save("b", b"sent by b")
        board = await store.alerts.report("b", b"")
        assert board.state == b"sent by a"
        assert await store.alerts.take("b", board)
        assert not await store.alerts.save("a", b"sent by a again")
        assert (await store.alerts.report("b", b"")).state == b"sent by a"

    async def test_a_process_that_leaves_is_replaced_at_once_and_what_it_sent_stays(self, store):
        assert await store.alerts.take("a", await store.alerts.report("a", b""))
        assert await store.alerts.save("a", b"sent")
        await store.alerts.leave("b")
        assert (await store.alerts.report("a", b"")).sender == "a"
        await store.alerts.leave("a")
        board = await store.alerts.report("b", b"")
        assert (board.sender, board.state) == ("", b"sent")
        assert [each.process for each in board.reports] == ["b"]

    async def test_a_forgotten_report_that_was_replaced_meanwhile_stays(self, store):
        board = await store.alerts.report("a", b"")
        board = await store.alerts.report("b", b"")
        await store.alerts.report("b", b"")
        await store.alerts.forget(board.reports)
        left = (await store.alerts.report("c", b"")).reports
        assert {each.process for each in left} == {"b", "c"}


class OffsetsContract:
    BROKER = "rabbit"

    async def test_offsets_of_other_brokers_groups_and_topics_are_separate(self, store):
        """Offsets are stored by broker, group and topic. Two clusters may have a topic of the same name."""
        offsets = store.offsets
        await offsets.save_offsets(self.BROKER, GROUP, 5, {ORDERS: Commit(7, "f1:2-4")})
        assert await offsets.offsets(self.BROKER, GROUP, [ORDERS, PAYMENTS]) == {
            ORDERS: Commit(7, "f1:2-4")
        }
        for broker, group, place in (
            ("other", GROUP, ORDERS),
            (self.BROKER, "skybridge.shop.audit", ORDERS),
            (self.BROKER, GROUP, Partition("orders", 0)),
        ):
            assert await offsets.offsets(broker, group, [place]) == {}

    async def test_an_older_owner_is_refused_but_saves_its_own_partitions(self, store):
        """A former owner is refused for partitions that it lost, and still saves the offsets of its own partitions."""
        offsets, mine = store.offsets, (self.BROKER, GROUP)
        await offsets.start_offsets(*mine, {ORDERS: Commit(1), PAYMENTS: Commit(1)})
        await offsets.own_offsets(*mine, 5, [ORDERS, PAYMENTS])
        assert await offsets.own_offsets(*mine, 6, [ORDERS]) == {ORDERS: Commit(1)}
        with pytest.raises(StaleOwner, match="orders"):
            await offsets.save_offsets(*mine, 5, {ORDERS: Commit(9), PAYMENTS: Commit(9)})
        known = await offsets.offsets(*mine, [ORDERS, PAYMENTS])
        assert known == {ORDERS: Commit(1), PAYMENTS: Commit(9)}

    async def test_a_start_position_does_not_replace_an_offset(self, store):
        """A start position does not replace a committed offset."""
        offsets, mine = store.offsets, (self.BROKER, GROUP)
        await offsets.save_offsets(*mine, 5, {ORDERS: Commit(7)})
        await offsets.start_offsets(*mine, {ORDERS: Commit(99), PAYMENTS: Commit(3)})
        known = await offsets.offsets(*mine, [ORDERS, PAYMENTS])
        assert known == {ORDERS: Commit(7), PAYMENTS: Commit(3)}

    async def test_the_last_claim_makes_the_only_owner(self, store):
        """The owner that claims a partition last is its only owner. Epochs of different machines cannot be
        compared."""
        offsets, mine = store.offsets, (self.BROKER, GROUP)
        await offsets.save_offsets(*mine, 1_000, {ORDERS: Commit(7)})
        await offsets.own_offsets(*mine, 10, [ORDERS])
        with pytest.raises(StaleOwner):
            await offsets.save_offsets(*mine, 1_000, {ORDERS: Commit(9)})
        await offsets.save_offsets(*mine, 10, {ORDERS: Commit(8)})
        assert await offsets.offsets(*mine, [ORDERS]) == {ORDERS: Commit(8)}


class ProgressContract:
    """Positions of subscriptions that share the membership of one group."""

    BROKER, SHARED, OTHER = "kafka", "skybridge.shop.topic:orders", "skybridge.shop.audit"

    async def begun(self, store, *, epoch=5):
        """Store a first position of two groups, and become the owner."""
        starts = {GROUP: {ORDERS: Commit(7, "f1:2-4")}, self.OTHER: {ORDERS: Commit(3)}}
        await store.progress.begin(self.BROKER, self.SHARED, starts)
        return await store.progress.own(self.BROKER, self.SHARED, epoch, [ORDERS], newest=True)

    async def save(self, store, floor, rows, *, epoch=5):
        mine = self.BROKER, self.SHARED, epoch
        return await store.progress.save(*mine, {ORDERS: floor}, {ORDERS: rows})

    async def test_an_owner_gets_the_floor_and_all_positions(self, store):
        """A new owner gets the floor and all positions. A first position is apart from the floor and is not replaced."""
        floors, rows = await self.begun(store)
        assert floors == {ORDERS: 0}
        assert rows == {
            ORDERS: {GROUP: Progress(7, "f1:2-4", True), self.OTHER: Progress(3, "", True)}
        }
        await store.progress.begin(self.BROKER, self.SHARED, {GROUP: {ORDERS: Commit(99)}})
        assert await store.progress.find(self.BROKER, [GROUP]) == {
            GROUP: {ORDERS: Progress(7, "f1:2-4", True)}
        }
        assert await store.progress.find("another", [GROUP]) == {}

    async def test_the_floor_holds_for_all_that_follow_it(self, store):
        """The floor raises the positions of subscriptions that follow it, and cuts their finished ranges. It does not
        concern subscriptions that are apart."""
        await self.begun(store)
        followed = {GROUP: Progress(7, "f1:2-4,9"), self.OTHER: Progress(3, "", True)}
        assert not await self.save(store, 10, followed)
        found = await store.progress.find(self.BROKER, [GROUP, self.OTHER])
        assert found == {
            GROUP: {ORDERS: Progress(10, "f1:0-1,6")},
            self.OTHER: {ORDERS: Progress(3, "", True)},
        }
        _, rows = await store.progress.own(self.BROKER, self.SHARED, 6, [ORDERS])
        assert rows == {ORDERS: {group: of[ORDERS] for group, of in found.items()}}

    async def test_an_earlier_owner_writes_nothing(self, store):
        """An earlier owner can write neither floor nor positions."""
        await self.begun(store)
        await store.progress.own(self.BROKER, self.SHARED, 6, [ORDERS], newest=True)
        with pytest.raises(StaleOwner):
            await self.save(store, 10, {GROUP: Progress(9)})
        with pytest.raises(StaleOwner):
            await store.progress.own(self.BROKER, self.SHARED, 5, [ORDERS], newest=True)
        assert await store.progress.find(self.BROKER, [GROUP]) == {
            GROUP: {ORDERS: Progress(7, "f1:2-4", True)}
        }
        await store.progress.own(
            self.BROKER, self.SHARED, 1, [ORDERS]
        )  # the broker has forgotten the group
        assert not await self.save(store, 1, {}, epoch=1)

    async def test_a_removed_position_is_not_written_again(self, store):
        """A batch does not create positions of a subscription that was moved or deleted."""
        await self.begun(store)
        await store.progress.remove(self.BROKER, [GROUP])
        missing = await self.save(store, 10, {GROUP: Progress(9), self.OTHER: Progress(10)})
        assert list(missing) == [(GROUP, ORDERS)]
        found = await store.progress.find(self.BROKER, [GROUP, self.OTHER])
        assert found == {self.OTHER: {ORDERS: Progress(10)}}
