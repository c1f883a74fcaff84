"""What a client may do: the rights of its user, and what is nobody's but the service's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from app.access.rights import EVERY_RIGHT, Rights
from app.bindings.forwarding import PRODUCER, without
from app.bindings.kafka import decode
from app.bindings.record import Record
from app.errors import SenderError
from app.kafka_listener.batches import Arrived
from app.kafka_listener.gate import CLIPPED, NAMED
from app.kafka_listener.node import Node, Session
from app.kafka_listener.wire import API_VERSIONS, ErrorCode, Malformed
from app.model.spool import spooled_route

BEFORE_LOGIN = frozenset({API_VERSIONS, 17, 36})  # beside it SaslHandshake and SaslAuthenticate
STRANGERS_FRAME = 64 << 10  # bytes
_LENGTH = len(PRODUCER)


def proof_of(password: str) -> bytes:
    """Of equal length, for a comparison in constant time."""
    return hashlib.sha256(password.encode()).digest()


def demand_login(node: Node, session: Session, api: int, name: str) -> None:
    """Raise Malformed for an API that needs a login. A user that the configuration has no more, or with another
    password, is refused at its next request; a change of its rights holds from there on."""
    logins = node.logins
    if logins is None:
        session.user, session.authenticated = None, True
        return
    if session.authenticated:
        session.user = None if session.user is None else logins.holds(session.user)
        session.authenticated = session.user is not None
    if not session.authenticated and api not in BEFORE_LOGIN:
        raise Malformed(f"{name} before a login")


def most_of_frame(node: Node, session: Session) -> int:
    """Return the bytes of the largest frame. Strangers are given little of the room and of the time of others."""
    return node.settings.max_frame if session.authenticated else STRANGERS_FRAME


def to_write(session: Session, topic: str) -> ErrorCode:
    """Into a spool the service alone writes: its records say where they go."""
    return _of_topic(allowed=spooled_route(topic) is None and session.access.write(topic))


def to_read(session: Session, topic: str) -> ErrorCode:
    return _of_topic(allowed=session.access.read(topic))


def to_see(session: Session, topic: str) -> ErrorCode:
    """As in Kafka, a user that may read or write a topic may describe it."""
    access = session.access
    return _of_topic(allowed=access.read(topic) or access.write(topic))


def to_delete(session: Session, topic: str) -> ErrorCode:
    """A topic with its records. A spool is the service's."""
    access = session.access
    return _of_topic(
        allowed=access is EVERY_RIGHT or (spooled_route(topic) is None and access.delete(topic))
    )


def to_administer(session: Session) -> ErrorCode:
    """Topics as a whole: no right of a producer."""
    return _of_topic(allowed=session.access is EVERY_RIGHT)


def to_ask_group(session: Session, group: str) -> ErrorCode:
    if session.access.groups(group):
        return ErrorCode.none
    return ErrorCode.group_authorization_failed


def to_use_group(node: Node, session: Session, group: str) -> ErrorCode:
    """To be its member, and to move or forget its positions. The group of a subscription is the service's."""
    if node.own_groups and group.startswith(node.own_groups):
        return ErrorCode.group_authorization_failed
    return to_ask_group(session, group)


def not_allowed(limits: Rights, records: Sequence[Record]) -> Mapping[int, str]:
    """Index of each record that its producer may not send, to why: its key, or its event. Where sources or types are
    limited, a record that is no event is one of them."""
    found: dict[int, str] = {}
    for index, record in enumerate(records):
        try:
            faults = limits.faults_of_key(record.key)
            if limits.limits_events:
                faults += limits.faults_of(decode(record).own_attributes)
        except SenderError as error:
            found[index] = str(error)[:CLIPPED]
        else:
            if faults:
                found[index] = " ".join(fault.detail for fault in faults)[:CLIPPED]
        if len(found) >= NAMED:
            break
    return found


def attributed(session: Session, batch: Arrived) -> Arrived:
    """Return the batch with the name of its producer in each record, in the place of what the client wrote there.
    A user with every right copies and replays records of others, so its batches stay as they are."""
    if session.user is None or session.user.access is EVERY_RIGHT:
        return batch
    own = (PRODUCER, session.user.name.encode())
    records = []
    for each in batch.records:  # hot: the cost of every record
        headers = each.headers
        for name, _ in headers:
            if len(name) == _LENGTH and name.lower() == PRODUCER:
                headers = without(headers, PRODUCER)
                break
        records.append(Record(each.key, (own, *headers), each.body))
    return msgspec.structs.replace(batch, records=tuple(records))


def _of_topic(*, allowed: bool) -> ErrorCode:
    return ErrorCode.none if allowed else ErrorCode.topic_authorization_failed
