"""ApiVersions: what is offered, to every client, before it says who it is (KIP-511)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from app.kafka_listener.node import Node, Session
from app.kafka_listener.wire import ErrorCode, Request


async def api_versions(node: Node, session: Session, request: Request) -> Any:  # noqa: ARG001
    """A version from the future is answered in version 0, with an error and the same list."""
    from app.kafka_listener.apis import APIS  # noqa: PLC0415 - the table holds this handler

    shapes = request.shapes
    return shapes.ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version if request.version < 0 else ErrorCode.none,
        api_keys=tuple(
            shapes.ApiVersion(api_key=api.key, min_version=api.oldest, max_version=api.newest)
            for api in APIS.values()
        ),
        throttle_time=timedelta(0),
    )
