"""A running service, looked at: each function asks what it must and shapes one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from app import __version__
from app.access.caller import Tally
from app.api import answers
from app.api.answers import Standing
from app.api.attention import attention
from app.api.metrics import HISTOGRAMS, Snapshot, by_broker
from app.api.running import Counts, Entry, Running
from app.api.shown import Shown
from app.errors import StoreUnavailable
from app.interfaces import LetterChoice
from app.model.metadata import GroupLag, Health
from app.model.route import Route
from app.model.subscription_status import SubscriptionStatus
from app.telemetry.filter_errors import COUNTER

SenderT = TypeVar("SenderT", answers.ProducerView, answers.IntakeView)
StandingT = TypeVar("StandingT", bound=Standing)


async def readiness(running: Running, only: str | None = None) -> answers.Readiness:
    """Of all roles, or of one; one that is not run here is not ready here."""
    roles = {
        role: state for role, state in (await running.readiness()).items() if only in {None, role}
    }
    if only is not None and only not in roles:
        cause = f"this process does not run the role {only}: see --role"
        roles[only] = answers.RoleReadiness(ready=False, causes=[cause])
    return answers.Readiness(ready=all(each.ready for each in roles.values()), roles=roles)


async def status(running: Running, shown: Shown) -> answers.Status:
    totals = by_broker(running.counters.values())
    fares = await readiness(running)
    found = answers.Status.of(
        running,
        version=__version__,
        ready=fares.ready,
        readiness=fares.roles,
        attention=[],
        disks=await running.disks(),
        uptime_seconds=round(running.clock.monotonic() - running.started_at, 3),
        routes=_routes(running.routes, totals),
        brokers=await _brokers(running),
        store=await _store(running),
        subscriptions=await _views(running, running.subscriptions(), shown),
        counters={
            name: {",".join(labels): count for labels, count in series.items()}
            for name, series in totals.items()
            if name not in HISTOGRAMS
        },
        producers=[
            _sender(answers.ProducerView, name, each.tally, running.clock.monotonic())
            for name, each in running.producers.callers.items()
        ],
        intakes=[
            _sender(answers.IntakeView, name, each, running.clock.monotonic())
            for name, each in running.intakes().items()
        ],
        kafka_listeners=running.kafka_listeners(),
        spools=await running.spools(),
        configuration=running.configured,
    )
    return found.model_copy(update={"attention": list(attention(found))})


async def snapshot(running: Running) -> Snapshot:
    return Snapshot(
        counters=running.counters,
        roles=await running.readiness(),
        brokers=await _brokers(running),
        subscriptions=running.subscriptions(),
        lag=await running.lag(),
        dead_letters=await _dead_letters(running),
        parked=await _parked(running),
        kafka_listeners=running.kafka_listeners(),
        disks=await running.disks(),
        spools=await running.spools(),
        certificates=await running.certificates(),
        configured=running.configured,
    )


def _sender(view: type[SenderT], name: str, tally: Tally, now: float) -> SenderT:
    return view(
        name=name,
        events=tally.events,
        refused=tally.refused,
        events_per_second=round(tally.rate(now), 3),
        last_event_seconds=None if tally.last is None else round(now - tally.last, 3),
    )


def _filter_errors(counts: Counts) -> Mapping[tuple[str, ...], int]:
    """By ``route`` or ``subscription`` and its name."""
    return counts.get(COUNTER, {})


Grouped = Mapping[str, Mapping[str, int]]
"""A counter by its first label, then by its last."""


def _grouped(counts: Counts, counter: str) -> Grouped:
    """In one pass: there may be a thousand subscriptions, each with its series."""
    found: dict[str, dict[str, int]] = {}
    for (first, *_, last), count in counts.get(counter, {}).items():
        of_first = found.setdefault(first, {})
        of_first[last] = of_first.get(last, 0) + count
    return found


def _routes(routes: Sequence[Route], counts: Counts) -> list[answers.RouteView]:
    stored, unstored = (
        _grouped(counts, each) for each in ("events_published", "events_unpublished")
    )
    failed = _filter_errors(counts)
    return [_route(each, stored, unstored, failed) for each in routes]


def _route(
    each: Route, stored: Grouped, unstored: Grouped, failed: Mapping[tuple[str, ...], int]
) -> answers.RouteView:
    return answers.RouteView.of(
        each,
        to=[answers.TargetView(broker=target.broker, topic=target.place) for target in each.to],
        key=each.key.mapper,
        events=sum(stored.get(each.name, {}).values()),
        unpublished=sum(unstored.get(each.name, {}).values()),
        filter_errors=failed.get(("route", each.name), 0),
    )


async def _views(
    running: Running, states: Sequence[SubscriptionStatus], shown: Shown
) -> list[answers.SubscriptionView]:
    """How each of these fares."""
    if not states:
        return []
    counts = running.counters.values()
    now = _Now(
        lag=await running.lag(),
        dead=await _dead_letters(running),
        parked=await _parked(running),
        failed=_filter_errors(counts),
        delivered=_grouped(counts, "deliveries"),
        answered=_grouped(counts, "answers"),
        brokers=await _brokers(running),
        shown=shown,
    )
    return [_subscription(each, now) for each in states]


class _Now(NamedTuple):
    """What is asked once for all subscriptions."""

    lag: Sequence[GroupLag]
    dead: Mapping[tuple[str, str], int]
    parked: Mapping[str, answers.ParkedOfSubscription]
    failed: Mapping[tuple[str, ...], int]
    delivered: Grouped
    answered: Grouped
    brokers: Mapping[str, Health]
    shown: Shown


_UNKNOWN = Health(healthy=False, cause="the configuration has no such broker")


def _subscription(state: SubscriptionStatus, now: _Now) -> answers.SubscriptionView:
    return answers.SubscriptionView.of(
        state,
        broker_health=now.brokers.get(state.broker, _UNKNOWN),
        partitions=list(map(str, state.partitions)),
        last_error=now.shown.text(state.last_error),
        lag=_lag_of(state.group, now.lag),
        parked=now.parked.get(state.id, answers.ParkedOfSubscription()),
        dead_letters={
            cause: count for (owner, cause), count in now.dead.items() if owner == state.id
        },
        delivered=now.delivered.get(state.id, {}).get("delivered", 0),
        answers=now.answered.get(state.id, {}),
        filter_errors=now.failed.get(("subscription", state.id), 0),
    )


async def standings(
    running: Running, entries: Sequence[Entry], kind: type[StandingT], shown: Shown
) -> list[StandingT]:
    """How each of these fares."""
    found = await _views(running, running.states(entries), shown)
    return [kind.of(each, health=health) for each, health in zip(entries, found, strict=True)]


async def standing(running: Running, entry: Entry, shown: Shown) -> Standing:
    (found,) = await standings(running, [entry], Standing, shown)
    return found


def _lag_of(group: str, lag: Sequence[GroupLag]) -> int | None:
    """None where one of its partitions cannot be asked: a part of the truth would mislead."""
    each = [entry.lag for entry in lag if entry.group == group]
    known = [count for count in each if count is not None]
    return sum(known) if known and len(known) == len(each) else None


async def _brokers(running: Running) -> dict[str, Health]:
    return {name: await log.health() for name, log in running.logs.items()}


async def _store(running: Running) -> Health:
    if running.store is None:
        return Health(healthy=True)
    return await running.store.health()


async def _dead_letters(running: Running) -> Mapping[tuple[str, str], int]:
    """Nothing where the store cannot be asked: the rest of the status must be seen all the same."""
    if running.store is None:
        return {}
    try:
        return await running.store.letters.count(LetterChoice())
    except StoreUnavailable:
        return {}


async def _parked(running: Running) -> Mapping[str, answers.ParkedOfSubscription]:
    """As ``_dead_letters``."""
    if running.store is None:
        return {}
    try:
        found = await running.store.parked.count()
    except StoreUnavailable:
        return {}
    now = running.clock.now()
    return {
        name: answers.ParkedOfSubscription(
            rows=each.rows,
            keys=each.lanes,
            oldest_seconds=max(0.0, round(now - each.oldest_ms / 1000, 3)),
        )
        for name, each in found.items()
    }
