"""From a configuration to parts, and from parts to a service that starts and stops in order."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from app.brokers.kafka import KafkaDriver
from app.config.load.loader import Loaded, load
from app.config.model.config import Config
from app.errors import SetupError
from app.features.brokers.component import BrokersComponent
from app.features.brokers.logs import open_logs, with_relaxed_logs
from app.features.component import ROLES, Role
from app.features.events.component import EventsComponent
from app.features.listening import limits_of
from app.features.subscriptions.component import SubscriptionsComponent
from app.gateway.limits import ListenerLimits
from app.interfaces.clock import SystemClock
from app.model.log_name import LogName
from app.runtime.compose import compose
from app.runtime.service import Service
from app.telemetry import Counters
from app.worker.supervisor import Supervisor

YAML = """
version: 1
server: {{events: {{port: 0}}, admin: {{port: 0}}}}
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log, partitions: 3}}
routes: [{{name: everything, to: {{broker: log, topic: events}}}}]
timeouts: {{not_ready: 0, drain: 5s}}
{more}
"""

SUBSCRIPTION = {
    "id": "hook",
    "source": {"broker": "log", "topics": ["events"]},
    "sink": "https://b.example/",
}


def config(folder: Path, more: str = "") -> Config:
    file = folder / "skybridge.yaml"
    file.write_text(YAML.format(folder=folder, more=more))
    return load(file, {}).config


def composed(config: Config, *roles: Role) -> Service:
    return compose(Loaded.of(config), SystemClock(), roles or ROLES)


def supervisor_of(service: Service) -> Supervisor | None:
    return service.part(SubscriptionsComponent).supervisor


def test_each_role_has_only_its_own_parts(tmp_path: Path) -> None:
    """A gateway delivers nothing, a worker listens to no events."""
    gateway = composed(config(tmp_path), "gateway")
    worker = composed(config(tmp_path), "worker")
    assert (gateway.find(EventsComponent) is not None, supervisor_of(gateway)) == (True, None)
    assert worker.find(EventsComponent) is None
    assert supervisor_of(worker) is not None


def test_every_bound_of_the_listener_is_a_setting() -> None:
    """Rule 8: a bound that nobody can move is a bound that somebody patches."""
    limits = ListenerLimits(
        header_bytes=300_000, header_fields=300, body=100_000, receiving=200_000, connections=7,
        batch_events=8, in_work=9, in_flight=10, head_timeout=1.5, body_timeout=2.5, keep_alive=3.5,
        keep_alive_requests=11,
    )  # fmt: skip
    names = {"batch_events": "max_batch", "in_work": "requests_per_connection",
             "in_flight": "requests_in_flight"}  # fmt: skip
    times = {"head_timeout": "request_head", "body_timeout": "request_body",
             "keep_alive": "keep_alive"}  # fmt: skip
    values = msgspec.structs.asdict(limits)
    for fixed in ("linger", "heads", "handshake_timeout"):
        del values[fixed]
    configured = Config.model_validate({
        "version": 1,
        "brokers": {"log": {"kind": "embedded", "path": "l"}},
        "timeouts": {name: values.pop(ours) for ours, name in times.items()},
        "limits": {names.get(name, name): value for name, value in values.items()},
    })  # fmt: skip

    assert limits_of(configured) == limits


def test_kafka_settings_reach_the_driver(tmp_path: Path) -> None:
    """A setting that is accepted and then ignored is worse than one that is refused."""
    parts = config(tmp_path).model_dump(mode="python")
    parts["brokers"]["main"] = {
        "kind": "kafka",
        "bootstrap_servers": "127.0.0.1:9092",
        "client_id": "shop",
        "security": {
            "sasl": {"mechanism": "SCRAM-SHA-512", "username": "sky", "password": "s3cret"},
            "tls": {"verify_host": False},
        },
        "topics": {"create": True, "partitions": 5, "replication": 3},
        "compression": "lz4",
        "in_flight": {"records": 7, "bytes": "1MiB"},
    }
    parts["timeouts"]["publish"] = "3s"
    log = open_logs(Config.model_validate(parts))["main"]
    assert isinstance(log.driver, KafkaDriver)
    settings = log.driver._settings
    assert (settings.client_id, settings.compression) == ("shop", "lz4")
    assert (settings.create_topics, settings.partitions, settings.replication) == (True, 5, 3)
    assert settings.sasl is not None
    assert settings.sasl.password == "s3cret"
    assert settings.tls is not None
    assert settings.tls.verify_host is False
    assert (log.bounds.records, log.bounds.bytes, log.bounds.publish_timeout) == (7, 2**20, 3.0)


def test_more_of_kafka_reaches_the_driver(tmp_path: Path) -> None:
    """Static membership, time-outs, and one answer of a broker that may take as long as a publish."""
    log = opened(
        tmp_path,
        kind="kafka", bootstrap_servers=["a:1", "b:2"], session_timeout="7s",
        instance_id="pod-0", max_record="2MiB",
    )  # fmt: skip
    settings = log.driver._settings
    assert settings.bootstrap_servers == "a:1,b:2"
    assert (settings.session_timeout, settings.instance_id) == (7.0, "pod-0")
    assert (settings.max_record, settings.request_timeout, settings.acks) == (2 << 20, 20.0, "all")


async def test_bearer_tokens_reach_the_driver(tmp_path: Path) -> None:
    """One for good, or one in a file that somebody renews."""
    file = tmp_path / "token"
    file.write_text("first\n")
    for given, wanted in (({"token": "jwt"}, "jwt"), ({"token_file": str(file)}, "first")):
        sasl = {"mechanism": "OAUTHBEARER", **given}
        log = opened(tmp_path, kind="kafka", bootstrap_servers="a:1", security={"sasl": sasl})
        assert await log.driver._settings.sasl.token() == wanted
    file.write_text("second")
    assert await log.driver._settings.sasl.token() == "second"


def test_rabbitmq_settings_reach_the_driver(tmp_path: Path) -> None:
    """Every one of them, with TLS by name of its files."""
    log = opened(
        tmp_path,
        kind="rabbitmq", addresses=["a:1", "b:2"], vhost="shop", client_id="sky", heartbeat="20s",
        security={"username": "u", "password": "s3cret", "tls": {"verify_host": False}},
        topics={"create": True, "partitions": 3}, queue="{topic}.{group}.{partition}",
        dead_letter_queue="{topic}.letters", hash_exchange=True, prefetch=7, max_record="1MiB",
        in_flight={"records": 9, "bytes": "1KiB"},
    )  # fmt: skip
    settings = log.driver._settings
    assert (settings.addresses, settings.vhost, settings.client_id) == ("a:1,b:2", "shop", "sky")
    assert (settings.heartbeat, settings.username, settings.password) == (20, "u", "s3cret")
    assert (settings.auth, settings.tls.verify_host) == ("plain", False)
    assert (settings.create_topics, settings.partitions, settings.kind) == (True, 3, "quorum")
    assert settings.queue == "{topic}.{group}.{partition}"
    assert (settings.dead_letters, settings.hash_exchange) == ("{topic}.letters", True)
    assert (settings.prefetch, settings.max_record) == (7, 1 << 20)
    assert (log.bounds.records, log.bounds.bytes, log.bounds.publish_timeout) == (9, 1024, 20.0)


def test_a_certificate_says_who_we_are_on_rabbitmq(tmp_path: Path) -> None:
    """EXTERNAL: no user name and no password go along, not even the default ones. What is no
    certificate is found when the parts are made, with its setting."""
    for name in ("c", "k"):
        (tmp_path / name).write_text("not in PEM")
    tls = {"cert": str(tmp_path / "c"), "key": str(tmp_path / "k")}
    with pytest.raises(SetupError) as refused:
        opened(
            tmp_path, kind="rabbitmq", addresses="a:1",
            security={"mechanism": "EXTERNAL", "tls": tls},
        )  # fmt: skip
    assert refused.value.setting == "brokers.main.security.tls"


def test_pulsar_settings_reach_the_driver(tmp_path: Path) -> None:
    """Not one is accepted and then ignored; what was answered is not sent after it (rule 9)."""
    log = opened(
        tmp_path,
        kind="pulsar", service_url="pulsar+ssl://a:1,b:2", admin_url="https://a", namespace="t/n",
        client_id="sky", security={"token": "s3cret", "tls": {"verify_host": False}},
        topics={"create": True, "partitions": 3}, compression="zstd", receiver_queue=7,
        max_record="1MiB", client_log=str(tmp_path / "client.log"),
    )  # fmt: skip
    settings = log.driver._settings
    assert (settings.service_url, settings.admin_url) == ("pulsar+ssl://a:1,b:2", "https://a")
    assert (settings.namespace, settings.client_id) == ("t/n", "sky")
    assert (settings.token, settings.tls.verify_host, settings.oauth2) == ("s3cret", False, None)
    assert (settings.create_topics, settings.partitions) == (True, 3)
    assert (settings.compression, settings.receiver_queue) == ("zstd", 7)
    assert (settings.max_record, settings.send_timeout) == (1 << 20, 20.0)
    assert settings.client_log == str(tmp_path / "client.log")


def test_relaxed_routes_have_logs_of_their_own(tmp_path: Path) -> None:
    """Rule 1: beside the broker's own, which goes on waiting for all in-sync replicas."""
    routes = [
        {"name": "a", "to": {"broker": "main", "topic": "a"}, "durability": "relaxed", "acks": 0},
        {"name": "b", "to": {"broker": "main", "topic": "b"}, "durability": "relaxed"},
        {"name": "c", "to": {"broker": "main", "topic": "c"}},
    ]
    logs = all_opened(tmp_path, routes, kind="kafka", bootstrap_servers="a:1")
    acks = {name: log.driver._settings.acks for name, log in logs.items() if name.broker == "main"}
    assert acks == {LogName("main"): "all", LogName("main", 1): 1, LogName("main", 0): 0}


def all_opened(folder: Path, routes: list[Any], **broker: Any) -> dict[LogName, Any]:
    parts = config(folder).model_dump(mode="python")
    parts["brokers"]["main"] = broker
    parts["routes"] = routes or parts["routes"]
    parts["timeouts"]["publish"] = "20s"
    built = Config.model_validate(parts)
    return {**with_relaxed_logs(built, open_logs(built), Counters())}


def opened(folder: Path, **broker: Any) -> Any:
    return all_opened(folder, [], **broker)[LogName("main")]


def test_webhook_settings_reach_the_sink(tmp_path: Path) -> None:
    """Each subscription has a pool of its own, with the bounds it was given."""
    parts = config(tmp_path).model_dump(mode="python")
    parts["subscriptions"] = [{**SUBSCRIPTION, "concurrency": 7, "response_limit": "1KiB"}]
    parts["timeouts"] |= {"webhook_dns": "1s", "webhook_connect": "500ms"}
    parts["webhooks"] = {"allow_private": ["10.0.0.0/8"]}
    supervisor = supervisor_of(composed(Config.model_validate(parts)))
    assert supervisor is not None
    webhook: Any = supervisor._runs["hook"].sink
    client = webhook._client
    assert (client._connections, client._connector._limit) == (7, 1024)
    assert (client.names._timeout, client._connector._within) == (1.0, 0.5)
    assert client._allow_private == ("10.0.0.0/8",)


async def test_a_service_starts_takes_an_event_and_stops(tmp_path: Path) -> None:
    """The whole order once, in this process."""
    service = composed(config(tmp_path))
    await service.start()
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        ready = await client.get(f"{service.admin_url}/readyz")
        taken = await client.post(
            f"{service.events_url}/events",
            headers={"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"},
        )
    await service.stop()
    assert (ready.status_code, taken.status_code) == (200, 202)


async def test_a_failed_start_leaves_nothing_running(tmp_path: Path) -> None:
    """A port that is taken must not leave the log's folder locked behind it."""
    first = composed(config(tmp_path))
    await first.start()
    events_port = first.part(EventsComponent).port
    await first.stop()
    with socket.create_server(("127.0.0.1", events_port)):
        taken = config(tmp_path).model_dump(mode="python")
        taken["server"]["events"]["port"] = events_port
        taken["subscriptions"] = [SUBSCRIPTION]
        second = composed(Config.model_validate(taken))
        with pytest.raises(SetupError, match="cannot listen"):
            await second.start()
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("sub")] == []
    third = composed(config(tmp_path))
    await third.start()
    await third.stop()


async def test_a_log_that_cannot_be_opened_leaves_no_other_one_open(tmp_path: Path) -> None:
    """The folder of the first must not stay locked because the second is another process's."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    holder = composed(config(tmp_path / "a"))
    await holder.start()
    parts: dict[str, Any] = config(tmp_path / "b").model_dump(mode="python")
    parts["brokers"]["main"] = {"kind": "embedded", "path": tmp_path / "a" / "log"}
    with pytest.raises(SetupError):
        await composed(Config.model_validate(parts)).start()
    await holder.stop()
    again = composed(config(tmp_path / "b"))
    await again.start()
    await again.stop()


async def test_a_broker_that_is_away_does_not_stop_the_start(tmp_path: Path) -> None:
    """Readiness names it, and events for elsewhere are taken."""
    more = ""
    parts: dict[str, Any] = config(tmp_path, more).model_dump(mode="python")
    parts["brokers"]["main"] = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:1"}
    service = composed(Config.model_validate(parts), "gateway")
    await service.start()
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        status = (await client.get(f"{service.admin_url}/status")).json()
    await service.stop()
    assert status["ready"] is True
    assert status["brokers"]["main"]["healthy"] is False
    assert "127.0.0.1:1" in status["brokers"]["main"]["cause"]


async def three_logs(folder: Path) -> Service:
    """It runs."""
    parts: dict[str, Any] = config(folder).model_dump(mode="python")
    for name in ("main", "other"):
        parts["brokers"][name] = {"kind": "embedded", "path": folder / name}
    parts["timeouts"]["not_ready"] = 0
    service = composed(Config.model_validate(parts))
    await service.start()
    return service


async def test_readiness_asks_all_brokers_together(tmp_path: Path) -> None:
    """Each may take two seconds, and a probe waits for five. Each waits here until all have been asked."""
    service = await three_logs(tmp_path)
    brokers = service.part(BrokersComponent)
    asked, faults = asyncio.Barrier(3), brokers._targets.faults

    async def waiting(broker: str) -> Any:
        await asked.wait()
        return await faults(broker)

    brokers._targets.faults = waiting  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        assert (await service.readiness())["gateway"].ready
    await service.stop()


async def test_logs_are_closed_together(tmp_path: Path) -> None:
    """Rule 11: the way out is bounded, however many brokers are away. Each waits here until all have been told."""
    service = await three_logs(tmp_path)
    told = asyncio.Barrier(3)

    def waiting(stop: Any) -> Any:
        async def stopped() -> None:
            await told.wait()
            await stop()

        return stopped

    for log in service.part(BrokersComponent).logs.values():
        log.stop = waiting(log.stop)  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        await service.stop()
