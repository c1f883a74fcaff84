"""The subscriptions that this process runs, and the status of all subscriptions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from app.api.asked.registry import SubscriptionEntry
from app.api.http.slices import ROW, Slices
from app.api.status.families import Family, subscription_families
from app.config.diff.difference import rebuilds
from app.config.model.config import Config
from app.delivery.lag_trend import LagGrowth, LagTrend
from app.features.brokers.component import BrokersComponent
from app.features.brokers.targets import Faults
from app.features.component import (
    WELL,
    Component,
    ComponentHealth,
    ConfigChange,
    Role,
    stop_if_start_fails,
)
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.features.subscriptions.sinks import SinkFactory, SinkFor
from app.features.subscriptions.store_watcher import StoreWatcher
from app.interfaces import Attempt, Clock, Halt, WaitingEvent
from app.model.cause import Cause, subscription_subject
from app.model.metadata import Lags
from app.model.pull import Pull
from app.model.route import Exchange, Target, routes_taking
from app.model.spool import group_name
from app.model.state_word import state_clause
from app.model.subscription import IGNORE, Subscription
from app.model.subscription_status import PAUSED_BY_CONFIGURATION, SubscriptionStatus
from app.routing.places import fixed_place, is_fixed
from app.worker.gate import disabled_message, halt_cause
from app.worker.supervisor import Supervisor

RECENT = 100  # attempts that are searched for the last error
RETIRED_WITHIN = 15.0  # seconds that a reload waits for the subscriptions that it ends

_log = logging.getLogger(__name__)


class PreparedDeliveries(NamedTuple):
    """The factory of sinks for another configuration, and the change to that configuration."""

    sink_for: SinkFor
    change: ConfigChange


class SubscriptionsComponent(Component[PreparedDeliveries]):
    """The component that delivers the events of subscriptions if this process is a worker. In any role, it
    knows all subscriptions."""

    name = "subscriptions"

    def __init__(
        self,
        catalog: SubscriptionCatalog,
        brokers: BrokersComponent,
        supervisor: Supervisor | None,
        sinks: SinkFactory,
        watcher: StoreWatcher,
        clock: Clock,
    ) -> None:
        """Take the parts of the component. ``supervisor`` is None if the process is not a worker."""
        self._clock = clock
        self._trends: dict[str, LagTrend] = {}
        self.supervisor = supervisor
        self._catalog = catalog
        self._brokers = brokers
        self.sinks = sinks
        self._watcher = watcher
        self._ending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        async with stop_if_start_fails(self):
            if self.supervisor is not None:
                await self.supervisor.start()
            await self._watcher.start()

    async def stop(self, drain: float) -> None:
        """Stop applying changes, then end the deliveries."""
        await self._watcher.stop()
        if self.supervisor is not None:
            await self.supervisor.stop(drain)

    async def prepare(self, change: ConfigChange) -> PreparedDeliveries:
        """Create each changed sink once as a test. A file that cannot be read then makes the reload fail,
        instead of breaking the subscription later."""
        sink_for = self.sinks.of(change.config)
        if self.supervisor is not None:
            await _try_sinks(sink_for, change)
        return PreparedDeliveries(sink_for, change)

    def apply(self, prepared: PreparedDeliveries) -> None:
        change = prepared.change
        if self.supervisor is not None:
            every = self._catalog.subscriptions
            touched = [each.id for each in every if _needs_new_sink(change, each)]
            self.supervisor.renew(prepared.sink_for, touched, budget_of(change.config))
        self._ending = self._watcher.renew()

    async def retire(self) -> None:
        if self._ending is None:
            return
        _, left = await asyncio.wait((self._ending,), timeout=RETIRED_WITHIN)
        if left:
            _log.warning("changed subscriptions are still ending and will restart")

    async def look(self) -> None:
        """Apply the current content of the store now."""
        await self._watcher.look()

    async def groups_joined(self, broker: str) -> None:
        """Wait until the subscriptions of a log have joined their groups, or have ended."""
        if self.supervisor is not None:
            await self.supervisor.taken(broker)

    async def health(self, role: Role) -> ComponentHealth:
        """Return the health for the worker. It is ready if each subscription has started and each mirror has
        its topic. Problems of single subscriptions are listed among the causes."""
        if role != "worker":
            return WELL
        ready, causes = _health_of_subscriptions(await self.statuses())
        mirrored, missing = _health_of_sinks(
            self._catalog.subscriptions, await self._brokers.faults()
        )
        broken = [
            _cause(each.id, f" is broken: {'; '.join(each.faults)}")
            for each in self._catalog.broken()
        ]  # a broken subscription does not prevent readiness
        return ComponentHealth(ready and mirrored, [*causes, *broken, *missing])

    async def metrics(self) -> Sequence[Family]:
        return list(subscription_families(await self.statuses(), await self.lag()))

    async def statuses(self) -> Sequence[SubscriptionStatus]:
        """Return the status of each subscription that this process runs."""
        return await self._running(None)

    async def states(self, entries: Sequence[SubscriptionEntry]) -> list[SubscriptionStatus]:
        """Return one status for each entry. It is ``broken`` if the subscription cannot run, and
        ``elsewhere`` if another process runs it."""
        here = {each.id: each for each in await self._running({each.id for each in entries})}
        return [here.get(each.id) or self._status_elsewhere(each) for each in entries]

    def attempts(self, subscription: str | None, limit: int) -> Iterable[Attempt]:
        """Return delivery attempts that this process remembers, the newest first. ``subscription`` is an id,
        or None for all subscriptions."""
        return () if self.supervisor is None else self.supervisor.remembered(subscription, limit)

    def waiting(self, subscription: str | None, event_id: str) -> Sequence[WaitingEvent]:
        """Return events with this id that this process holds and has not yet tried to deliver."""
        return [] if self.supervisor is None else self.supervisor.waiting(subscription, event_id)

    async def declared(self) -> Sequence[Subscription]:
        """Return every declared subscription, including those that this process does not run."""
        await self._catalog.refresh()
        return self._catalog.subscriptions

    def halts(self) -> Mapping[str, Halt]:
        """Return the subscriptions that deliver nothing, each with the reason, by id. The result is that of
        the last call of ``declared``."""
        return self._catalog.halts

    async def lag(self) -> Lags:
        """Return the lag of the group of every subscription."""
        read: dict[str, dict[str, Sequence[str]]] = {}
        for each in self._catalog.subscriptions:
            source = each.source
            read.setdefault(source.broker, {})[self._group(each.id)] = source.topics
        found = await self._brokers.lag(read)
        self._note_lags(found)
        return found

    def lag_growth(self, group: str) -> LagGrowth:
        """Return how the lag of a group has grown, according to the calls of ``lag``."""
        trend = self._trends.get(group)
        return LagGrowth() if trend is None else trend.growth(self._clock.monotonic())

    def _note_lags(self, found: Lags) -> None:
        """Note the lag of each group, None if it is unknown."""
        lags, now = found.totals(), self._clock.monotonic()
        self._trends = {group: self._trends.get(group) or LagTrend() for group in lags}
        for group, lag in lags.items():
            self._trends[group].note(lag, now)

    def groups(self, broker: str, topic: str) -> Mapping[str, str]:
        """Return the groups of the subscriptions to a topic, each with the id of its subscription."""
        return {
            self._group(each.id): each.id
            for each in self._catalog.subscriptions
            if each.source.broker == broker and topic in each.source.topics
        }

    def _group(self, subscription: str) -> str:
        return group_name(self._catalog.loaded.config.installation, subscription)

    async def _running(self, names: Collection[str] | None) -> Sequence[SubscriptionStatus]:
        """Return the status of the subscriptions that this process runs. ``names`` limits the result to some
        of them."""
        supervisor = self.supervisor
        if supervisor is None:
            return ()
        wanted = {each.id for each in self._catalog.subscriptions}
        found = (
            _with_last_error(each, supervisor.attempts(each.id, RECENT))
            for each in supervisor.statuses(names)
            if each.id in wanted  # else it is being removed
        )
        return await Slices().each(found, ROW)

    def _status_elsewhere(self, entry: SubscriptionEntry) -> SubscriptionStatus:
        """Return the status of a subscription that this process does not run."""
        state, cause = self._state_elsewhere(entry)
        subscription = entry.subscription
        return SubscriptionStatus(
            id=entry.id,
            sink="" if subscription is None else subscription.sink_text,
            broker="" if subscription is None else subscription.source.broker,
            group=self._group(entry.id),
            state=state,
            cause=cause,
            queue_bound=None if subscription is None else subscription.queue_bound,
        )

    def _state_elsewhere(self, entry: SubscriptionEntry) -> tuple[str, str]:
        """Return the state and the cause of a subscription that this process does not run."""
        halt = self._catalog.halts.get(entry.id)
        if entry.faults or entry.subscription is None:
            return "broken", "; ".join(entry.faults)
        if self.supervisor is not None:
            return "starting", ""
        if halt is not None:
            return halt.kind, halt_cause(halt)
        if entry.subscription.paused:
            return "paused", PAUSED_BY_CONFIGURATION
        return "elsewhere", ""


def budget_of(config: Config) -> tuple[int, int, int]:
    """Return the arguments of ``Budget``."""
    limits = config.limits
    return limits.deliveries_in_flight, limits.held_bytes, limits.body


def _needs_new_sink(change: ConfigChange, subscription: Subscription) -> bool:
    """Return True if a change of other settings requires a new sink for the subscription. A changed schema
    file is also such a change. The route of the replies only names the file, so a comparison of settings
    does not show it."""
    routes = (
        ()
        if subscription.reply == IGNORE
        else routes_taking(change.config.routes, subscription.reply)
    )
    posts = bool(subscription.webhook_url)
    checked = change.rereads and any(route.data_schema for route in routes)
    replies = {route.name for route in routes}
    return posts and (checked or rebuilds(change.found.changes, posts=posts, replies=replies))


async def _try_sinks(sink_for: SinkFor, change: ConfigChange) -> None:
    """Create and close the sink of each changed subscription, as a test."""
    found = change.found
    named = {each.name for each in found.changes if each.setting.startswith("subscriptions.")}
    for each in change.config.subscriptions:
        is_pulled = isinstance(each.sink, Pull)  # a pull queue has no settings that could be wrong
        if not is_pulled and (each.id in named or each.id in found.restarted):
            await sink_for(each).stop()


def _health_of_subscriptions(
    subscriptions: Sequence[SubscriptionStatus],
) -> tuple[bool, list[Cause]]:
    """Return True if no subscription prevents the worker from being ready. Return also the problems of
    subscriptions."""
    causes = [_problem_of(each) for each in subscriptions if not each.ready or each.cause]
    return all(each.ready or each.state in _ASKING for each in subscriptions), causes


_ASKING = frozenset({"broken", "stopped", "disabled"})
"""States that need an operator but do not prevent readiness. A target that fails takes no process out of service."""


def _problem_of(each: SubscriptionStatus) -> Cause:
    """Return the problem of a subscription."""
    if each.state == "disabled":
        return Cause(disabled_message(each.id, each.cause), subscription_subject(each.id))
    said = f" {state_clause(each.word)}"
    return _cause(each.id, said + (f": {each.cause}" if each.cause else ""))


def _cause(subscription: str, said: str) -> Cause:
    subject = subscription_subject(subscription)
    return Cause(f"{subject}{said}", subject)


def _health_of_sinks(
    subscriptions: Sequence[Subscription], faults: Faults
) -> tuple[bool, list[Cause]]:
    """Return True if all mirrors have their topics. Return also the missing topics. A missing dead-letter
    topic is listed too, but does not make the result False, because it delays dead letters only."""
    mirrors, letters = [], []
    for each in subscriptions:
        if isinstance(each.sink, Target | Exchange) and (fault := _fault(each.sink, faults)):
            mirrors.append(_cause(each.id, f": {each.sink_text}: {fault}"))
        if each.dead_letter is not None and (fault := _fault(each.dead_letter, faults)):
            letters.append(_cause(each.id, f": dead letters: {fault}"))
    return not mirrors, mirrors + letters


def _fault(target: Target | Exchange, faults: Faults) -> str:
    """Return the reason why nothing can be published to a target. Return "" if the target is usable or its
    state is unknown."""
    if not is_fixed(target):
        return ""
    return faults.get(target.broker, {}).get(fixed_place(target), "")


def _with_last_error(status: SubscriptionStatus, attempts: Sequence[Attempt]) -> SubscriptionStatus:
    """Return the status with the answer to the newest failed attempt."""
    failed = next((each for each in attempts if each.outcome != "delivered"), None)
    if failed is None:
        return status
    return replace(status, last_status=failed.status, last_error=failed.detail)
