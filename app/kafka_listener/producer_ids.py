"""The InitProducerId API: return a unique id to each idempotent producer."""

from __future__ import annotations

from typing import Any

from app.errors import BrokerError
from app.kafka_listener.errors import code_of
from app.kafka_listener.node import KafkaNode, KafkaSession
from app.kafka_listener.produce import NO_TRANSACTIONS
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, KafkaRequest


async def init_producer_id(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:  # noqa: ARG001
    """Return a new producer id, also to a producer that has one already (KIP-360)."""
    code, producer = ErrorCode.none, -1
    if request.payload.transactional_id is not None:
        code = NO_TRANSACTIONS[0]
    else:
        try:
            producer = await node.engine.new_producer()
        except BrokerError as error:
            code = code_of(error)
    return request.shapes.InitProducerIdResponse(
        throttle_time=UNTHROTTLED,
        error_code=code,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
    )
