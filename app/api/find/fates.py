"""Find out what happened to an event at each subscription.

Rows of the store and the memory of workers decide first. If neither knows the event, the result is computed
from the filters and positions of the subscription, and is marked as computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from app.api.access.redaction import Redaction
from app.api.asked.registry import Registry, SubscriptionEntry
from app.api.asked.subscriptions import Subscriptions
from app.api.deliveries import views
from app.api.deliveries.parked import ahead_of
from app.api.find.answers import FateView
from app.api.find.records import FoundRecord
from app.api.find.rows import FoundEventRows, offered_at
from app.api.http.moments import now_ms as now_ms_of
from app.api.http.slices import ROW, Slices
from app.api.status.asked import Spools
from app.delivery.event_age import AgeLimits
from app.delivery.lane_id import has_key
from app.delivery.subscription_verdicts import cause_text
from app.errors import StoreUnavailable
from app.filters.explain import Explainer, FilterVerdict
from app.interfaces import Attempt, DeadLetter, EventName, Parked, PullMessage, Store, WaitingEvent
from app.model.message import Partition
from app.model.metadata import GroupLag, Lags
from app.model.pull import Pull
from app.model.spool import spool_topic
from app.model.state_word import state_clause
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.routing.hops import Steps

Committed = Mapping[tuple[str, str, int], str]
"""The position of the first message that may be unfinished, by subscription, topic and partition."""

ATTEMPTS = 100  # newest attempts of one event at one subscription that are shown

_GONE = (
    "given up, but its dead letter is no longer stored: it was redriven and delivered, or "
    "discarded (see skybridge audit)"
)


class StateSnapshot(NamedTuple):
    """The state of the service that is read once for all events of a request.

    Attributes:
        now_ms: The time of the machine.
        stored_ms: The time by which the store has its times.
        explain: The explainer of each subscription's filters, by id.
        unread: The tables of the store that could not be read completely, so that rows of the event may be
            missing.
        drained: The positions up to which the partitions of each spool have been published, by broker and
            topic.
    """

    store: Store
    shown: Redaction
    now_ms: int
    stored_ms: int
    subscriptions: Sequence[Subscription]
    explain: Mapping[str, Explainer]
    entries: Mapping[str, SubscriptionEntry]
    states: Mapping[str, SubscriptionStatus]
    committed: Committed
    drained: Mapping[tuple[str, str], Sequence[int]]
    unread: Sequence[str] = ()


async def take_snapshot(
    subscriptions: Subscriptions,
    registry: Registry,
    spools: Spools,
    store: Store,
    shown: Redaction,
    now_ms: int,
    unread: Sequence[str],
) -> StateSnapshot:
    """Read the state of the service. ``unread`` are the tables that were not read completely."""
    declared = await subscriptions.declared()
    entries = await registry.entries()
    states = await subscriptions.states(entries)
    lag = await subscriptions.lag()
    return StateSnapshot(
        store,
        shown,
        now_ms,
        now_ms_of(store.clock),
        declared,
        {each.id: Explainer(each.filters) for each in declared},
        {each.id: each for each in entries},
        {each.id: each for each in states},
        {
            (name, each.topic, each.partition): each.committed
            for name, each in _lag_by_subscription(states, lag)
            if each.committed is not None
        },
        {(each.broker, spool_topic(each.route)): each.drained for each in await spools.states()},
        unread,
    )


def _lag_by_subscription(
    states: Sequence[SubscriptionStatus], lag: Lags
) -> Iterator[tuple[str, GroupLag]]:
    """Yield the lag of each group with the id of its subscription."""
    names = {each.group: each.id for each in states}
    return ((names[each.group], each) for each in lag.partitions if each.group in names)


async def fates(
    now: StateSnapshot, rows: FoundEventRows, sightings: Sequence[FoundRecord], slices: Slices
) -> list[FateView]:
    """Return what happened at each subscription, for each record that it reads. Deleted subscriptions are
    included if rows name them."""
    found: list[FateView] = []
    of_subscription = await rows.by_subscription(slices)
    for subscription in now.subscriptions:
        await slices.spend(1 + len(sightings))
        places = [each for each in sightings if _reads_record(subscription, each)]
        mine = of_subscription.get(subscription.id, FoundEventRows())
        if places:
            found += [
                await _FateFinder(now, subscription, _rows_at(mine, each), each).view(slices)
                for each in places
            ]
        elif any((mine.attempts, mine.waiting, mine.with_record())):
            found.append(await _FateFinder(now, subscription, mine, None).view(slices))
    known = {each.id for each in now.subscriptions}
    gone = sorted(of_subscription.keys() - known)
    return found + [
        await _FateFinder(now, name, of_subscription[name], None).view(slices)
        for name in gone
        if of_subscription[name].stored
    ]


def _reads_record(subscription: Subscription, place: FoundRecord) -> bool:
    """Return True if the subscription reads the topic of the record."""
    source = subscription.source
    return source.broker == place.broker and place.message.partition.topic in source.topics


def _rows_at(rows: FoundEventRows, place: FoundRecord) -> FoundEventRows:
    """Return the rows of one record, because the same event may have arrived several times. Return all rows
    if positions of the log do not last."""
    message = place.message
    if not message.position.isdecimal():
        return rows
    at = message.partition, message.position
    return FoundEventRows(
        *([each for each in table if _place_of(each) == at] for table in rows.tables())
    )


def _place_of(
    row: Attempt | DeadLetter | Parked | PullMessage | WaitingEvent,
) -> tuple[Partition, str]:
    """Return the partition and position of the message that a row describes."""
    if isinstance(row, Attempt | WaitingEvent):
        return row.partition, row.position
    return row.message.partition, row.message.position


class _FateFinder:
    """A search for what happened to one record at one subscription. A deleted subscription is given by its id
    alone."""

    def __init__(
        self,
        now: StateSnapshot,
        subscription: Subscription | str,
        rows: FoundEventRows,
        place: FoundRecord | None,
    ) -> None:
        self._now = now
        self._subscription = None if isinstance(subscription, str) else subscription
        self._id = subscription if isinstance(subscription, str) else subscription.id
        self._rows = rows
        self._sighting = place

    async def view(self, slices: Slices) -> FateView:
        """Return the answer for this record and subscription."""
        newest = self._rows.attempts[-ATTEMPTS:]
        attempts = await slices.each((views.attempt(each, self._now.shown) for each in newest), ROW)
        await slices.spend(ROW)
        return self._view(attempts, **await self._find(slices))

    async def _find(self, slices: Slices) -> dict[str, Any]:
        """Return the fate, as a row shows it, or else an attempt, or else filters and positions."""
        try:
            if (found := await self._by_rows()) is not None:
                return found
        except StoreUnavailable:
            return _unread_fate(["store pulled"])
        found = self._by_attempts()
        if found is None:
            found = await slices.run(self._compute())
        if self._now.unread and not _holds_without_rows(found):
            return _unread_fate(self._now.unread)
        return found

    def _view(
        self,
        attempts: Sequence[views.AttemptView],
        *,
        fate: str,
        detail: str = "",
        computed: bool = False,
        **more: Any,
    ) -> FateView:
        place, position = self._find_place()
        state = self._now.states.get(self._id)
        usual: dict[str, Any] = dict.fromkeys(
            (
                "behind",
                "clause",
                "because",
                "next_attempt_ms",
                "dead_letter",
                "consumer",
                "locked_until_ms",
            )
        )
        return FateView.model_validate(
            usual
            | {
                "subscription": self._id,
                "fate": fate,
                "computed": computed,
                "detail": detail,
                "state": None if state is None else state.state,
                "topic": None if place is None else place.topic,
                "partition": None if place is None else place.number,
                "position": position,
                "attempts": attempts,
            }
            | more,
            from_attributes=True,
        )

    def _find_place(self) -> tuple[Partition | None, str | None]:
        """Return the partition and position of the event, from its record or else from a row."""
        if self._sighting is not None:
            return self._sighting.message.partition, self._sighting.message.position
        for table in self._rows.tables():
            for row in table:
                return _place_of(row)
        return None, None

    async def _by_rows(self) -> dict[str, Any] | None:
        """Return the fate of the event as a row of the store or the memory of a worker shows it, or None."""
        rows = self._rows
        if rows.parked:
            return await self._parked_fate(rows.parked[-1])
        if rows.letters:
            letter = rows.letters[0]
            detail = f"given up after {letter.attempts} attempts: {letter.cause}"
            return {"fate": "dead-letter", "detail": detail, "dead_letter": letter.id}
        offered = await self._pull_row()
        if offered is not None:
            return self._pull_fate(offered)
        if rows.waiting:
            waiting = rows.waiting[0]
            if waiting.behind is None:
                return self._waiting_fate("a worker holds it for its first attempt")
            return self._waiting_fate(
                "a worker holds it until an earlier event of its key is done", waiting.behind
            )
        return None

    def _waiting_fate(self, detail: str, behind: EventName | None = None) -> dict[str, Any]:
        """Return the fate of an event that waits, possibly for an earlier event of its key."""
        return {"fate": "waiting", "detail": detail + self._state_suffix(), "behind": behind}

    async def _parked_fate(self, row: Parked) -> dict[str, Any]:
        """Return the fate of an event with a parked row."""
        due = {"next_attempt_ms": self._next_attempt(row.due_ms)}
        if row.redriven:
            detail = f"its dead letter was redriven, with {row.attempts} attempts since"
            return {"fate": "redriven", "detail": detail + self._state_suffix(), **due}
        if not row.attempts:
            try:
                ahead = await ahead_of(self._now.store, row)
            except StoreUnavailable:
                ahead = None
            if ahead is not None:
                return self._waiting_fate(
                    "parked in the store until an earlier event of its key is done", ahead
                )
        what = "its key" if has_key(row.lane) else "it"
        detail = f"{what} is parked after {row.attempts} attempts: {row.cause or 'waits'}"
        return {"fate": "parked", "detail": detail + self._state_suffix(), **due}

    async def _pull_row(self) -> PullMessage | None:
        """Return the event's row in the pull queue, or None."""
        if self._rows.offered:
            return self._rows.offered[-1]
        subscription = self._subscription
        if subscription is None or self._sighting is None:
            return None
        if not isinstance(subscription.sink, Pull):
            return None
        return await offered_at(self._now.store, subscription.id, self._sighting)

    def _pull_fate(self, row: PullMessage) -> dict[str, Any]:
        """Return the fate of an event in a pull queue."""
        if row.locked_until_ms > self._now.stored_ms and row.token:
            return {
                "fate": "pulled",
                "detail": f"received {row.deliveries} times, not acknowledged yet",
                "consumer": row.consumer or None,
                "locked_until_ms": row.locked_until_ms,
            }
        detail = f"waits for a consumer, received {row.deliveries} times so far"
        return {"fate": "queued", "detail": detail, "consumer": row.consumer or None}

    def _by_attempts(self) -> dict[str, Any] | None:
        """Return the fate that the last attempt shows, or None without attempts. ``rows.attempts`` is sorted,
        the oldest first."""
        if not self._rows.attempts:
            return None
        last = self._rows.attempts[-1]
        match last.outcome:
            case "delivered":
                return {"fate": "delivered", "detail": f"delivered by attempt {last.number}"}
            case "disable":
                return self._waiting_fate(
                    "its endpoint answered 410, so the subscription is disabled"
                )
            case "dead-letter":
                return {"fate": "unknown", "computed": True, "detail": _GONE}
        if self._is_finished():
            detail = f"finished after attempt {last.number} failed: delivered later, or expired"
            return {"fate": "delivered", "computed": True, "detail": detail}
        due = None
        if last.next_try_in is not None:
            ended_ms = last.started_ms + last.duration_ms
            due = self._next_attempt(round(ended_ms + last.next_try_in * 1000))
        what = "was not sent" if last.outcome == "unsent" else "failed"
        detail = f"attempt {last.number} {what}" + self._state_suffix()
        return {"fate": "retrying", "detail": detail, "next_attempt_ms": due}

    def _compute(self) -> Steps[dict[str, Any]]:
        """Compute the fate from the filters and the committed position of the subscription, in steps."""
        subscription, sighting = self._subscription, self._sighting
        if subscription is None or sighting is None:
            return {"fate": "unknown", "computed": True, "detail": "no row of it is left"}
        explain = self._now.explain[subscription.id]
        verdicts = yield from explain.steps(sighting.decoded.event)
        failing = next((each for each in verdicts if not each.passes), None)
        if failing is not None:
            return self._filtered_fate(failing)
        finished = self._is_finished()
        if finished is None:
            detail = (
                "its filters pass; the position of the subscription is unknown"
                + self._state_suffix()
            )
            return {"fate": "unknown", "computed": True, "detail": detail}
        if not finished:
            return {
                "computed": True,
                **self._waiting_fate("its filters pass; it is not finished yet"),
            }
        return {"computed": True, **self._finished_fate(subscription, sighting)}

    def _filtered_fate(self, failing: FilterVerdict) -> dict[str, Any]:
        """Return the fate of an event that a filter rejects."""
        return {
            "fate": "filtered",
            "computed": True,
            "detail": f"would have been filtered by {failing.decided_by}",
            "clause": failing.decided_by,
            "because": self._now.shown.text(failing.because),
        }

    def _finished_fate(self, subscription: Subscription, sighting: FoundRecord) -> dict[str, Any]:
        """Return the fate of an event whose filters pass and whose position is committed."""
        entry = self._now.entries.get(subscription.id)
        created = None if entry is None else entry.created_ms
        if (
            created is not None
            and created > sighting.message.time_ms
            and subscription.start != "earliest"
        ):
            return {"fate": "unknown", "detail": "the subscription was created after it arrived"}
        if (age := self._expired_fate(subscription, sighting)) is not None:
            return age
        if isinstance(subscription.sink, Pull):
            return {
                "fate": "pulled",
                "detail": "a consumer acknowledged it (skybridge audit names consumers)",
            }
        began = (
            "" if subscription.start == "earliest" else ", unless the subscription began after it"
        )
        detail = (
            "its filters pass, its position is finished, and no failure is stored: delivered"
            + began
        )
        return {"fate": "delivered", "detail": detail}

    def _expired_fate(
        self, subscription: Subscription, sighting: FoundRecord
    ) -> dict[str, Any] | None:
        """Return the fate of a finished event that may have expired, or None if it cannot have expired yet."""
        ages = AgeLimits(0, honour=subscription.expirytime == "honour")
        expirytime = sighting.decoded.event.attributes.get("expirytime")
        if not ages.expired(expirytime, self._now.now_ms / 1000):
            return None
        if ages.expired(expirytime, sighting.message.time_ms / 1000):
            return {
                "fate": "expired",
                "detail": f"its expirytime {expirytime} had passed when it arrived, so it was never tried",
            }
        return {
            "fate": "unknown",
            "detail": f"finished: delivered, or expired at its expirytime {expirytime}",
        }

    def _is_finished(self) -> bool | None:
        """Return whether the committed position is after the event, so that the event is finished. Return
        None if the order of positions is unknown."""
        place, position = self._find_place()
        if place is None or position is None:
            return None
        committed = self._now.committed.get((self._id, place.topic, place.number))
        if committed is None or not (committed.isdecimal() and position.isdecimal()):
            return None
        return int(position) < int(committed)

    def _state_suffix(self) -> str:
        """Return a text with the state of a subscription that does not run normally. The text is appended to
        a detail."""
        state = self._now.states.get(self._id)
        if state is None or (state.state == "running" and not state.cause):
            return ""
        cause = state.cause.removeprefix(f"{state.state}: ")
        said = f"; the subscription {state_clause(state.word)}"
        return said + (f": {cause_text(cause)}" if cause else "")

    def _next_attempt(self, due_ms: int) -> int | None:
        """Return when the subscription tries an event that is due at ``due_ms``.

        A paused endpoint is probed first. The result is None if nothing is tried before a person acts."""
        now_ms, state = self._now.stored_ms, self._now.states.get(self._id)
        if state is None or state.word in {"running", "elsewhere"}:
            return max(due_ms, now_ms)
        if state.paused_for is None:
            return None
        return max(due_ms, now_ms + round(state.paused_for * 1000))


def _holds_without_rows(found: Mapping[str, Any]) -> bool:
    """Return True if no row of the store can contradict this fate: an attempt delivered the event, or a
    filter rejects it."""
    return found["fate"] == "filtered" or (
        found["fate"] == "delivered" and not found.get("computed")
    )


def _unread_fate(tables: Sequence[str]) -> dict[str, Any]:
    """Return the fate of an event whose rows could not be read."""
    detail = (
        f"rows of it may be missing, because these were not read completely: {', '.join(tables)}"
    )
    return {"fate": "unknown", "computed": True, "detail": detail}
