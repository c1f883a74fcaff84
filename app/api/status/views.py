"""The answer of ``/status``: the state of this process, and the problems that an operator must solve."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from app import __version__
from app.access.caller import EventMeter
from app.api.access.limited_parts import ReachableParts
from app.api.access.redaction import ALL, Redaction
from app.api.asked.alerts import Alerting
from app.api.asked.brokers import Brokers
from app.api.asked.process import Process
from app.api.asked.readiness import ReadinessSource
from app.api.asked.registry import Registry, SubscriptionEntry
from app.api.asked.routes import KnownProducers, Routes
from app.api.asked.subscriptions import Subscriptions
from app.api.http.slices import Slices
from app.api.http.views import Attention
from app.api.status.answers import (
    IntakeView,
    ProducerView,
    RouteView,
    Status,
    TargetView,
)
from app.api.status.asked import IntakeTallies, KafkaListeners, Spools, Volumes
from app.api.status.attention import attention, with_attention
from app.api.status.configured import CurrentConfiguration
from app.api.status.metrics import HISTOGRAMS, Counts
from app.api.status.probes import readiness
from app.api.subscriptions.answers import SubscriptionView
from app.api.subscriptions.standings import (
    GroupedCounter,
    SubscriptionStatusReader,
    brokers_of,
    filter_errors,
    grouped,
)
from app.delivery.subscription_verdicts import SubscriptionFacts
from app.errors import StoreUnavailable
from app.interfaces import Clock, Store
from app.model.operator_verdict import OperatorVerdict
from app.model.route import Route
from app.telemetry import Counters

SenderT = TypeVar("SenderT", ProducerView, IntakeView)


async def status(parts: ReachableParts, shown: Redaction) -> msgspec.Raw:
    """Return the status as JSON. Its subscriptions are created and encoded in slices."""
    slices = Slices()
    found = await read_status(parts, shown, slices)
    rows = await slices.array(found.subscriptions)
    members = found.model_copy(update={"subscriptions": []}).model_dump(mode="json")
    return msgspec.Raw(msgspec.json.encode({**members, "subscriptions": rows}))


class JudgedStatus(NamedTuple):
    """A status, and the verdicts on what needs a person, the gravest first."""

    status: Status
    verdicts: Sequence[OperatorVerdict]


async def whole_status(parts: ReachableParts) -> JudgedStatus:
    """Return the status and its verdicts, for the process itself."""
    return await _judged_status(parts, ALL, Slices())


async def read_status(parts: ReachableParts, shown: Redaction, slices: Slices) -> Status:
    """Return the status with everything that needs a person."""
    found, verdicts = await _judged_status(parts, shown, slices)
    readiness = {
        role: with_attention(role, state, verdicts) for role, state in found.readiness.items()
    }
    needs = list(map(Attention.of, verdicts))
    return found.model_copy(update={"attention": needs, "readiness": readiness})


async def _judged_status(parts: ReachableParts, shown: Redaction, slices: Slices) -> JudgedStatus:
    subscriptions = parts.of(Subscriptions)
    standings = SubscriptionStatusReader(
        subscriptions,
        parts.of(Brokers).logs,
        parts.of(Store),
        parts.of(Counters),
        shown,
    )
    views = await standings.views(await subscriptions.statuses(), slices)
    found = await _status(parts, views)
    letters, entries = await standings.letters(), await _entries(parts.of(Registry))
    verdicts = attention(
        found,
        reloaded=_reloaded(parts.of(CurrentConfiguration), parts.of(Clock)),
        deleted=_deleted(letters, entries),
        broken=_broken(entries or (), {each.id for each in views}),
    )
    return JudgedStatus(found, verdicts)


def _reloaded(configured: CurrentConfiguration, clock: Clock) -> float | None:
    """Return the seconds since the last reload that changed something, or None if there was none."""
    taken = configured.taken
    changed = taken.cause != "start" and taken.outcome == "ok"
    return clock.monotonic() - configured.taken_at if changed else None


async def _entries(registry: Registry) -> Sequence[SubscriptionEntry] | None:
    """Return all subscriptions, or None if the store does not answer."""
    try:
        return await registry.entries()
    except StoreUnavailable:
        return None


def _deleted(
    letters: Mapping[str, Mapping[str, int]] | None, entries: Sequence[SubscriptionEntry] | None
) -> Mapping[str, Mapping[str, int]]:
    """Return the dead letters of subscriptions that do not exist. Return none if the subscriptions are unknown,
    because an operator would discard the dead letters of existing ones."""
    if letters is None or entries is None:
        return {}
    names = {each.id for each in entries}
    return {name: each for name, each in letters.items() if name not in names}


def _broken(
    entries: Sequence[SubscriptionEntry], running: Collection[str]
) -> Iterator[SubscriptionFacts]:
    """Yield the facts about subscriptions that cannot run and that no worker reports."""
    for each in entries:
        if each.faults and each.id not in running:
            yield SubscriptionFacts(id=each.id, state="broken", cause="; ".join(each.faults))


async def _status(parts: ReachableParts, subscriptions: Sequence[SubscriptionView]) -> Status:
    """Return the status with these subscriptions."""
    totals = parts.of(Counters).values()
    process, now = parts.of(Process), parts.of(Clock).monotonic()
    probe = await readiness(parts.of(ReadinessSource))
    return Status.of(
        process,
        version=__version__,
        ready=probe.ready,
        readiness=probe.roles,
        attention=[],
        disks=await parts.of(Volumes).disks(),
        uptime_seconds=round(now - process.started_at, 3),
        routes=_routes(parts.of(Routes).routes, totals),
        brokers=await brokers_of(parts.of(Brokers).logs),
        store=await parts.of(Store).health(),
        subscriptions=subscriptions,
        counters={
            name: {",".join(labels): count for labels, count in series.items()}
            for name, series in totals.items()
            if name not in HISTOGRAMS
        },
        producers=[
            _sender(ProducerView, name, each.tally, now)
            for name, each in parts.of(KnownProducers).callers.items()
        ],
        intakes=[
            _sender(IntakeView, name, each, now)
            for name, each in parts.of(IntakeTallies).tallies().items()
        ],
        kafka_listeners=parts.of(KafkaListeners).views(),
        spools=await parts.of(Spools).states(),
        alerts=list(parts.of(Alerting).views()),
        configuration=parts.of(CurrentConfiguration),
    )


def _sender(view: type[SenderT], name: str, tally: EventMeter, now: float) -> SenderT:
    """Return the answer for one producer or intake."""
    return view(
        name=name,
        events=tally.events,
        refused=tally.refused,
        events_per_second=round(tally.rate(now), 3),
        last_event_seconds=None if tally.last is None else round(now - tally.last, 3),
    )


def _routes(routes: Sequence[Route], counts: Counts) -> list[RouteView]:
    """Return the answer for each route."""
    stored, unstored = (
        grouped(counts, each) for each in ("events_published", "events_unpublished")
    )
    failed = filter_errors(counts)
    return [_route(each, stored, unstored, failed) for each in routes]


def _route(
    each: Route,
    stored: GroupedCounter,
    unstored: GroupedCounter,
    failed: Mapping[tuple[str, ...], int],
) -> RouteView:
    return RouteView.of(
        each,
        to=[TargetView(broker=target.broker, topic=target.place) for target in each.to],
        key=each.key.mapper,
        events=sum(stored.get(each.name, {}).values()),
        unpublished=sum(unstored.get(each.name, {}).values()),
        filter_errors=failed.get(("route", each.name), 0),
    )
