"""The table of the offered APIs, each with its versions and its handler.

Only these APIs are advertised to clients. ``docs/embedded-log.md`` shows this table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from app.kafka_listener.commits import offset_commit, offset_delete, offset_fetch
from app.kafka_listener.configs import describe_configs
from app.kafka_listener.fetch import fetch
from app.kafka_listener.group_admin import delete_groups, describe_groups, list_groups
from app.kafka_listener.groups import (
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from app.kafka_listener.list_offsets import list_offsets
from app.kafka_listener.metadata import describe_cluster, metadata
from app.kafka_listener.node import KafkaNode, KafkaSession
from app.kafka_listener.produce import produce
from app.kafka_listener.producer_ids import init_producer_id
from app.kafka_listener.sasl import sasl_authenticate, sasl_handshake
from app.kafka_listener.topics import create_partitions, create_topics, delete_topics
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, KafkaRequest, OfferedVersions

Handler = Callable[[KafkaNode, KafkaSession, KafkaRequest], Awaitable[Any]]
"""A function that handles a request and returns the response, made of ``request.shapes``.

It returns None if there is no response, as for Produce with acks 0. Its code before the first
``await`` runs in the order of the requests of a connection.
"""


class Api(msgspec.Struct, frozen=True):
    """An API of Kafka's protocol as it is offered.

    Attributes:
        key: the API key.
        name: the name of the API.
        oldest: the oldest offered version.
        newest: the newest offered version.
        handler: handles requests.
        overlaps: whether the next request of this API may begin before this one is answered.
            Responses are sent in order.
        much: whether a small request may have a large response. Such a request waits while its user
            has too many unread response bytes.
        holds: whether the handler itself counts its response as unread.
    """

    key: int
    name: str
    oldest: int
    newest: int
    handler: Handler
    overlaps: bool = False
    much: bool = False
    holds: bool = False


async def _api_versions(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:  # noqa: ARG001
    """Return the offered APIs, also before a login (KIP-511).

    A request of an unknown newer version is answered in version 0, with an error and the same list.
    """
    shapes = request.shapes
    return shapes.ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version if request.version < 0 else ErrorCode.none,
        api_keys=tuple(
            shapes.ApiVersion(api_key=api.key, min_version=api.oldest, max_version=api.newest)
            for api in APIS.values()
        ),
        throttle_time=UNTHROTTLED,
    )


APIS: Mapping[int, Api] = {
    api.key: api
    for api in (
        Api(0, "Produce", 3, 11, produce, overlaps=True),
        Api(1, "Fetch", 4, 12, fetch, holds=True),
        Api(2, "ListOffsets", 1, 8, list_offsets),
        Api(3, "Metadata", 0, 12, metadata),
        Api(8, "OffsetCommit", 2, 9, offset_commit),
        Api(9, "OffsetFetch", 1, 9, offset_fetch, much=True),
        Api(10, "FindCoordinator", 0, 6, find_coordinator),
        Api(11, "JoinGroup", 0, 9, join_group),
        Api(12, "Heartbeat", 0, 4, heartbeat),
        Api(13, "LeaveGroup", 0, 5, leave_group),
        Api(14, "SyncGroup", 0, 5, sync_group),
        Api(15, "DescribeGroups", 0, 5, describe_groups, much=True),
        Api(16, "ListGroups", 0, 5, list_groups, much=True),
        Api(17, "SaslHandshake", 0, 1, sasl_handshake),
        Api(18, "ApiVersions", 0, 4, _api_versions),
        Api(19, "CreateTopics", 2, 7, create_topics),
        Api(20, "DeleteTopics", 1, 5, delete_topics),
        Api(22, "InitProducerId", 0, 5, init_producer_id),
        Api(32, "DescribeConfigs", 1, 4, describe_configs),
        Api(36, "SaslAuthenticate", 0, 2, sasl_authenticate),
        Api(37, "CreatePartitions", 0, 3, create_partitions),
        Api(42, "DeleteGroups", 0, 2, delete_groups),
        Api(47, "OffsetDelete", 0, 0, offset_delete),
        Api(60, "DescribeCluster", 0, 2, describe_cluster),
    )
}
OFFERED: OfferedVersions = {key: (api.oldest, api.newest) for key, api in APIS.items()}
