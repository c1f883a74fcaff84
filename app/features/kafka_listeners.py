"""Open the Kafka listener of an embedded broker from its settings."""

from __future__ import annotations

import asyncio
import logging

from app.access.who import ProducerDirectory
from app.api.status.answers import KafkaListenerView
from app.brokers.embedded import EmbeddedDriver
from app.brokers.portable import PortableLog
from app.config.derived.kafka_logins import KafkaLogins, kafka_logins
from app.config.model.brokers import EmbeddedBroker, KafkaListener
from app.config.model.config import Config
from app.config.model.kafka_listener import split
from app.errors import SetupError
from app.features.descriptors import current_shares
from app.features.listening import tls_of
from app.gateway.port import is_loopback
from app.gateway.tls import Certificates
from app.interfaces import Clock
from app.kafka_listener.gate import CloudEventsGate
from app.kafka_listener.node import KafkaListenerSettings, KafkaNode
from app.kafka_listener.sasl import SaslUsers
from app.kafka_listener.server import KafkaListenerServer as Server
from app.model.spool import group_name
from app.telemetry import Counters

_log = logging.getLogger(__name__)


class OpenListener:
    """An open Kafka listener, with the task that watches its certificate."""

    def __init__(self, node: KafkaNode, server: Server, watch: asyncio.Task[None] | None) -> None:
        self._node = node
        self._server = server
        self._watch = watch

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port."""
        return self._server.address

    def view(self, log: str) -> KafkaListenerView:
        """Return the state of the listener. ``log`` is the name of its embedded log."""
        host, port = self.address
        return KafkaListenerView(
            broker=log,
            address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            connections=self._server.connections,
            held_bytes=self._server.held,
            refused_connections=self._node.refused_connections,
            refused_frames=self._node.refused_frames.count,
        )

    def require_logins(self, logins: SaslUsers | None) -> None:
        """Require these logins from the next request on. They also apply to clients that have logged in
        already."""
        self._node.logins = logins

    async def stop(self, drain: float) -> None:
        """Stop the listener within ``drain`` seconds."""
        if self._watch is not None:
            self._watch.cancel()
        await self._server.stop(drain)


async def open_kafka_listener(
    config: Config,
    name: str,
    log: PortableLog,
    clock: Clock,
    counters: Counters,
    producers: ProducerDirectory,
) -> OpenListener:
    """Open the Kafka listener of an embedded log. The log must have started. Raise SetupError if the port or
    a login cannot be used."""
    broker, driver = config.brokers[name], log.driver
    assert isinstance(broker, EmbeddedBroker)  # noqa: S101 - no other kind can have one
    assert isinstance(driver, EmbeddedDriver)  # noqa: S101 - as ``open_logs`` creates it
    settings = broker.kafka_listener
    assert settings is not None  # noqa: S101 - the caller has checked it
    setting = f"brokers.{name}.kafka_listener"
    logins = await logins_of(config, name, producers)
    node = KafkaNode(
        engine=driver.engine,
        gate=CloudEventsGate(_validated_topics(broker)),
        clock=clock,
        settings=bounds_of(settings, current_shares(config).kafka),
        cluster=driver.engine.cluster,
        counters=counters,
        logins=logins,
        own_groups=group_name(config.installation, ""),
    )
    tls = tls_of(settings.tls)
    certificates = None if tls is None else Certificates(tls, f"{setting}.tls")
    context = None if certificates is None else certificates.context
    server = Server(node, setting=f"{setting}.listen", tls=context)
    await server.start()
    _log.info("log %s: the Kafka listener is at %s:%d", name, *server.address)
    watching = None if certificates is None else certificates.watch()
    return OpenListener(node, server, watching)


def _demand_loopback(settings: KafkaListener, setting: str) -> None:
    """Raise SetupError if a listener without logins is reachable from other machines."""
    host, _ = split(settings.listen)
    if not is_loopback(host):
        raise SetupError(
            "a Kafka listener that is not on loopback needs logins",
            setting=setting,
            cure="add producers with kafka, or listen on 127.0.0.1",
        )


def _validated_topics(broker: EmbeddedBroker) -> list[str]:
    """Return the topics whose records must be CloudEvents."""
    return [name for name, topic in broker.topics.items() if topic.validation == "cloudevents"]


def bounds_of(settings: KafkaListener, connections: int) -> KafkaListenerSettings:
    """Return the settings of a listener. ``connections`` is the maximum number of open connections."""
    host, port = split(settings.listen)
    return KafkaListenerSettings(
        host=host,
        port=port,
        advertised=None if settings.advertised is None else split(settings.advertised),
        create_topics=settings.create_topics,
        max_partitions=settings.max_partitions,
        connections=connections,
        session_timeouts=(settings.min_session_timeout, settings.max_session_timeout),
    )


async def logins_of(config: Config, name: str, producers: ProducerDirectory) -> SaslUsers | None:
    """Return the logins of a broker's Kafka listener. Return None if there is no listener, or clients need
    not log in. The work runs in a thread, because deriving SCRAM keys from a password takes milliseconds."""
    broker = config.brokers.get(name)
    if not isinstance(broker, EmbeddedBroker) or broker.kafka_listener is None:
        return None
    found = kafka_logins(broker.kafka_listener, config.producers)
    if found is None:
        _demand_loopback(broker.kafka_listener, f"brokers.{name}.kafka_listener")
        return None
    return await asyncio.to_thread(_derive_logins, found, producers)


def _derive_logins(found: KafkaLogins, producers: ProducerDirectory) -> SaslUsers:
    """Return the logins with derived keys."""
    passwords = {user: secret.get_secret_value() for user, secret in found.passwords.items()}
    return SaslUsers(passwords, found.mechanisms, producers.kafka)
