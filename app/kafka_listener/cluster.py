"""DescribeCluster: the one node."""

from __future__ import annotations

from typing import Any

from app.kafka_listener.node import NODE_ID, Node, Session
from app.kafka_listener.wire import UNASKED_RIGHTS, UNTHROTTLED, ErrorCode, Request

NODES = 1  # the kind of endpoints that there are; 2 are controllers


async def describe_cluster(node: Node, session: Session, request: Request) -> Any:  # noqa: ARG001
    """Requests for controllers are told that this is none."""
    shapes = request.shapes
    kind = getattr(request.payload, "endpoint_type", NODES)
    host, port = node.address
    here = shapes.DescribeClusterBroker(
        broker_id=NODE_ID, host=host, port=port, rack=None, is_fenced=False
    )
    found = kind == NODES
    return shapes.DescribeClusterResponse(
        throttle_time=UNTHROTTLED,
        error_code=ErrorCode.none if found else ErrorCode.mismatched_endpoint_type,
        error_message=None if found else "this is a node, and no controller",
        endpoint_type=kind,
        cluster_id=node.cluster if found else "",
        controller_id=NODE_ID if found else -1,
        brokers=(here,) if found else (),
        cluster_authorized_operations=UNASKED_RIGHTS,
    )
