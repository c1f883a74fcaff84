"""Every long-lived task is made to raise: it is logged, counted, told by health, and it begins again."""

from __future__ import annotations

import ast
import asyncio
import io
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

import app
from app.api.status.recorder import Recorder
from app.brokers.kafka import producer as kafka_producer
from app.brokers.pulsar import ownership as pulsar_ownership
from app.brokers.pulsar import producer as pulsar_producer
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.batchers import TopicBatchers
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.rabbitmq import producer as rabbitmq_producer
from app.brokers.rabbitmq.publish_channels import PublishChannels
from app.config.load.loader import load
from app.errors import BrokerUnavailable, StaleOwner, StoreUnavailable
from app.features.alerts.component import AlertsComponent
from app.features.spools import SpoolsComponent
from app.features.subscriptions.component import SubscriptionsComponent
from app.features.subscriptions.store_watcher import StoreWatcher
from app.gateway.server import HttpServer
from app.gateway.tls import Certificates
from app.interfaces.clock import SystemClock
from app.kubernetes.client import KubernetesUnavailable
from app.kubernetes.lease import Leadership
from app.kubernetes.role import OperatorRole
from app.log.upkeep import LogUpkeep
from app.runtime import service as services
from app.runtime.compose import compose
from app.telemetry import Counters, tasks
from app.telemetry.tasks import FAILURES, TaskName, keep
from app.worker import supervised_dispatcher as runs
from app.worker.attempt_writer import AttemptWriter
from app.worker.dispatch import Dispatcher
from app.worker.operator_events import OperatorEvents
from app.worker.subscription_events import SubscriptionEvents
from authority import Authority
from waiting import until

NAMES: tuple[TaskName, ...] = get_args(TaskName)
NOWHERE = "127.0.0.1:1"
PULSAR = PulsarSettings(
    name="pulsar", service_url=f"pulsar://{NOWHERE}", admin_url=f"http://{NOWHERE}"
)

YAML = """
version: 1
server:
  events: {{port: 0}}
  admin: {{port: 0, tls: {{cert: {cert}, key: {key}}}}}
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log}}
  kafka: {{kind: kafka, bootstrap_servers: "{nowhere}"}}
  rabbit: {{kind: rabbitmq, addresses: "{nowhere}"}}
  pulsar: {{kind: pulsar, service_url: "pulsar://{nowhere}", admin_url: "http://{nowhere}"}}
routes: [{{name: everything, to: {{broker: log, topic: events}}}}]
subscriptions:
  - {{id: hook, source: {{broker: log, topics: [events]}}, sink: "https://b.example/"}}
operator_events: {{broker: log, topic: told}}
timeouts: {{not_ready: 0, drain: 5s}}
"""


class Bug(Exception):
    """Nothing that any part expects."""


class Loops:
    """Each raises when it is run first, and is itself from then on. ``again``: names of those that were begun
    again."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._failed: set[str] = set()
        self.again: set[str] = set()

    def fail(self, name: str, owner: Any, attribute: str) -> None:
        loop = getattr(owner, attribute)

        async def failing(*args: Any) -> None:
            if name not in self._failed:
                self._failed.add(name)
                raise Bug(name)
            self.again.add(name)
            await loop(*args)

        self._patch.setattr(owner, attribute, failing)


OF_A_SERVICE: dict[str, tuple[Any, str]] = {
    "alerts": (AlertsComponent, "_watch"),
    "attempts": (AttemptWriter, "_write_all"),
    "certificates": (Certificates, "_watch"),
    "configuration-file": (services, "watch"),
    "configuration-signal": (services, "reload_on_signal"),
    "history": (Recorder, "run"),
    "named-files": (services, "watch_files"),
    "kafka-producer": (kafka_producer.KafkaPublisher, "_run"),
    "listener": (HttpServer, "_keep_date"),
    "operator-events": (OperatorEvents, "_publish_all"),
    "pulsar-producer": (pulsar_producer.PulsarPublisher, "_watch_connection"),
    "pulsar-topics": (pulsar_producer.PulsarPublisher, "_refresh_topics"),
    "rabbitmq-producer": (rabbitmq_producer.RabbitPublisher, "_run"),
    "retention": (LogUpkeep, "run"),
    "spools": (SpoolsComponent, "_watch_spools"),
    "store-changes": (StoreWatcher, "_follow"),
    "subscription": (Dispatcher, "run"),
    "watching": (SubscriptionEvents, "_watch"),
}


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Loops:
    monkeypatch.setattr(tasks, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(runs, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(FAILURES, "counters", FAILURES.counters)  # as it was, for other tests
    return Loops(monkeypatch)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], Counter[str]]:
    """How often a task was said to have failed, with the error."""

    def found() -> Counter[str]:
        said = [entry for entry in caplog.records if entry.name == "skybridge.tasks"]
        assert all(entry.exc_info for entry in said)
        return Counter(entry.getMessage().split()[1] for entry in said)

    return found


def counted() -> dict[str, int]:
    found = FAILURES.counters.values().get("task_failures", {})
    return {name: count for (name,), count in found.items()}


async def test_each_task_of_a_service_is_begun_again(
    loops: Loops, logged: Callable[[], Counter[str]], tmp_path: Path
) -> None:
    """With all brokers away but one."""
    for name, (owner, attribute) in OF_A_SERVICE.items():
        loops.fail(name, owner, attribute)
    cert, key = Authority(tmp_path).server("localhost")
    file = tmp_path / "skybridge.yaml"
    file.write_text(YAML.format(folder=tmp_path, cert=cert, key=key, nowhere=NOWHERE))
    service = compose(load(file, {}), SystemClock())
    await service.start()
    names = OF_A_SERVICE.keys()
    await until(lambda: loops.again == names)
    assert counted() == logged() == dict.fromkeys(names, 1)
    assert service.counters is FAILURES.counters
    [subscription] = await service.part(SubscriptionsComponent).statuses()
    assert subscription.restarts == 1
    for role in (await service.readiness()).values():
        told = {cause.split()[1] for cause in role.causes if cause.startswith("task ")}
        assert told == names - {"subscription"}
        assert "Bug: retention" in " ".join(role.causes)
    await service.stop()
    assert FAILURES.causes() == []


@asynccontextmanager
async def pulsar_owners() -> AsyncIterator[None]:
    async def nothing(*_: Any) -> None: ...

    member = SimpleNamespace(topics=[], check_connections=nothing)
    owners = pulsar_ownership.OwnershipChecker(PULSAR, PulsarAdmin(PULSAR))
    owners.join(member)
    yield
    await owners.leave(member)


@asynccontextmanager
async def pulsar_lanes() -> AsyncIterator[None]:
    producer = pulsar_producer.PulsarPublisher(PULSAR, PulsarAdmin(PULSAR))
    await producer.start()
    topic = producer.topics.known["t"] = TopicBatchers("t", ["wire"])
    producer._open(topic.batchers[0])
    yield
    await producer.stop()


@asynccontextmanager
async def rabbitmq_confirms() -> AsyncIterator[None]:
    settings = rabbitmq_producer.RabbitSettings(name="rabbit", addresses=NOWHERE)
    producer: Any = rabbitmq_producer.RabbitPublisher(settings, SimpleNamespace())

    async def run(*_: Any) -> None:
        await asyncio.Event().wait()

    producer.channels.main.run = run
    task = asyncio.create_task(producer.channels.run(SimpleNamespace(blocked=""), lambda: None))
    yield
    task.cancel()
    await asyncio.wait([task])


@asynccontextmanager
async def kubernetes() -> AsyncIterator[None]:
    lease = SimpleNamespace(namespace="apart", name="one", seconds=10)
    settings: Any = SimpleNamespace(lease=lease)

    async def refuse(*_: Any) -> None:
        raise KubernetesUnavailable("away")

    client: Any = SimpleNamespace(get=refuse)
    role = OperatorRole(settings, client, SimpleNamespace(), SystemClock(), 65_536)  # type: ignore[arg-type]
    task = asyncio.create_task(role.run())
    yield
    task.cancel()
    await asyncio.wait([task])


ELSEWHERE: dict[str, tuple[Any, str]] = {
    "kubernetes": (Leadership, "run"),
    "pulsar-owners": (pulsar_ownership.OwnershipChecker, "_run"),
    "pulsar-lanes": (pulsar_producer.PulsarPublisher, "_open_soon"),
    "rabbitmq-confirms": (PublishChannels, "_watch"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
async def test_a_task_that_needs_more_than_a_service_is_begun_again(
    name: str, loops: Loops, logged: Callable[[], Counter[str]]
) -> None:
    """A member of a group, a topic that is published to, a connection."""
    FAILURES.counters = Counters()
    loops.fail(name, *ELSEWHERE[name])
    begin = {
        "kubernetes": kubernetes,
        "pulsar-owners": pulsar_owners,
        "pulsar-lanes": pulsar_lanes,
        "rabbitmq-confirms": rabbitmq_confirms,
    }[name]
    async with begin():
        await until(lambda: loops.again == {name})
        assert counted() == logged() == {name: 1}
        assert any(f"task {name}" in cause for cause in FAILURES.causes())
    assert FAILURES.causes() == []


def test_the_walk_leaves_none_out() -> None:
    assert set(NAMES) == OF_A_SERVICE.keys() | ELSEWHERE.keys()


async def test_a_task_that_runs_well_for_long_is_no_trouble_any_more(
    loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "STEADY", 0.01)
    failures = iter([Bug("first")])

    async def work() -> None:
        for error in failures:
            raise error
        await asyncio.Event().wait()

    FAILURES.counters = Counters()
    task = keep("watching", work)
    await until(lambda: counted() == {"watching": 1})
    await until(lambda: not FAILURES.causes())
    task.cancel()
    await asyncio.wait([task])


async def test_what_returns_is_done_and_what_is_cancelled_is_no_failure(loops: Loops) -> None:
    FAILURES.counters = Counters()

    async def returns() -> None: ...

    await keep("watching", returns)
    task = keep("watching", asyncio.Event().wait)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert counted() == {}


WAITED_FOR = "whoever began it waits for it, or cancels it"
RAISED_BY_POLL = "``poll`` raises its error, and the subscription begins again"
OF_THE_SUBSCRIPTION = "of the subscription's task group, which it ends with its error"
OF_THE_LEADER = "of the task group of the leader, which ends with its error and begins again"
ENDS = "ends with what it does, and says itself what went wrong"
COUNTS_ITSELF = "its failures are told where subscriptions are"

BARE = {
    "api/pull/receive.py": WAITED_FOR,
    "api/pull/routes.py": WAITED_FOR,
    "brokers/topic_resolver.py": ENDS,
    "brokers/cursor.py": RAISED_BY_POLL,
    "log/groups/membership.py": RAISED_BY_POLL,
    "brokers/kafka/commits.py": RAISED_BY_POLL,
    "brokers/kafka/connection.py": WAITED_FOR,
    "brokers/kafka/consumer.py": RAISED_BY_POLL,
    "brokers/kafka/fetching.py": RAISED_BY_POLL,
    "brokers/kafka/shared_group.py": RAISED_BY_POLL,
    "brokers/kafka/shared_ownership.py": WAITED_FOR,
    "brokers/kafka/shared_starts.py": WAITED_FOR,
    "brokers/pulsar/admin.py": WAITED_FOR,
    "brokers/pulsar/consumer.py": ENDS,
    "brokers/pulsar/wire/client.py": WAITED_FOR,
    "brokers/pulsar/wire/connection.py": ENDS,
    "brokers/rabbitmq/connection.py": WAITED_FOR,
    "brokers/rabbitmq/consumer.py": RAISED_BY_POLL,
    "brokers/rabbitmq/publish_channels.py": ENDS,
    "brokers/rabbitmq/stream.py": ENDS,
    "api/http/slices.py": WAITED_FOR,
    "brokers/sharing.py": WAITED_FOR,
    "cli/pull_consumer.py": WAITED_FOR,
    "cli/demo/play.py": WAITED_FOR,
    "gateway/tls.py": WAITED_FOR,
    "kubernetes/namespace.py": OF_THE_LEADER,
    "kubernetes/reconciler.py": OF_THE_LEADER,
    "kubernetes/role.py": OF_THE_LEADER,
    "kubernetes/run.py": WAITED_FOR,
    "gateway/issuers.py": WAITED_FOR,
    "kafka_listener/connection.py": WAITED_FOR,
    "pipeline/replay/gateway.py": WAITED_FOR,
    "pipeline/replay/run.py": WAITED_FOR,
    "features/alerts/component.py": WAITED_FOR,
    "features/subscriptions/catalog.py": WAITED_FOR,
    "features/subscriptions/store_watcher.py": ENDS,
    "runtime/awaiting.py": WAITED_FOR,
    "runtime/signals.py": WAITED_FOR,
    "features/tokens.py": WAITED_FOR,
    "sinks/dns.py": WAITED_FOR,
    "sinks/handshake.py": WAITED_FOR,
    "sinks/http_pool.py": ENDS,
    "store/transactions.py": ENDS,
    "telemetry/tasks.py": "the mechanism",
    "worker/supervised_dispatcher.py": COUNTS_ITSELF,
    "worker/shared.py": OF_THE_SUBSCRIPTION,
    "worker/supervisor.py": ENDS,
    "worker/timing.py": WAITED_FOR,
}
"""Why a task of this file may stand outside of the mechanism, file by file."""


def calls(tree: ast.AST, *names: str) -> list[ast.Call]:
    found = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    return [each for each in found if getattr(each.func, "attr", None) in names]


def test_no_task_stands_outside_of_the_mechanism_without_a_reason() -> None:
    """A task that nobody awaits ends without a word."""
    root = Path(app.__file__).parent
    names = ("create_task", "ensure_future")
    texts = {str(file.relative_to(root)): file.read_text() for file in root.rglob("*.py")}
    naming = {file: text for file, text in texts.items() if any(name in text for name in names)}
    bare = {file for file, text in naming.items() if calls(ast.parse(text), *names)}
    assert bare == BARE.keys()


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (BrokerUnavailable("Kafka main is away:\nnobody answers"), 1),
        (StoreUnavailable("locked"), 1),
        (ConnectionRefusedError(111, "refused"), 1),
        (TimeoutError("no answer"), 1),
        (ExceptionGroup("both", [StaleOwner("a"), ExceptionGroup("in", [OSError("b")])]), 1),
        (ZeroDivisionError("a bug"), None),
        (ExceptionGroup("both", [StaleOwner("a"), KeyError("b")]), None),
    ],
)
def test_a_known_cause_is_one_line_of_the_log_and_a_bug_has_its_traceback(error, lines):
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    log = logging.getLogger("skybridge.tasks")
    log.addHandler(handler)
    FAILURES.count("subscription", "billing", error)
    log.removeHandler(handler)
    text = shown.getvalue()
    assert text.startswith("task subscription billing failed and is restarted: ")
    assert (len(text.splitlines()) == 1) is (lines == 1), text
