"""Open the log to which ``pipeline replay`` and ``redrive`` publish."""

from __future__ import annotations

from collections.abc import Sequence

from app.brokers import kafka
from app.brokers.security import ClientTls
from app.config.derived.kafka_logins import reader_logins
from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.config.model.kafka_listener import KafkaListener
from app.errors import SetupError
from app.features.brokers.logs import open_logs
from app.features.lake.settings import archived_place, archived_topics, kafka_place
from app.interfaces import Log
from app.model.producer import Producer


def target_log(config: Config, name: str, setting: str = "--to") -> Log:
    """Return the log of a Kafka broker, or of an embedded log through its Kafka listener. Raise SetupError
    for other brokers, because the lake has records of Kafka."""
    place = kafka_place(config, name, setting)
    broker = config.brokers[name]
    if not isinstance(broker, EmbeddedBroker):
        return open_logs(config)[name]
    listener = broker.kafka_listener
    assert isinstance(listener, KafkaListener)  # noqa: S101 - kafka_place demands it
    return kafka.open_log(
        name=name,
        bootstrap_servers=place.bootstrap_servers,
        tls=None if listener.tls is None else ClientTls(ca=listener.tls.cert),
        sasl=_login(listener, config.producers, setting),
        create_topics=listener.create_topics,
        partitions=broker.partitions,
    )


def archived(config: Config) -> list[tuple[str, str]]:
    """Return the broker and the name of each topic that ``archive`` reads. The list is empty if the
    configuration names no topics."""
    try:
        name = archived_place(config).broker
        return [(name, topic) for topic in archived_topics(config, name)]
    except SetupError:
        return []


def _login(
    listener: KafkaListener, producers: Sequence[Producer], setting: str
) -> kafka.SaslCredentials | None:
    found = reader_logins(listener, producers, setting)
    if found is None:
        return None
    return kafka.SaslCredentials(
        mechanism=found.mechanism, username=found.user, password=found.password
    )
