"""Log in at a Kafka listener, and make produce requests for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.produce.v9.request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from scramp import ScramClient

from app.kafka_listener.wire import ErrorCode
from kafka_listening import RawClient

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
EVERY_TOPIC = MetadataRequest(
    topics=None,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)
"""A metadata request for all topics that the client may see."""


async def log_in(client: RawClient, mechanism: str, name: str, password: str) -> ErrorCode:
    """Log in as a client library does, and return the first error, or ``ErrorCode.none``."""
    agreed = await client.call(SaslHandshakeRequest(mechanism=mechanism))
    if agreed.error_code is not ErrorCode.none:
        return agreed.error_code
    if mechanism == "PLAIN":
        return (await prove(client, f"\0{name}\0{password}")).error_code
    scram = ScramClient([mechanism], name, password)
    first = await prove(client, scram.get_client_first())
    if first.error_code is not ErrorCode.none:
        return first.error_code
    scram.set_server_first(first.auth_bytes.decode())
    return (await prove(client, scram.get_client_final())).error_code


async def prove(client: RawClient, text: str) -> Any:
    return await client.call(SaslAuthenticateRequest(auth_bytes=text.encode()))


def produce_request(data: bytes, *topics: str, acks: int = -1) -> ProduceRequest:
    part = PartitionProduceData(index=0, records=data)
    return ProduceRequest(
        acks=acks,
        timeout=timedelta(seconds=60),
        topic_data=tuple(TopicProduceData(name=each, partition_data=(part,)) for each in topics),
    )
