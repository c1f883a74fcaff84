"""Kafka."""

from __future__ import annotations

from typing import Literal

from app.brokers import kafka
from app.brokers.portable import Bounds, PortableLog
from app.config.brokers import KafkaBroker, Sasl
from app.runtime.drivers.security import revealed, tls_of
from app.runtime.tokens import token_source

ANSWER = 10.0  # seconds: of one answer, at least; see ``KafkaSettings.request_timeout``


def open_kafka(
    name: str, broker: KafkaBroker, bounds: Bounds, acks: Literal["all", 1, 0] = "all"
) -> PortableLog:
    return kafka.open_log(
        name=name,
        bootstrap_servers=broker.bootstrap_servers,
        client_id=broker.client_id,
        tls=tls_of(kafka.Tls, broker.security.encryption),
        sasl=_sasl(broker.security.sasl),
        acks=acks,
        compression=None if broker.compression == "none" else broker.compression,
        create_topics=broker.topics.create,
        partitions=broker.topics.partitions,
        replication=broker.topics.replication,
        request_timeout=max(ANSWER, bounds.publish_timeout),
        max_record=broker.max_record,
        session_timeout=broker.session_timeout,
        instance_id=broker.instance_id,
        bounds=bounds,
    )


def _sasl(sasl: Sasl | None) -> kafka.Sasl | kafka.OAuth | None:
    if sasl is None:
        return None
    if sasl.mechanism == "OAUTHBEARER":
        return kafka.OAuth(token=token_source(sasl))
    return kafka.Sasl(
        mechanism=sasl.mechanism, username=sasl.username or "", password=revealed(sasl.password)
    )
