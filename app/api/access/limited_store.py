"""The store, limited to the subscriptions that a caller may access. Lists and counts leave out all others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec.structs import replace

from app.api.access.limited_view import LimitedView, reachable
from app.api.access.reach import Reach
from app.interfaces import (
    Attempt,
    AttemptFilter,
    DeadLetterFilter,
    Parked,
    ParkedCount,
    ParkedKey,
    PullMessage,
    QueueCount,
    Store,
)


class StoreWithin(LimitedView):
    """A store whose dead letters, parked messages, attempts and pull queues are limited to the caller's
    subscriptions. Other tables are read by the id of one subscription, and ``demand_path`` has checked
    this id."""

    def __init__(self, whole: Store, reach: Reach) -> None:
        super().__init__(whole, reach)
        self.letters = LettersWithin(whole.letters, reach)
        self.parked = ParkedWithin(whole.parked, reach)
        self.attempts = AttemptsWithin(whole.attempts, reach)
        self.pulled = PulledWithin(whole.pulled, reach)


def _limited_method(verb: str, nothing: Callable[[], Any]) -> Any:
    """Return a method of ``LettersWithin`` that acts only on dead letters of subscriptions that the caller
    may access.

    Args:
        verb: The method of the whole store to call.
        nothing: A function that makes the answer if the caller may access none of the chosen subscriptions.
    """

    async def asked(
        self: LettersWithin, choice: DeadLetterFilter, *more: Any, **others: Any
    ) -> Any:
        narrowed = await self._narrowed(choice)
        if narrowed is None:
            return nothing()
        return await getattr(self._whole, verb)(narrowed, *more, **others)

    return asked


class LettersWithin(LimitedView):
    """The dead letters of the subscriptions that the caller may access."""

    find = _limited_method("find", list)
    count = _limited_method("count", dict)
    count_over_time = _limited_method("count_over_time", dict)
    discard = _limited_method("discard", int)
    redrive = _limited_method("redrive", int)

    async def _narrowed(self, choice: DeadLetterFilter) -> DeadLetterFilter | None:
        """Return the filter limited to subscriptions that the caller may access, or None if there are none.

        Raises:
            OutsideBinding: The filter names a subscription that the caller may not access, directly or by the
                id of one dead letter.
        """
        self._reach.demand_subscriptions(
            *choice.subscriptions, *filter(None, [choice.subscription])
        )
        if choice.subscriptions or choice.subscription:
            named = choice.subscriptions or (choice.subscription,)
        else:
            named = tuple({name for name, _ in await self._whole.count(choice)})
            if len(choice.ids) == 1:
                self._reach.demand_subscriptions(*named)
        within = tuple(name for name in named if name and self._reach.subscription(name))
        return replace(choice, subscriptions=within) if within else None


class ParkedWithin(LimitedView):
    """The parked messages of the subscriptions that the caller may access."""

    async def count(self) -> Mapping[str, ParkedCount]:
        found = await self._whole.count()
        return {name: each for name, each in found.items() if self._reach.subscription(name)}

    async def find(
        self,
        subscription: str | None = None,
        limit: int = 100,
        after: int = 0,
        event_id: str | None = None,
    ) -> list[Parked]:
        found: list[Parked] = []
        for name in await self._names(subscription):
            found += await self._whole.find(name, limit, after, event_id)
        return sorted(found, key=lambda each: each.id)[:limit]

    async def keys(self, subscription: str | None = None, limit: int = 100) -> list[ParkedKey]:
        found: list[ParkedKey] = []
        for name in await self._names(subscription):
            found += await self._whole.keys(name, limit)
        return sorted(found, key=lambda each: each.oldest.id)[:limit]

    async def _names(self, subscription: str | None) -> Collection[str]:
        if subscription is None:
            return await self.count()
        self._reach.demand_subscriptions(subscription)
        return [subscription] if self._reach.subscription(subscription) else ()


class AttemptsWithin(LimitedView):
    """The delivery attempts of the subscriptions that the caller may access."""

    async def find(self, choice: AttemptFilter, limit: int = 100) -> list[Attempt]:
        if choice.subscription is not None:
            self._reach.demand_subscriptions(choice.subscription)
        named = [choice.subscription] if choice.subscription else self._reach.known
        within = tuple(filter(self._reach.subscription, named))
        if not within:
            return []
        found: list[Attempt] = await self._whole.find(replace(choice, subscriptions=within), limit)
        return found


class PulledWithin(LimitedView):
    """The pull queues of the subscriptions that the caller may access."""

    async def count_all(self) -> Mapping[str, QueueCount]:
        found: Mapping[str, QueueCount] = await self._whole.count_all()
        return {name: each for name, each in found.items() if self._reach.subscription(name)}

    async def named(self, event_id: str, most: int) -> list[PullMessage]:
        return reachable(self._reach, await self._whole.named(event_id, most))
