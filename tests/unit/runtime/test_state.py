"""What a service says about itself, above all whether it is ready and why not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from app.access.who import Producers
from app.config.load.loader import Loaded, load
from app.errors import BrokerUnavailable
from app.features.brokers.targets import ASK_AGAIN
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.interfaces import Attempt, EventName
from app.model.log_name import LogName
from app.model.message import Partition
from app.model.metadata import Health
from app.model.route import Target
from app.model.subscription_status import SubscriptionStatus
from app.runtime.build import Parts
from app.runtime.state import HEALTH_KEPT, State
from app.sinks.pull_queue import Wakeups
from app.store.encryption import Vault
from app.telemetry import Counters
from fake_log import FakeLog
from memory_store import MemoryStore
from virtual_clock import VirtualClock


class Broker(FakeLog):
    def __init__(self, name: str, cause: str = "") -> None:
        super().__init__(name)
        self.cause = cause
        self.asked = 0

    async def health(self) -> Health:
        self.asked += 1
        await asyncio.sleep(0)
        return Health(healthy=not self.cause, cause=self.cause)


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


def _state(
    config: Any,
    *,
    here: str = "",
    there: str = "",
    worker: Subscriptions | None = None,
    unfit: dict[str, str] | None = None,
) -> State:
    brokers = {"here": Broker("here", here), "there": Broker("there", there)}
    brokers["there"].unfit = unfit or {}
    parts = Parts(
        config=config,
        roles=("gateway", "worker") if worker else ("gateway",),
        clock=VirtualClock(),
        counters=Counters(),
        logs=brokers,  # type: ignore[arg-type]
        all_logs={LogName(name): each for name, each in brokers.items()},  # type: ignore[misc]
        publishing={},
        store=MemoryStore(),  # type: ignore[arg-type]
        events=None,
        supervisor=worker,  # type: ignore[arg-type]
        catalog=SubscriptionCatalog(Loaded.of(config), None, Vault(())),
        registry=None,  # type: ignore[arg-type]
        wakeups=Wakeups(),
        keeper=None,
        operator_events=None,
        watcher=None,
        issuers=None,  # type: ignore[arg-type]
        producers=Producers(()),
    )
    state = State(parts)
    state.begun = True
    return state


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
    gateway = (await _state(document, there="connection refused").readiness())["gateway"]
    assert gateway.ready
    assert gateway.causes == ["route orders: broker there: connection refused"]


async def test_gateway_is_not_ready_when_no_route_can_accept(document: Any) -> None:
    """Then every event would be 503, and a load balancer should know."""
    gateway = (await _state(document, here="disk full", there="refused").readiness())["gateway"]
    assert not gateway.ready
    assert len(gateway.causes) == 2


async def test_a_route_to_a_target_that_is_missing_is_not_ready_and_says_why(document: Any) -> None:
    """Rule 10: else the first event would find it out."""
    state = _state(document, unfit={"orders": "there is no such topic, and none is created"})
    gateway = (await state.readiness())["gateway"]
    assert gateway.ready, "the other route accepts"
    assert gateway.causes == [
        "route orders: there/orders: there is no such topic, and none is created",
    ]


async def test_gateway_is_not_ready_when_every_target_is_missing(document: Any) -> None:
    """The broker is up, and every event would be refused all the same."""
    only = document.model_copy(update={"routes": document.routes[:1]})
    gateway = (await _state(only, unfit={"orders": "missing"}).readiness())["gateway"]
    assert not gateway.ready


async def test_it_becomes_ready_by_itself_and_asks_seldom(document: Any) -> None:
    """Nobody restarts it; and a probe every second must not mean a question every second."""
    only = document.model_copy(update={"routes": document.routes[:1]})
    state = _state(only, unfit={"orders": "missing"})
    log: Any = state.logs["there"]
    asked: list[object] = []
    check = log.check_targets

    async def counted(topics: Any) -> Any:
        asked.append(topics)
        return await check(topics)

    log.check_targets = counted
    assert not (await state.readiness())["gateway"].ready
    log.unfit.clear()
    assert not (await state.readiness())["gateway"].ready
    assert asked == [["orders"]]
    await state.clock.advance(ASK_AGAIN)  # type: ignore[attr-defined]
    assert (await state.readiness())["gateway"].ready


async def test_a_broker_that_does_not_tell_of_its_targets_changes_nothing(document: Any) -> None:
    """Readiness must answer, and what was known last is the best there is."""
    state = _state(document, unfit={"orders": "missing"})
    log: Any = state.logs["there"]
    assert (await state.readiness())["gateway"].causes

    async def refuses(_topics: Any) -> Any:
        raise BrokerUnavailable("leader elections")

    log.check_targets = refuses
    await state.clock.advance(ASK_AGAIN)  # type: ignore[attr-defined]
    assert (await state.readiness())["gateway"].causes == ["route orders: there/orders: missing"]


async def test_a_mirror_whose_topic_is_missing_makes_the_worker_not_ready(document: Any) -> None:
    """It delivers nothing; a missing dead-letter topic holds up dead letters alone."""
    (billing,) = document.subscriptions
    target = Target(broker="there", topic="copies")
    letters = billing.model_copy(update={"dead_letter": target})
    mirror = billing.model_copy(update={"sink": target})
    for subscription, ready in ((letters, True), (mirror, False)):
        changed = document.model_copy(update={"subscriptions": (subscription,)})
        running = Subscriptions(_status("running"))
        state = _state(changed, worker=running, unfit={"copies": "missing"})
        worker = (await state.readiness())["worker"]
        assert worker.ready is ready
        assert "missing" in worker.causes[0]


async def test_the_log_of_a_relaxed_route_is_no_broker_of_its_own(document: Any) -> None:
    """``topics`` and ``status`` list what the configuration names; readiness looks at it all the same."""
    relaxed = document.routes[0].model_copy(update={"durability": "relaxed"})
    only = document.model_copy(update={"routes": (relaxed,)})
    state = _state(only)
    state._parts.all_logs[LogName("there", 1)] = Broker("there", "away")  # type: ignore[index]
    state = State(state._parts)
    state.begun = True
    assert set(state.logs) == {"here", "there"}
    assert (await state.readiness())["gateway"].causes == ["route orders: broker there: away"]


@pytest.mark.parametrize(
    ("state", "ready"),
    [
        ("running", True),
        ("paused", True),
        ("disabled", False),
        ("starting", False),
        ("restarting", False),
        ("stopped", False),
    ],
)
async def test_worker_is_ready_when_each_subscription_has_begun_and_none_gave_up(
    document: Any, state: str, ready: bool
) -> None:
    """Rule 10; a webhook that is down pauses its subscription and comes back by itself, one that is gone
    waits for a person."""
    worker = Subscriptions(_status(state, "" if state == "running" else "why"))
    found = (await _state(document, worker=worker).readiness())["worker"]
    assert found.ready is ready
    assert bool(found.causes) is (state != "running")


async def test_a_subscription_that_its_target_disabled_says_how_to_resume_it(document: Any) -> None:
    """W5: nothing else ends it, and whoever reads this is to know what does."""
    worker = Subscriptions(_status("disabled", "disabled: status-410"))
    (cause,) = (await _state(document, worker=worker).readiness())["worker"].causes
    assert cause == (
        "subscription billing is disabled: status-410; "
        "deliver again with: skybridge subscriptions resume billing"
    )


async def test_a_store_in_trouble_is_named_and_stops_nobody(document: Any) -> None:
    """Deliveries go on; only dead letters wait for it."""

    class Store:
        async def health(self) -> Health:
            return Health(healthy=False, cause="disk full")

    state = _state(document, worker=Subscriptions(_status("running")))
    state.store = Store()  # type: ignore[assignment]
    worker = (await state.readiness())["worker"]
    assert worker.ready
    assert worker.causes == ["store: disk full"]


async def test_nobody_is_ready_before_all_has_started(document: Any) -> None:
    """The admin listener answers before the events listener takes anything."""
    state = _state(document)
    state.begun = False
    assert (await state.readiness())["gateway"].causes == ["the service is starting"]


async def test_nobody_is_ready_while_it_leaves(document: Any) -> None:
    """Rule 11: readiness goes off first of all."""
    state = _state(document)
    state.draining = True
    gateway = (await state.readiness())["gateway"]
    assert not gateway.ready
    assert gateway.causes == ["the service is stopping"]


async def test_a_flood_of_probes_asks_each_broker_once_a_second(document: Any) -> None:
    """Whoever reaches the probe must not make us press the brokers; that we leave is said at once."""
    state = _state(document, worker=Subscriptions(_status("running")))
    broker, store = Broker("here"), Broker("store")
    state._parts.all_logs[LogName("here")] = broker  # type: ignore[index]
    state.store = store  # type: ignore[assignment]
    await asyncio.gather(*(state.readiness() for _ in range(20)))
    await state.readiness()
    assert (broker.asked, store.asked) == (1, 1)
    broker.cause = "disk full"
    await state.clock.advance(HEALTH_KEPT)  # type: ignore[attr-defined]
    assert "disk full" in (await state.readiness())["gateway"].causes[0]
    assert (broker.asked, store.asked) == (2, 2)
    state.draining = True
    assert (await state.readiness())["gateway"].causes == ["the service is stopping"]


async def test_only_roles_that_run_are_listed(document: Any) -> None:
    """A gateway of its own says nothing about workers elsewhere."""
    assert set(await _state(document).readiness()) == {"gateway"}


async def test_last_error_is_of_the_newest_attempt_that_failed(document: Any) -> None:
    """A success in between must not hide what went wrong before it."""
    worker = Subscriptions(_status("running"))
    worker.tried = [_attempt("delivered", 204, ""), _attempt("retry", 503, "try later")]
    (subscription,) = await _state(document, worker=worker).statuses()
    assert subscription.last_error == "retry 503 try later"
    assert list(map(str, subscription.partitions)) == ["events/0"]


async def test_lag_is_asked_of_brokers_that_answer(document: Any) -> None:
    """Status must not fail because one broker is away."""
    state = _state(document, here="away", worker=Subscriptions(_status("starting")))
    assert await state.lag() == []


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
