"""What a running service says about itself: it answers ``api.running.Running``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.api.running import RoleState, SubscriptionState
from app.errors import SkybridgeError
from app.interfaces import Attempt, Log, Store
from app.model.metadata import GroupLag, Health
from app.model.route import Route
from app.model.subscription import Subscription
from app.runtime.build import Parts
from app.worker.joining import group_name
from app.worker.status import SubscriptionStatus

RECENT = 100  # attempts looked at for the last error


class State:
    """``begun`` is set when every part has started, ``draining`` when it is to leave (rule 11)."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.installation = parts.config.installation
        self.roles: Sequence[str] = parts.roles
        self.routes: Sequence[Route] = parts.config.routes
        self.logs: Mapping[str, Log] = parts.logs
        self.store: Store | None = parts.store
        self.counters = parts.counters
        self.clock = parts.clock
        self.started_at = parts.clock.monotonic()
        self.begun = False
        self.draining = False

    async def readiness(self) -> Mapping[str, RoleState]:
        brokers = {name: await log.health() for name, log in self.logs.items()}
        found = {}
        if "gateway" in self.roles:
            found["gateway"] = self._ready(*_routes_fare(self.routes, brokers))
        if "worker" in self.roles:
            ready, causes = _subscriptions_fare(self.subscriptions())
            found["worker"] = self._ready(ready, causes + await self._store_fares())
        return found

    def subscriptions(self) -> Sequence[SubscriptionState]:
        supervisor = self._parts.supervisor
        if supervisor is None:
            return ()
        configured = {each.id: each for each in self._parts.config.subscriptions}
        return [
            self._subscription(
                configured[status.subscription],
                status,
                supervisor.attempts(status.subscription, RECENT),
            )
            for status in supervisor.status()
        ]

    async def lag(self) -> Sequence[GroupLag]:
        found: list[GroupLag] = []
        for name, log in self.logs.items():
            subscriptions = [
                each for each in self._parts.config.subscriptions if each.source.broker == name
            ]
            if not subscriptions or not (await log.health()).healthy:
                continue
            topics = sorted({topic for each in subscriptions for topic in each.source.topics})
            groups = [group_name(self.installation, each.id) for each in subscriptions]
            try:
                found += (await log.metadata(topics, groups)).groups
            except SkybridgeError:  # it went away in between; its health says so
                continue
        return found

    async def _store_fares(self) -> list[str]:
        """A store in trouble holds up dead letters and nothing else: it is named, no more."""
        if self.store is None:
            return []
        health = await self.store.health()
        return [] if health.healthy else [f"store: {health.cause}"]

    def _ready(self, ready: bool, causes: list[str]) -> RoleState:
        if self.draining:
            return RoleState(ready=False, causes=("the service is leaving",))
        if not self.begun:
            return RoleState(ready=False, causes=("the service is starting",))
        return RoleState(ready=ready, causes=tuple(causes))

    def _subscription(
        self, configured: Subscription, status: SubscriptionStatus, attempts: Sequence[Attempt]
    ) -> SubscriptionState:
        return SubscriptionState(
            id=configured.id,
            sink=status.sink,
            broker=configured.source.broker,
            group=group_name(self.installation, configured.id),
            state=status.state,
            cause=status.cause,
            partitions=tuple(map(str, status.partitions)),
            held=status.held,
            in_flight=status.in_flight,
            waiting=status.waiting,
            window=status.window,
            paused_for=status.paused_for,
            oldest=status.oldest,
            restarts=status.restarts,
            last_error=_last_error(attempts),
        )


def _routes_fare(routes: Sequence[Route], brokers: Mapping[str, Health]) -> tuple[bool, list[str]]:
    """Ready when at least one route can accept; each that cannot says why."""
    causes = [
        f"route {route.name}: broker {target.broker}: {brokers[target.broker].cause}"
        for route in routes
        for target in route.to
        if not brokers[target.broker].healthy
    ]
    if not routes:
        return False, ["there is no route: add one under routes"]
    accepting = [all(brokers[target.broker].healthy for target in route.to) for route in routes]
    return any(accepting), causes


def _subscriptions_fare(subscriptions: Sequence[SubscriptionState]) -> tuple[bool, list[str]]:
    """Ready when each has begun and none has given up; what hinders one is named all the same."""
    causes = [
        f"subscription {each.id} is {each.state}" + (f": {each.cause}" if each.cause else "")
        for each in subscriptions
        if not each.ready or each.cause
    ]
    return all(each.ready for each in subscriptions), causes


def _last_error(attempts: Sequence[Attempt]) -> str:
    """Of the newest attempt that came to nothing: what the target said."""
    failed = next((each for each in attempts if each.outcome != "delivered"), None)
    if failed is None:
        return ""
    return " ".join(
        text for text in (failed.outcome, str(failed.status or ""), failed.detail) if text
    )
