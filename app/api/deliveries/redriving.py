"""Redrive dead letters: deliver them to their subscriptions again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from app.api.asked.routes import Routes
from app.api.asked.subscriptions import Subscriptions
from app.api.deliveries import views
from app.api.http.moments import now_ms
from app.api.http.problems import RequestRefused
from app.interfaces import DeadLetterFilter, Store
from app.model.spool import drained_route
from app.model.subscription_status import PAUSED_BY_CONFIGURATION

NO_SUBSCRIPTION = "the subscription does not exist. Create it again, or discard its letters"


class Redriver:
    """A service that redrives dead letters of the store."""

    def __init__(self, store: Store, subscriptions: Subscriptions, routes: Routes) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._routes = routes

    async def redrive(
        self, choice: DeadLetterFilter, *, rate: float, limit: int, dry_run: bool
    ) -> views.Redriven:
        """Redrive the oldest dead letters that match, one subscription after the other, at most ``limit`` in
        total.

        Raises:
            Refused: 409 if the choice names a subscription that does not exist. Its dead letters would wait
                for ever.
        """
        found = await self._store.letters.count(choice)
        known = {each.id: each.paused for each in await self._subscriptions.declared()}
        gone = [name for name in choice.subscriptions if not self._exists(name, known)]
        if gone:
            raise RequestRefused(
                409, "no-such-subscription", f"{', '.join(gone)}: {NO_SUBSCRIPTION}"
            )
        at_ms = now_ms(self._store.clock)
        totals: Counter[str] = Counter()
        for (subscription, _), count in found.items():
            totals[subscription] += count
        able = [name for name in sorted(totals) if self._exists(name, known)]
        moved = 0 if dry_run else await self._redrive_each(choice, able, rate=rate, limit=limit)
        return views.Redriven(
            dry_run=dry_run,
            at_ms=at_ms,
            matched=totals.total(),
            redriven=moved,
            left=max(0, sum(totals[name] for name in able) - moved),
            counts=views.counts(found),
            skipped=[
                views.Skipped(subscription=name, count=count, why=NO_SUBSCRIPTION)
                for name, count in sorted(totals.items())
                if name not in able
            ],
            waiting=await self._halted(able, known),
        )

    def _exists(self, subscription: str, known: Collection[str]) -> bool:
        """Return True if a user declared the subscription, or if it is the internal subscription of a route's
        spool."""
        spooling = {route.name for route in self._routes.routes if route.spool is not None}
        return subscription in known or drained_route(subscription) in spooling

    async def _redrive_each(
        self, choice: DeadLetterFilter, able: Sequence[str], *, rate: float, limit: int
    ) -> int:
        """Redrive matching dead letters of these subscriptions. Return their number."""
        moved = 0
        for name in able:
            if moved < limit:
                moved += await self._store.letters.redrive(
                    replace(choice, subscription=name),
                    rate=rate,
                    now_ms=now_ms(self._store.clock),
                    limit=limit - moved,
                )
        return moved

    async def _halted(self, able: Sequence[str], paused: Mapping[str, bool]) -> dict[str, str]:
        """Return those of these subscriptions that deliver nothing now, each with the reason, by id."""
        halts = await self._store.halts.all()
        why = {name: PAUSED_BY_CONFIGURATION for name in able if paused.get(name)}
        for name in able:
            if name in halts:
                why[name] = f"{halts[name].kind}: {halts[name].cause}"
        return why
