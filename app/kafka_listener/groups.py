"""The APIs of group members: find the coordinator, join, get an assignment, send heartbeats and
leave.

Skybridge's own workers use the same state machine, so clients and workers may be in one group.
Clients assign partitions by the strategies of their own libraries; the workers know ``range`` only.
A member that shares no strategy with all other members is refused with INCONSISTENT_GROUP_PROTOCOL.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from app.kafka_listener.node import NODE_ID, KafkaNode, KafkaSession
from app.kafka_listener.produce import NO_TRANSACTIONS
from app.kafka_listener.rights import to_use_group
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, KafkaRequest
from app.log.groups.protocol import Code, GroupJoinRequest, GroupJoinResult

GROUPS = 0  # Kafka's number for the coordinator of groups
MAX_NAME = 255
MAX_METADATA = 1 << 20  # bytes that one member may send to the leader of the group
MEMBER_ID_SINCE = 4  # from this version on, a member first gets an id, then joins (KIP-394)


async def find_coordinator(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:  # noqa: ARG001
    """Return the coordinator of every group: the only node."""
    shapes, payload = request.shapes, request.payload
    host, port = node.address
    code, message = (ErrorCode.none, None)
    if getattr(payload, "key_type", GROUPS) != GROUPS:
        code, message = NO_TRANSACTIONS
        host, port = "", -1
    found = {
        "error_code": code,
        "error_message": message,
        "node_id": NODE_ID if code is ErrorCode.none else -1,
        "host": host,
        "port": port,
    }
    return shapes.FindCoordinatorResponse(
        throttle_time=UNTHROTTLED,
        **found,
        coordinators=tuple(
            shapes.Coordinator(key=key, **found) for key in getattr(payload, "coordinator_keys", ())
        ),
    )


async def join_group(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Let a member join its group.

    A client without an id gets one and joins with it in a second request. So a lost response leaves
    no unknown member in the group.
    """
    payload = request.payload
    instance = getattr(payload, "group_instance_id", None)
    member = payload.member_id or f"{instance or request.client[:MAX_NAME]}-{uuid4().hex}"
    code = to_use_group(node, session, payload.group_id)
    if code is ErrorCode.none:
        code = _join_refusal(node, payload)
    if code is not ErrorCode.none:
        return _joined(request, payload.member_id, code, GroupJoinResult())
    if not payload.member_id and instance is None and request.version >= MEMBER_ID_SINCE:
        node.coordinator.invite(payload.group_id, member)
        return _joined(request, member, ErrorCode.member_id_required, GroupJoinResult())
    join = _join(request, session, member, instance)
    session.notice_within(join.session_timeout)
    joined = await node.coordinator.join(payload.group_id, join)
    return _joined(request, member, ErrorCode(joined.code.value), joined)


async def sync_group(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Return the assignment of a member. The leader's request contains the assignments of all
    members.
    """
    payload = request.payload
    group = node.coordinator.group(payload.group_id)
    kind, protocol = (group.kind, group.protocol) if group else ("", "")
    code, assignment = ErrorCode.inconsistent_group_protocol, b""
    if (refusal := to_use_group(node, session, payload.group_id)) is not ErrorCode.none:
        code, kind, protocol = refusal, "", ""
    elif _agrees(payload, kind, protocol) or group is None:
        synced = await node.coordinator.sync(
            payload.group_id,
            payload.member_id,
            payload.generation_id,
            {each.member_id: each.assignment for each in payload.assignments},
            getattr(payload, "group_instance_id", None),
        )
        code, assignment = ErrorCode(synced.code.value), synced.assignment
    return request.shapes.SyncGroupResponse(
        throttle_time=UNTHROTTLED,
        error_code=code,
        protocol_type=kind or None,
        protocol_name=protocol or None,
        assignment=assignment,
    )


async def heartbeat(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Keep a member in its group, or return the reason why it must join again."""
    payload = request.payload
    code = to_use_group(node, session, payload.group_id)
    if code is ErrorCode.none:
        beaten = node.coordinator.heartbeat(
            payload.group_id,
            payload.member_id,
            payload.generation_id,
            getattr(payload, "group_instance_id", None),
        )
        code = ErrorCode(beaten.value)
    return request.shapes.HeartbeatResponse(throttle_time=UNTHROTTLED, error_code=code)


async def leave_group(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Remove one member, or several at once, by member id or instance id. Admin tools remove stuck
    members with it.
    """
    shapes, payload = request.shapes, request.payload
    leaving = getattr(payload, "members", (payload,))
    refusal = to_use_group(node, session, payload.group_id)
    if refusal is not ErrorCode.none:
        return shapes.LeaveGroupResponse(throttle_time=UNTHROTTLED, error_code=refusal, members=())
    codes = [_leave(node, payload.group_id, each) for each in leaving]
    one = ErrorCode.none if hasattr(payload, "members") else codes[0]
    return shapes.LeaveGroupResponse(
        throttle_time=UNTHROTTLED,
        error_code=one,
        members=tuple(_leave_results(shapes, leaving, codes))
        if hasattr(payload, "members")
        else (),
    )


def _join_refusal(node: KafkaNode, payload: Any) -> ErrorCode:
    shortest, longest = node.settings.session_timeouts
    size = sum(len(each.name) + len(each.metadata) for each in payload.protocols)
    if not 0 < len(payload.group_id) <= MAX_NAME:
        return ErrorCode.invalid_group_id
    if not shortest <= payload.session_timeout.total_seconds() <= longest:
        return ErrorCode.invalid_session_timeout
    if not payload.protocol_type or not payload.protocols:
        return ErrorCode.inconsistent_group_protocol
    instance = getattr(payload, "group_instance_id", None)
    if size > MAX_METADATA or len(payload.member_id) > 2 * MAX_NAME:
        return ErrorCode.invalid_request
    if instance is not None and not 0 < len(instance) <= MAX_NAME:
        return ErrorCode.invalid_request
    return ErrorCode.none


def _join(
    request: KafkaRequest, session: KafkaSession, member: str, instance: str | None
) -> GroupJoinRequest:
    payload = request.payload
    session_timeout = payload.session_timeout.total_seconds()
    rebalance = getattr(payload, "rebalance_timeout", timedelta(0)).total_seconds()
    return GroupJoinRequest(
        member=member,
        instance=instance,
        returning=bool(payload.member_id),
        client=request.client,
        host=f"/{session.peer.rpartition(':')[0]}",
        kind=payload.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in payload.protocols),
        session_timeout=session_timeout,
        user=session.name,
        owner=session.owner,
        rebalance_timeout=rebalance if rebalance > 0 else session_timeout,
    )


def _joined(request: KafkaRequest, member: str, code: ErrorCode, joined: GroupJoinResult) -> Any:
    shapes = request.shapes
    return shapes.JoinGroupResponse(
        throttle_time=UNTHROTTLED,
        error_code=code,
        generation_id=joined.generation,
        protocol_type=joined.kind or None,
        protocol_name=joined.protocol,
        leader=joined.leader,
        skip_assignment=joined.assigned,
        member_id=member,
        members=tuple(
            shapes.JoinGroupResponseMember(
                member_id=peer.member, group_instance_id=peer.instance, metadata=peer.metadata
            )
            for peer in joined.peers
        ),
    )


def _agrees(payload: Any, kind: str, protocol: str) -> bool:
    """Return True if the client named the right group type and protocol. Older versions of the API
    name neither."""
    believed_kind = getattr(payload, "protocol_type", None)
    believed_protocol = getattr(payload, "protocol_name", None)
    return believed_kind in (None, kind) and believed_protocol in (None, protocol)


def _leave(node: KafkaNode, group_id: str, leaving: Any) -> ErrorCode:
    member, instance = leaving.member_id, getattr(leaving, "group_instance_id", None)
    group = node.coordinator.group(group_id)
    if group is not None and instance is not None:
        holder = group.holder(instance)
        if holder is None:
            return ErrorCode.unknown_member_id
        if member not in ("", holder):
            return ErrorCode.fenced_instance_id
        member = holder
    code = node.coordinator.leave(group_id, member)
    return ErrorCode.none if code is Code.NONE else ErrorCode(code.value)


def _leave_results(
    shapes: Any, leaving: Iterable[Any], codes: Iterable[ErrorCode]
) -> Iterable[Any]:
    for each, code in zip(leaving, codes, strict=True):
        yield shapes.MemberResponse(
            member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
        )
