"""RabbitMQ."""

from __future__ import annotations

from app.brokers import rabbitmq
from app.brokers.portable import Bounds, PortableLog
from app.config.brokers import RabbitBroker
from app.interfaces import OffsetStore
from app.runtime.drivers.security import revealed, tls_of


def open_rabbitmq(
    name: str, broker: RabbitBroker, bounds: Bounds, offsets: OffsetStore | None
) -> PortableLog:
    security = broker.security
    external = security.mechanism == "EXTERNAL"
    return rabbitmq.open_log(
        name=name,
        addresses=broker.addresses,
        vhost=broker.vhost,
        username="" if external else security.username,
        password="" if external else revealed(security.password),
        auth="external" if external else "plain",
        tls=tls_of(rabbitmq.Tls, security.tls),
        client_id=broker.client_id,
        heartbeat=round(broker.heartbeat),
        create_topics=broker.topics.create,
        partitions=broker.topics.partitions,
        queue=broker.queue,
        kind=broker.queue_type,
        dead_letters=broker.dead_letter_queue,
        hash_exchange=broker.hash_exchange,
        prefetch=broker.prefetch,
        max_record=broker.max_record,
        bounds=bounds,
        offsets=offsets,
    )
