"""What a service says about itself, above all whether it is ready and why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import AsyncMock

import pytest

from app.api.asked.readiness import RoleReadiness
from app.config.load.loader import Loaded, load
from app.errors import BrokerRefused, BrokerUnavailable, StoreUnavailable
from app.features.brokers.component import HEALTH_KEPT, BrokersComponent
from app.features.brokers.targets import ASK_AGAIN
from app.features.component import Role
from app.features.events.routes import RoutesComponent
from app.features.storage.component import StorageComponent
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.features.subscriptions.component import SubscriptionsComponent
from app.features.subscriptions.store_watcher import StoreWatcher
from app.interfaces import Attempt, EventName
from app.model.log_name import LogName
from app.model.message import Partition
from app.model.metadata import GroupLag, LogHealth, LogMetadata
from app.model.route import Target
from app.model.subscription_status import SubscriptionStatus
from app.runtime.service import Service
from app.store.encryption import Vault
from app.telemetry import Counters
from fake_log import FakeLog
from memory_store import MemoryStore
from virtual_clock import VirtualClock
from waiting import until


class Broker(FakeLog):
    def __init__(self, name: str, cause: str = "") -> None:
        super().__init__(name)
        self.cause = cause
        self.asked = 0

    async def health(self) -> LogHealth:
        self.asked += 1
        await asyncio.sleep(0)
        return LogHealth(healthy=not self.cause, cause=self.cause)


class Subscriptions:
    def __init__(self, *statuses: SubscriptionStatus) -> None:
        self._statuses = statuses
        self.tried: list[Attempt] = []

    def statuses(self, _: object = None) -> Sequence[SubscriptionStatus]:
        return self._statuses

    def attempts(self, subscription: str, limit: int) -> list[Attempt]:
        return self.tried


@pytest.fixture
def document(tmp_path: Any) -> Any:
    file = tmp_path / "skybridge.yaml"
    file.write_text(
        f"""
version: 1
installation: shop
store: {{kind: sqlite, path: {tmp_path}/store.db}}
brokers:
  here: {{kind: embedded, path: {tmp_path}/log}}
  there: {{kind: kafka, bootstrap_servers: "127.0.0.1:1"}}
routes:
  - {{name: orders, filters: [{{exact: {{type: o}}}}], to: {{broker: there, topic: orders}}}}
  - {{name: everything, to: {{broker: here, topic: events}}}}
subscriptions:
  - {{id: billing, source: {{broker: here, topics: [events]}}, sink: "https://b.example/"}}
"""
    )
    return load(file, {}).config


class Composed(NamedTuple):
    """The parts of a service that readiness is made of."""

    service: Service
    clock: VirtualClock
    brokers: BrokersComponent
    storage: StorageComponent
    subscriptions: SubscriptionsComponent

    async def gateway(self) -> RoleReadiness:
        return (await self.service.readiness())["gateway"]

    async def worker(self) -> RoleReadiness:
        return (await self.service.readiness())["worker"]


def _composed(
    config: Any,
    *,
    here: str = "",
    there: str = "",
    relaxed: Broker | None = None,
    worker: Subscriptions | None = None,
    unfit: dict[str, str] | None = None,
    store: Any = None,
    begun: bool = True,
) -> Composed:
    logs: dict[str, Any] = {"here": Broker("here", here), "there": Broker("there", there)}
    logs["there"].unfit = unfit or {}
    clock, counters = VirtualClock(), Counters()
    store = store or MemoryStore(clock=clock)
    catalog = SubscriptionCatalog(Loaded.of(config), store, Vault(()))
    brokers = BrokersComponent(config, lambda: catalog.subscriptions, clock, counters, logs=logs)
    if relaxed is not None:
        brokers.every[LogName("there", 1)] = relaxed  # type: ignore[assignment]
    sinks: Any = None
    watcher = StoreWatcher(catalog, None, brokers, clock)
    subscriptions = SubscriptionsComponent(catalog, brokers, worker, sinks, watcher, clock)  # type: ignore[arg-type]
    storage = StorageComponent(store, clock)
    roles: list[Role] = ["gateway", "worker"] if worker else ["gateway"]
    service = Service(config, roles, clock, counters)
    service.add(storage)
    service.add(brokers)
    service.add(RoutesComponent(config, brokers))
    service.add(subscriptions)
    service._begun = begun
    return Composed(service, clock, brokers, storage, subscriptions)


def _status(state: str, cause: str = "") -> SubscriptionStatus:
    return SubscriptionStatus(
        id="billing",
        sink="https://b.example/",
        state=state,
        cause=cause,
        partitions=(Partition("events", 0),),
    )


async def test_gateway_is_ready_when_one_route_can_accept(document: Any) -> None:
    """One cluster that is down must not stop the events that go elsewhere; it is named all the same."""
    gateway = await _composed(document, there="connection refused").gateway()
    assert gateway.ready
    assert gateway.causes == ["route orders: broker there: connection refused"]


async def test_gateway_is_not_ready_when_no_route_can_accept(document: Any) -> None:
    """Then every event would be 503, and a load balancer should know."""
    gateway = await _composed(document, here="disk full", there="refused").gateway()
    assert not gateway.ready
    assert len(gateway.causes) == 2


async def test_a_route_to_a_target_that_is_missing_is_not_ready_and_says_why(document: Any) -> None:
    """Rule 10: else the first event would find it out."""
    state = _composed(document, unfit={"orders": "there is no such topic, and none is created"})
    gateway = await state.gateway()
    assert gateway.ready, "the other route accepts"
    assert gateway.causes == [
        "route orders: there/orders: there is no such topic, and none is created",
    ]


async def test_gateway_is_not_ready_when_every_target_is_missing(document: Any) -> None:
    """The broker is up, and every event would be refused all the same."""
    only = document.model_copy(update={"routes": document.routes[:1]})
    gateway = await _composed(only, unfit={"orders": "missing"}).gateway()
    assert not gateway.ready


async def test_it_becomes_ready_by_itself_and_asks_seldom(document: Any) -> None:
    """Nobody restarts it; and a probe every second must not mean a question every second."""
    only = document.model_copy(update={"routes": document.routes[:1]})
    state = _composed(only, unfit={"orders": "missing"})
    log: Any = state.brokers.logs["there"]
    asked: list[object] = []
    check = log.check_targets

    async def counted(topics: Any) -> Any:
        asked.append(topics)
        return await check(topics)

    log.check_targets = counted
    assert not (await state.gateway()).ready
    log.unfit.clear()
    assert not (await state.gateway()).ready
    assert asked == [["orders"]]
    await state.clock.advance(ASK_AGAIN)
    assert (await state.gateway()).ready


async def test_a_broker_that_does_not_tell_of_its_targets_changes_nothing(document: Any) -> None:
    """Readiness must answer, and what was known last is the best there is."""
    state = _composed(document, unfit={"orders": "missing"})
    log: Any = state.brokers.logs["there"]
    assert (await state.gateway()).causes

    async def refuses(_topics: Any) -> Any:
        raise BrokerUnavailable("leader elections")

    log.check_targets = refuses
    await state.clock.advance(ASK_AGAIN)
    assert (await state.gateway()).causes == ["route orders: there/orders: missing"]


async def test_a_mirror_whose_topic_is_missing_makes_the_worker_not_ready(document: Any) -> None:
    """It delivers nothing; a missing dead-letter topic holds up dead letters alone."""
    (billing,) = document.subscriptions
    target = Target(broker="there", topic="copies")
    letters = billing.model_copy(update={"dead_letter": target})
    mirror = billing.model_copy(update={"sink": target})
    for subscription, ready in ((letters, True), (mirror, False)):
        changed = document.model_copy(update={"subscriptions": (subscription,)})
        running = Subscriptions(_status("running"))
        state = _composed(changed, worker=running, unfit={"copies": "missing"})
        worker = await state.worker()
        assert worker.ready is ready
        assert "missing" in worker.causes[0]


async def test_the_log_of_a_relaxed_route_is_no_broker_of_its_own(document: Any) -> None:
    """``topics`` and ``status`` list what the configuration names; readiness looks at it all the same."""
    relaxed = document.routes[0].model_copy(update={"durability": "relaxed"})
    only = document.model_copy(update={"routes": (relaxed,)})
    state = _composed(only, relaxed=Broker("there", "away"))
    assert set(state.brokers.logs) == {"here", "there"}
    assert (await state.gateway()).causes == ["route orders: broker there: away"]


@pytest.mark.parametrize(
    ("state", "ready"),
    [
        ("running", True),
        ("paused", True),
        ("disabled", True),
        ("starting", False),
        ("restarting", False),
        ("stopped", True),
    ],
)
async def test_worker_is_ready_when_each_subscription_has_begun(
    document: Any, state: str, ready: bool
) -> None:
    """Rule 10; a webhook that fails takes no process out of service, not even one that answers 410."""
    worker = Subscriptions(_status(state, "" if state == "running" else "why"))
    found = await _composed(document, worker=worker).worker()
    assert found.ready is ready
    assert bool(found.causes) is (state != "running")


async def test_a_subscription_that_its_target_disabled_says_how_to_resume_it(document: Any) -> None:
    """W5: nothing else ends it, and whoever reads this is to know what does."""
    worker = Subscriptions(_status("disabled", "disabled: status-410"))
    (cause,) = (await _composed(document, worker=worker).worker()).causes
    assert cause == (
        "subscription billing is disabled: status-410; "
        "deliver again with: skybridge subscriptions resume billing"
    )


async def test_a_store_in_trouble_is_named_and_stops_nobody(document: Any) -> None:
    """Deliveries go on; only dead letters wait for it."""

    class Store:
        async def health(self) -> LogHealth:
            return LogHealth(healthy=False, cause="disk full")

    state = _composed(document, worker=Subscriptions(_status("running")), store=Store())
    worker = await state.worker()
    assert worker.ready
    assert worker.causes == ["store: disk full"]


async def test_a_store_that_hangs_is_asked_for_everything_at_once(document: Any) -> None:
    """Each answer waits for the time-out of the store, and Prometheus waits ten seconds for all of them."""
    asked, answer = list[str](), asyncio.Event()

    def hanging(what: str) -> Callable[..., Any]:
        async def ask(*_: object) -> Any:
            asked.append(what)
            await answer.wait()
            raise StoreUnavailable("no answer in 5 s")

        return ask

    store = SimpleNamespace(
        letters=SimpleNamespace(count=hanging("letters")),
        parked=SimpleNamespace(count=hanging("parked")),
        health=hanging("health"),
        clock=VirtualClock(),
    )
    state = _composed(document, store=store)
    measuring = asyncio.create_task(state.storage.metrics())
    await until(lambda: len(asked) == 2)
    assert sorted(asked) == ["letters", "parked"]
    answer.set()
    assert {family.name: family.values for family in await measuring}["store_up"] == {(): 0}


async def test_nobody_is_ready_before_all_has_started(document: Any) -> None:
    """The admin listener answers before the events listener takes anything."""
    state = _composed(document, begun=False)
    assert (await state.gateway()).causes == ["the service is starting"]


async def test_nobody_is_ready_while_it_leaves(document: Any) -> None:
    """Rule 11: readiness goes off first of all."""
    state = _composed(document)
    state.service._draining = True
    gateway = await state.gateway()
    assert not gateway.ready
    assert gateway.causes == ["the service is stopping"]


async def test_a_flood_of_probes_asks_each_broker_once_a_second(document: Any) -> None:
    """Whoever reaches the probe must not make us press the brokers; that we leave is said at once."""
    store = Broker("store")
    state = _composed(document, worker=Subscriptions(_status("running")), store=store)
    broker: Any = state.brokers.logs["here"]
    await asyncio.gather(*(state.service.readiness() for _ in range(20)))
    await state.service.readiness()
    assert (broker.asked, store.asked) == (1, 1)
    broker.cause = "disk full"
    await state.clock.advance(HEALTH_KEPT)
    assert "disk full" in (await state.gateway()).causes[0]
    assert (broker.asked, store.asked) == (2, 2)
    state.service._draining = True
    assert (await state.gateway()).causes == ["the service is stopping"]


async def test_only_roles_that_run_are_listed(document: Any) -> None:
    """A gateway of its own says nothing about workers elsewhere."""
    assert set(await _composed(document).service.readiness()) == {"gateway"}


async def test_last_error_is_of_the_newest_attempt_that_failed(document: Any) -> None:
    """A success in between must not hide what went wrong before it."""
    worker = Subscriptions(_status("running"))
    worker.tried = [_attempt("delivered", 204, ""), _attempt("retry", 503, "try later")]
    (subscription,) = await _composed(document, worker=worker).subscriptions.statuses()
    assert (subscription.last_status, subscription.last_error) == (503, "try later")
    assert list(map(str, subscription.partitions)) == ["events/0"]


async def test_lag_is_asked_of_brokers_that_answer(document: Any) -> None:
    """Status must not fail because one broker is away."""
    state = _composed(document, here="away", worker=Subscriptions(_status("starting")))
    lags = await state.subscriptions.lag()
    assert (lags.partitions, lags.totals()) == ([], {"skybridge.shop.billing": None})


async def test_the_lag_of_a_group_is_of_the_topics_that_it_reads(
    document: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers named each group in each topic, so the lag of all was unknown with two topics at one broker."""
    state = _composed(document, worker=Subscriptions(_status("running")))
    found = (GroupLag("skybridge.shop.billing", "events", 0, "5", 3),)
    metadata = AsyncMock(return_value=LogMetadata("here", (), found))
    monkeypatch.setattr(state.brokers.logs["here"], "metadata", metadata)
    assert (await state.subscriptions.lag()).totals() == {"skybridge.shop.billing": 3}
    metadata.assert_awaited_once_with(["events"], {"skybridge.shop.billing": ("events",)})


async def test_a_topic_that_is_refused_hides_the_lag_of_no_other_group(
    document: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One topic without rights made the lag of all subscriptions of its broker unknown."""
    state = _composed(document)

    async def metadata(topics: Sequence[str], groups: Any) -> LogMetadata:
        if "secret" in topics:
            raise BrokerRefused("no right to describe it", kind="not-authorised")
        return LogMetadata(
            "here", (), tuple(GroupLag(each, "events", 0, "5", 3) for each in groups)
        )

    monkeypatch.setattr(state.brokers.logs["here"], "metadata", metadata)
    read = {"here": {"a": ["events"], "b": ["secret"], "c": ["events"]}}
    assert (await state.brokers.lag(read)).totals() == {"a": 3, "c": 3}


def _attempt(outcome: str, status: int, detail: str) -> Attempt:
    return Attempt(
        subscription="billing",
        partition=Partition("events", 0),
        position="0",
        event=EventName("1", "/s"),
        number=1,
        started_ms=0,
        duration_ms=1.0,
        outcome=outcome,
        status=status,
        detail=detail,
    )
