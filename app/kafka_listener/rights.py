"""Check what a client may do: the rights of its user, and the topics and groups that belong to the
service.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from app.access.rights import EVERY_RIGHT, Rights
from app.bindings.forwarding import ORIGIN_HEADERS, PRODUCER, without_headers
from app.bindings.kafka import decode
from app.bindings.record import Record
from app.errors import SenderError
from app.kafka_listener.batches import ProducedBatch
from app.kafka_listener.gate import MAX_FAULTS, MAX_REASON
from app.kafka_listener.node import KafkaNode, KafkaSession
from app.kafka_listener.wire import API_VERSIONS, ErrorCode, Malformed
from app.model.spool import spooled_route

BEFORE_LOGIN = frozenset({API_VERSIONS, 17, 36})  # 17 is SaslHandshake, 36 SaslAuthenticate
MAX_FRAME_BEFORE_LOGIN = 64 << 10  # bytes
_LENGTHS = frozenset(map(len, ORIGIN_HEADERS))


def proof_of(password: str) -> bytes:
    """Return a digest of a password. Digests have equal length, so they can be compared in constant
    time.
    """
    return hashlib.sha256(password.encode()).digest()


def demand_login(node: KafkaNode, session: KafkaSession, api: int, name: str) -> None:
    """Raise Malformed if this API needs a login and the client has none. ``name`` is the name of
    the API.

    The rights of the user are looked up at each request. A user that was removed, or has another
    password, is refused.
    """
    logins = node.logins
    if logins is None:
        session.user, session.authenticated = None, True
        return
    if session.authenticated:
        session.user = None if session.user is None else logins.holds(session.user)
        session.authenticated = session.user is not None
    if not session.authenticated and api not in BEFORE_LOGIN:
        raise Malformed(f"{name} before a login")


def max_frame(node: KafkaNode, session: KafkaSession) -> int:
    """Return the largest request in bytes. Before a login it is small, to protect the memory of
    other clients.
    """
    return node.settings.max_frame if session.authenticated else MAX_FRAME_BEFORE_LOGIN


def to_write(session: KafkaSession, topic: str) -> ErrorCode:
    """Return ``none`` if the session may write to the topic, else an error code. Only the service
    writes to a spool.
    """
    return _of_topic(allowed=spooled_route(topic) is None and session.access.write(topic))


def to_read(session: KafkaSession, topic: str) -> ErrorCode:
    """Return ``none`` if the session may read the topic, else an error code."""
    return _of_topic(allowed=session.access.read(topic))


def to_see(session: KafkaSession, topic: str) -> ErrorCode:
    """Return ``none`` if the session may describe the topic. As in Kafka, the right to read or
    write suffices.
    """
    access = session.access
    return _of_topic(allowed=access.read(topic) or access.write(topic))


def to_delete(session: KafkaSession, topic: str) -> ErrorCode:
    """Return ``none`` if the session may delete the topic with its records. Only a user with every
    right may delete a spool.
    """
    access = session.access
    return _of_topic(
        allowed=access is EVERY_RIGHT or (spooled_route(topic) is None and access.delete(topic))
    )


def to_administer(session: KafkaSession) -> ErrorCode:
    """Return ``none`` if the session may change any topic, which no producer may."""
    return _of_topic(allowed=session.access is EVERY_RIGHT)


def to_ask_group(session: KafkaSession, group: str) -> ErrorCode:
    """Return ``none`` if the session may describe the group, else an error code."""
    if session.access.groups(group):
        return ErrorCode.none
    return ErrorCode.group_authorization_failed


def to_use_group(node: KafkaNode, session: KafkaSession, group: str) -> ErrorCode:
    """Return ``none`` if the session may join the group and change its offsets. The group of a
    subscription belongs to the service.
    """
    if node.own_groups and group.startswith(node.own_groups):
        return ErrorCode.group_authorization_failed
    return to_ask_group(session, group)


def not_allowed(limits: Rights, records: Sequence[Record]) -> Mapping[int, str]:
    """Return the reason for each record whose key or event the producer may not send, by index.

    If sources or types are limited, a record that is no event is not allowed either.
    """
    found: dict[int, str] = {}
    for index, record in enumerate(records):
        try:
            faults = limits.faults_of_key(record.key)
            if limits.limits_events:
                faults += limits.faults_of(decode(record).own_attributes)
        except SenderError as error:
            found[index] = str(error)[:MAX_REASON]
        else:
            if faults:
                found[index] = " ".join(fault.detail for fault in faults)[:MAX_REASON]
        if len(found) >= MAX_FAULTS:
            break
    return found


def attributed(session: KafkaSession, batch: ProducedBatch) -> ProducedBatch:
    """Return the batch with the producer's name in each record, in place of any producer, intake
    or route that the client wrote.

    A user with every right copies and replays records of others, so its batches are unchanged.
    """
    if session.user is None or session.user.access is EVERY_RIGHT:
        return batch
    own = (PRODUCER, session.user.name.encode())
    records = []
    for each in batch.records:  # fast path: runs for every record
        headers = each.headers
        for name, _ in headers:
            if len(name) in _LENGTHS and name.lower() in ORIGIN_HEADERS:
                headers = without_headers(headers, ORIGIN_HEADERS)
                break
        records.append(Record(each.key, (own, *headers), each.body))
    return msgspec.structs.replace(batch, records=tuple(records))


def _of_topic(*, allowed: bool) -> ErrorCode:
    return ErrorCode.none if allowed else ErrorCode.topic_authorization_failed
