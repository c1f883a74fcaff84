"""What was taken from the log and is to be rows: offered to whoever pulls, or a dead letter at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from app.errors import StaleOwner
from app.interfaces import Clock, DeadLetter, EventName, Notify, Offered, Parked, Store
from app.interfaces.notify import DEAD_LETTERED
from app.model.message import Message, Partition
from app.model.subscription import Subscription
from app.sinks.dead_letter_topic import DeadLetterTopic
from app.sinks.pull_burial import MAX_DELIVERIES, PullBurial
from app.worker.attempts import AttemptLog
from app.worker.intake import Held

PAGE = 500  # messages of one transaction
FOREIGN = "foreign"


class Shelf:
    """``finished``: messages to settle; whoever settles them empties it. Every step raises StoreUnavailable
    or BrokerError and may be repeated: what it did not finish is still here."""

    def __init__(
        self,
        subscription: Subscription,
        store: Store,
        clock: Clock,
        attempts: AttemptLog,
        topic: DeadLetterTopic | None,
        notify: Notify,
    ) -> None:
        self._subscription = subscription
        self._store = store
        self._clock = clock
        self._attempts = attempts
        self._topic = topic
        self._notify = notify
        self._burial = PullBurial(store.pulled, topic, clock)
        self._events: list[Held] = []
        self._foreign: list[Held] = []
        self.finished: list[Message] = []

    def __len__(self) -> int:
        return len(self._events) + len(self._foreign)

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest that is here came into its log."""
        came = (held.message.time_ms for held in (*self._events[:1], *self._foreign[:1]))
        return min(came, default=None)

    def take(self, held: Held) -> None:
        (self._foreign if held.decoded is None else self._events).append(held)

    def drop(self, gone: Callable[[Partition], bool]) -> None:
        """What is of partitions that are others' now."""
        self._events = [held for held in self._events if not gone(held.message.partition)]
        self._foreign = [held for held in self._foreign if not gone(held.message.partition)]
        self.finished = [message for message in self.finished if not gone(message.partition)]

    async def offer(self, most: int, holds: Callable[[Message], bool]) -> int:
        """A page of events, in their order; how many. Those whose lease is in doubt wait (rule 5)."""
        page = [held for held in self._events[: min(most, PAGE)] if holds(held.message)]
        if not page:
            return 0
        try:
            await self._store.pulled.offer([self._offered(held) for held in page])
        except StaleOwner:
            self._give_up(holds)
            return 0
        self.finished += [held.message for held in page]
        offered = set(map(id, page))
        self._events = [held for held in self._events if id(held) not in offered]
        return len(page)

    async def bury(self, holds: Callable[[Message], bool]) -> None:
        """Records that are no events (``on_foreign: dead_letter``), the copy before the letter."""
        while self._foreign and holds(self._foreign[0].message):
            held = self._foreign[0]
            letter = self._letter(held)
            if self._topic is not None and not held.copied:
                await self._topic.put([letter])
                held.copied = True  # a store that is full is asked again and again
            try:
                await self._store.letters.add(letter)
            except StaleOwner:
                self._give_up(holds)
                return
            self._buried(FOREIGN)
            self.finished.append(held.message)
            self._foreign.remove(held)

    async def bury_worn_out(self, most: int) -> int:
        """What was handed out so often, and never acknowledged; how many."""
        rows = await self._store.pulled.worn_out(
            self._subscription.id, most_deliveries=most, now_ms=self._now_ms()
        )
        detail = f"handed out {most} times and never acknowledged"
        for row in rows:
            fate = await self._burial.bury([row], MAX_DELIVERIES, detail)
            if fate[row.token]:
                self._buried(MAX_DELIVERIES)
        return len(rows)

    async def offer_again(self, epochs: Mapping[Partition, int], most: int) -> int:
        """What was redriven from the dead letters: whatever it is, its order is past. How many."""
        now_ms = self._now_ms()
        parked = await self._store.parked.redriven(
            self._subscription.id,
            self._subscription.source.broker,
            list(epochs),
            now_ms=now_ms,
            limit=min(most, PAGE),
        )
        ours = [_under(row, epochs[row.message.partition]) for row in parked]
        if ours:
            rows = [self._row(row.message, row.lane, row.event) for row in ours]
            await self._store.pulled.offer(rows)
            await self._store.parked.unpark(ours)
        return len(ours)

    async def offer_range(self, page: Sequence[Held]) -> None:
        """Of a replay: nothing of it is settled with the group."""
        if page:
            await self._store.pulled.offer([self._offered(held) for held in page])

    def _buried(self, cause: str) -> None:
        self._attempts.buried(cause)
        self._notify(DEAD_LETTERED, self._subscription.id, {"cause": cause})

    def _give_up(self, holds: Callable[[Message], bool]) -> None:
        """The store knows a newer owner. Where the log says so too, the messages are its affair."""
        held = (*self._events, *self._foreign)
        gone = {each.message.partition for each in held if not holds(each.message)}
        if not gone:
            raise StaleOwner(f"{self._subscription.id}: the store and the log differ on an owner")
        self.drop(gone.__contains__)

    def _offered(self, held: Held) -> Offered:
        return self._row(held.message, held.lane, _name_of(held))

    def _row(self, message: Message, lane: bytes, event: EventName) -> Offered:
        return Offered(
            subscription=self._subscription.id,
            broker=self._subscription.source.broker,
            message=message,
            lane=lane,
            event=event,
            at_ms=self._now_ms(),
        )

    def _letter(self, held: Held) -> DeadLetter:
        return DeadLetter(
            subscription=self._subscription.id,
            broker=self._subscription.source.broker,
            message=held.message,
            cause=FOREIGN,
            detail=held.foreign,
            attempts=0,
            status=None,
            at_ms=self._now_ms(),
            lane=held.lane,
            event=_name_of(held),
        )

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)


def _name_of(held: Held) -> EventName:
    of = {} if held.decoded is None else held.decoded.event.attributes
    return EventName(of.get("id", ""), of.get("source", ""), of.get("type", ""))


def _under(row: Parked, epoch: int) -> Parked:
    """As whoever owns the partition now writes it."""
    return replace(row, message=replace(row.message, epoch=epoch))
