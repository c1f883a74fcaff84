"""Dead letters back to their subscription: what is found, what can go, and what would wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from app.api import kept_views
from app.api.delivery_answers import Redriven, Skipped
from app.api.problems import Refused
from app.api.running import Running
from app.interfaces import LetterChoice, Store

NOBODY = "there is no such subscription: make it again, or discard its letters"


async def redrive(
    running: Running, store: Store, choice: LetterChoice, *, rate: float, limit: int, dry_run: bool
) -> Redriven:
    """The oldest ``limit`` of each subscription's share, one subscription after the other. Raises Refused
    for a subscription that was named and is not there: its rows would wait for ever."""
    known = {each.id: each.paused for each in await running.declared()}
    if choice.subscription is not None and choice.subscription not in known:
        raise Refused(409, "no-such-subscription", f"{choice.subscription}: {NOBODY}")
    now_ms = int(running.clock.now() * 1000)
    found = await store.letters.count(choice)
    totals: Counter[str] = Counter()
    for (subscription, _), count in found.items():
        totals[subscription] += count
    able = [name for name in sorted(totals) if name in known]
    moved = 0 if dry_run else await _move(running, store, choice, able, rate=rate, limit=limit)
    return Redriven(
        dry_run=dry_run,
        at_ms=now_ms,
        matched=totals.total(),
        redriven=moved,
        left=max(0, sum(totals[name] for name in able) - moved),
        counts=kept_views.counts(found),
        skipped=[
            Skipped(subscription=name, count=count, why=NOBODY)
            for name, count in sorted(totals.items())
            if name not in known
        ],
        waiting=await _waiting(store, able, known),
    )


async def _move(
    running: Running,
    store: Store,
    choice: LetterChoice,
    able: Sequence[str],
    *,
    rate: float,
    limit: int,
) -> int:
    moved = 0
    for name in able:
        if moved < limit:
            moved += await store.letters.redrive(
                replace(choice, subscription=name),
                rate=rate,
                now_ms=int(running.clock.now() * 1000),
                limit=limit - moved,
            )
    return moved


async def _waiting(store: Store, able: Sequence[str], paused: Mapping[str, bool]) -> dict[str, str]:
    halts = await store.halts.all()
    why = {name: "paused by its configuration" for name in able if paused[name]}
    for name in able:
        if name in halts:
            why[name] = f"{halts[name].kind}: {halts[name].cause}"
    return why
