"""InitProducerId: an id for each idempotent producer, which no other ever had."""

from __future__ import annotations

from typing import Any

from app.errors import BrokerError
from app.kafka_listener.errors import code_of
from app.kafka_listener.node import Node, Session
from app.kafka_listener.produce import NO_TRANSACTIONS
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, Request


async def init_producer_id(node: Node, session: Session, request: Request) -> Any:  # noqa: ARG001
    """Also for a producer that has one and wants a new one (KIP-360)."""
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
