"""Pulsar."""

from __future__ import annotations

from app.brokers import pulsar
from app.brokers.portable import Bounds, PortableLog
from app.config.brokers import OAuth2, PulsarBroker
from app.runtime.drivers.security import revealed, tls_of


def open_pulsar(name: str, broker: PulsarBroker, bounds: Bounds) -> PortableLog:
    return pulsar.open_log(
        name=name,
        service_url=broker.service_url,
        admin_url=broker.admin_url,
        namespace=broker.namespace,
        client_id=broker.client_id,
        tls=tls_of(pulsar.Tls, broker.security.tls),
        token=None if broker.security.token is None else revealed(broker.security.token),
        oauth2=_oauth2(broker.security.oauth2),
        compression=None if broker.compression == "none" else broker.compression,
        create_topics=broker.topics.create,
        partitions=broker.topics.partitions,
        send_timeout=bounds.publish_timeout,
        max_record=broker.max_record,
        receiver_queue=broker.receiver_queue,
        client_log=None if broker.client_log is None else str(broker.client_log),
        bounds=bounds,
    )


def _oauth2(settings: OAuth2 | None) -> pulsar.OAuth2 | None:
    if settings is None:
        return None
    return pulsar.OAuth2(
        issuer_url=settings.issuer_url,
        credentials=str(settings.credentials),
        audience=settings.audience,
        scope=settings.scope,
    )
