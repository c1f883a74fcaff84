"""A running service, looked at: each function asks what it must and shapes one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from app import __version__
from app.access.caller import Tally
from app.api import answers
from app.api.access.redaction import Shown
from app.api.answers import Standing
from app.api.http.slices import ROW, Slices
from app.api.metrics import HISTOGRAMS
from app.api.running import Counts, Entry, Running
from app.api.snapshot import brokers_of, letters_of, parked_of
from app.api.status.attention import attention
from app.api.status.probes import readiness
from app.model.metadata import GroupLag, Health
from app.model.route import Route
from app.model.subscription_status import SubscriptionStatus
from app.telemetry.filter_errors import COUNTER

SenderT = TypeVar("SenderT", answers.ProducerView, answers.IntakeView)
StandingT = TypeVar("StandingT", bound=Standing)


async def status(running: Running, shown: Shown) -> msgspec.Raw:
    """Return the status as JSON. Its subscriptions are made and encoded in slices."""
    slices = Slices()
    subscriptions = await _views(running, await running.subscriptions(), shown, slices)
    found = await _status(running, subscriptions)
    rows = await slices.rows(found.subscriptions, lambda each: each)
    members = found.model_copy(update={"subscriptions": []}).model_dump(mode="json")
    return msgspec.Raw(msgspec.json.encode({**members, "subscriptions": rows}))


async def _status(
    running: Running, subscriptions: Sequence[answers.SubscriptionView]
) -> answers.Status:
    totals = running.counters.values()
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
        brokers=await brokers_of(running),
        store=await _store(running),
        subscriptions=subscriptions,
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
    running: Running, states: Sequence[SubscriptionStatus], shown: Shown, slices: Slices
) -> list[answers.SubscriptionView]:
    """How each of these fares."""
    if not states:
        return []
    counts = running.counters.values()
    now = _Now(
        lag=_by_group(await running.lag()),
        dead=_by_owner(await letters_of(running)),
        parked=await parked_of(running),
        failed=_filter_errors(counts),
        delivered=_grouped(counts, "deliveries"),
        answered=_grouped(counts, "answers"),
        brokers=await brokers_of(running),
        shown=shown,
    )
    return await slices.each((_subscription(each, now) for each in states), ROW)


class _Now(NamedTuple):
    """What is asked once for all subscriptions."""

    lag: Mapping[str, Sequence[int | None]]
    dead: Mapping[str, Mapping[str, int]]
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
        lag=_lag_of(now.lag.get(state.group, ())),
        parked=now.parked.get(state.id, answers.ParkedOfSubscription()),
        dead_letters=now.dead.get(state.id, {}),
        delivered=now.delivered.get(state.id, {}).get("delivered", 0),
        answers=now.answered.get(state.id, {}),
        filter_errors=now.failed.get(("subscription", state.id), 0),
    )


async def standings(
    running: Running,
    entries: Sequence[Entry],
    states: Sequence[SubscriptionStatus],
    kind: type[StandingT],
    shown: Shown,
    slices: Slices,
) -> list[StandingT]:
    """Return the status of each. ``states``: of each, as ``running`` knows them."""
    found = await _views(running, states, shown, slices)
    pairs = zip(entries, found, strict=True)
    return await slices.each((kind.of(each, health=health) for each, health in pairs), ROW)


async def standing(running: Running, entry: Entry, shown: Shown) -> Standing:
    states = await running.states([entry])
    (found,) = await standings(running, [entry], states, Standing, shown, Slices())
    return found


def _by_group(lag: Sequence[GroupLag]) -> Mapping[str, Sequence[int | None]]:
    found: dict[str, list[int | None]] = {}
    for each in lag:
        found.setdefault(each.group, []).append(each.lag)
    return found


def _by_owner(letters: Mapping[tuple[str, str], int]) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (owner, cause), count in letters.items():
        found.setdefault(owner, {})[cause] = count
    return found


def _lag_of(partitions: Sequence[int | None]) -> int | None:
    """Return None where one of the partitions cannot be asked: a part of the truth would mislead."""
    known = [count for count in partitions if count is not None]
    return sum(known) if known and len(known) == len(partitions) else None


async def _store(running: Running) -> Health:
    if running.store is None:
        return Health(healthy=True)
    return await running.store.health()
