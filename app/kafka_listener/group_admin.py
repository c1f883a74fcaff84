"""The APIs to list, describe and delete groups."""

from __future__ import annotations

from typing import Any

from app.errors import BrokerError
from app.kafka_listener.node import KafkaNode, KafkaSession
from app.kafka_listener.rights import to_ask_group, to_use_group
from app.kafka_listener.wire import RIGHTS_NOT_REQUESTED, UNTHROTTLED, ErrorCode, KafkaRequest
from app.log.groups.protocol import GroupState
from app.log.groups.state_machine import ConsumerGroup

KIND = "classic"  # the only supported group protocol


async def list_groups(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Return the groups that the user may see. Filters by state and type apply if the request has
    them.
    """
    shapes, payload = request.shapes, request.payload
    states = {each.lower() for each in getattr(payload, "states_filter", ())}
    kinds = {each.lower() for each in getattr(payload, "types_filter", ())}
    listed = [(name, node.coordinator.group(name)) for name in node.coordinator.groups()]
    seen = [each for each in listed if to_ask_group(session, each[0]) is ErrorCode.none]
    return shapes.ListGroupsResponse(
        throttle_time=UNTHROTTLED,
        error_code=ErrorCode.none,
        groups=tuple(
            shapes.ListedGroup(
                group_id=name,
                protocol_type=group.kind if group else "",
                group_state=_state(group).value,
                group_type=KIND,
            )
            for name, group in seen
            if (not states or _state(group).value.lower() in states)
            and (not kinds or KIND in kinds)
        ),
    )


async def describe_groups(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Return the state and members of each requested group once. An unknown group is reported as
    dead, as Kafka does in these versions.
    """
    shapes = request.shapes
    known = set(node.coordinator.groups())
    described = [
        _described(shapes, name, node.coordinator.group(name), known=name in known)
        if (code := to_ask_group(session, name)) is ErrorCode.none
        else _hidden(shapes, name, code)
        for name in dict.fromkeys(request.payload.groups)
    ]
    return shapes.DescribeGroupsResponse(throttle_time=UNTHROTTLED, groups=tuple(described))


async def delete_groups(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Delete groups without members. A group of a subscription of Skybridge is never deleted by a
    client.
    """
    shapes = request.shapes
    return shapes.DeleteGroupsResponse(
        throttle_time=UNTHROTTLED,
        results=tuple(
            [
                shapes.DeletableGroupResult(
                    group_id=name, error_code=await _delete(node, session, name)
                )
                for name in request.payload.groups_names
            ]
        ),
    )


async def _delete(node: KafkaNode, session: KafkaSession, name: str) -> ErrorCode:
    if (code := to_use_group(node, session, name)) is not ErrorCode.none:
        return code
    if node.coordinator.group(name) or node.engine.groups.positions.declared_of(name):
        return ErrorCode.non_empty_group
    if not node.engine.groups.positions.knows(name):
        return ErrorCode.group_id_not_found
    try:
        await node.engine.groups.remove(name)
    except BrokerError:
        return ErrorCode.coordinator_not_available
    return ErrorCode.none


def _state(group: ConsumerGroup | None) -> GroupState:
    return GroupState.EMPTY if group is None else group.state


def _hidden(shapes: Any, name: str, code: ErrorCode) -> Any:
    return shapes.DescribedGroup(
        error_code=code,
        group_id=name,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=RIGHTS_NOT_REQUESTED,
    )


def _described(shapes: Any, name: str, group: ConsumerGroup | None, *, known: bool) -> Any:
    protocol = group.protocol if group and group.state is GroupState.STABLE else ""
    return shapes.DescribedGroup(
        error_code=ErrorCode.none,
        group_id=name,
        group_state=(_state(group) if known else GroupState.DEAD).value,
        protocol_type=group.kind if group else "",
        protocol_data=protocol,
        members=tuple(
            shapes.DescribedGroupMember(
                member_id=member,
                group_instance_id=each.join.instance,
                client_id=each.join.client,
                client_host=each.join.host or "/skybridge",
                member_metadata=each.metadata(protocol),
                member_assignment=each.assignment if protocol else b"",
            )
            for member, each in (group.members.items() if group else ())
        ),
        authorized_operations=RIGHTS_NOT_REQUESTED,
    )
