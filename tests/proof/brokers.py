"""A broker of its own for one service on loopback: Kafka, RabbitMQ or Pulsar, or none for the embedded log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server_process import ServerProcess

LOGS = ("embedded", "kafka", "rabbitmq", "pulsar")
_TOPICS = {"create": True, "partitions": 8}


def server_of(log: str) -> tuple[ServerProcess | None, Mapping[str, Any]]:
    """Return a server of this kind that is not started, and its settings. The embedded log has neither."""
    if log == "kafka":
        from kafka_server import KafkaServer

        kafka = KafkaServer(brief=False)
        more = {"bootstrap_servers": kafka.bootstrap_servers, "session_timeout": "6s"}
        return kafka, {"kind": log, "topics": _TOPICS, **more}
    if log == "rabbitmq":
        from rabbitmq_server import RabbitServer

        rabbit = RabbitServer()
        more = {"addresses": rabbit.address, "queue": "{topic}.{group}.{partition}"}
        return rabbit, {"kind": log, "topics": _TOPICS, **more}
    if log == "pulsar":
        from pulsar_server import PulsarServer

        pulsar = PulsarServer()
        more = {"service_url": pulsar.service_url, "admin_url": pulsar.admin_url}
        return pulsar, {"kind": log, "topics": _TOPICS, **more}
    return None, {}
