"""Kafka's protocol: requests and batches at the listener, records and answers of a broker, and logins."""

from __future__ import annotations

import struct
from contextlib import suppress

from aiokafka.errors import CorruptRecordException, KafkaError
from crc32c import crc32c

from app.bindings.record import Record
from app.brokers.kafka.produce_request import (
    NEWEST,
    OLDEST,
    identity_answer,
    produce_answers,
    produce_version,
)
from app.brokers.kafka.records import FetchedRecords
from app.kafka_listener.apis import OFFERED
from app.kafka_listener.batches import CHECKED, CRC, HEADER, LENGTH_END, ProducedBatch, read_batch
from app.kafka_listener.errors import KafkaRequestRefused
from app.kafka_listener.sasl import PLAIN, SCRAM, LoginDenied, SaslUsers
from app.kafka_listener.wire import Malformed, read_request
from fuzz.target import Target, demand
from kafka_batches import batch
from kafka_capture import frames

_BOUND = 1 << 20
_MAGIC = 16
_USERS = SaslUsers({"user": "password"}, [PLAIN, *SCRAM])
_UNREADABLE = (struct.error, IndexError, UnicodeDecodeError)
"""The errors that a publisher expects of an answer that is not of the protocol."""


def check_request(data: bytes) -> None:
    """Read a request, or refuse it as malformed."""
    try:
        request = read_request(data, OFFERED)
    except Malformed as error:
        demand(bool(str(error)))
        return
    assert request.api in OFFERED


def _whole(data: bytes) -> bytes:
    """Return a batch of format 2 with the right length and checksum, made of these bytes."""
    head = bytearray(data[: HEADER.size].ljust(HEADER.size, b"\0"))
    rest = data[HEADER.size :]
    head[_MAGIC] = 2
    struct.pack_into(">i", head, LENGTH_END - 4, HEADER.size - LENGTH_END + len(rest))
    struct.pack_into(">I", head, CRC, crc32c(bytes(head[CHECKED:]) + rest))
    return bytes(head) + rest


def check_produced(data: bytes) -> None:
    """Read a produced batch, or refuse it. What is accepted, a consumer of ours reads as the same records.

    The listener gives offsets of its own, so a batch may have any. A consumer leaves out records whose offsets go back.
    """
    whole = _whole(data)
    try:
        found: ProducedBatch = read_batch(whole, _BOUND)
    except KafkaRequestRefused:
        return
    fetched = list(FetchedRecords(whole, None, -(1 << 63)))
    base = HEADER.unpack_from(whole)[0]
    if [each.offset - base for each in fetched] == [*range(len(found.records))]:
        records = [Record(each.key, tuple(each.headers), each.value) for each in fetched]
        assert records == [*found.records]


def check_fetched(data: bytes) -> None:
    """Read the records of a broker, or call the batch damaged; with and without the right checksum."""
    for raw in (data, _whole(data), _whole(data) + data):
        records = FetchedRecords(raw, [(1, 0), (2, 5)], 0)
        try:
            offsets = [each.offset for each in records]
        except CorruptRecordException:
            continue
        assert all(offset < records.next_fetch_offset for offset in offsets)


def check_answer(data: bytes) -> None:
    """Read the answer to a Produce request of each version, or call it unreadable."""
    for version in range(OLDEST, NEWEST + 1):
        try:
            produce_answers(data, version)
        except _UNREADABLE:
            continue
    with suppress(KafkaError):
        identity_answer(data)
    try:
        chosen = produce_version(data)
    except KafkaError:
        return
    assert chosen is None or OLDEST <= chosen <= NEWEST


def check_login(data: bytes) -> None:
    """Take the steps of a login, which is denied to all who do not know the password."""
    which, *tokens = data.split(b"\n")
    mechanism = (PLAIN, *SCRAM)[len(which) % 3]
    login = _USERS.begin(mechanism)
    try:
        for token in tokens:
            login.step(token)
    except LoginDenied as error:
        demand(bool(str(error)))
        return
    assert login.user is None or (login.user == "user" and b"password" in data)


_RECORDS = [Record(b"k", (("a", b"1"), ("a", None)), b"value"), Record(None, (), None)]
_BATCHES = [batch(_RECORDS, codec) for codec in range(5)] + [batch(_RECORDS[:1], 0, 7, 1, 5)]
_NUMBERS = [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x80\x80\x80\x08", b"\0\0\0\1"]
_ANSWER = struct.pack(">ih1siihqqqih", 1, 1, b"t", 1, 0, 0, 5, -1, 0, 0, -1) + struct.pack(">i", 0)
TARGETS = (
    Target(
        "kafka-request",
        check_request,
        list({frame[:4]: frame for _, frame in frames()}.values()),
        _NUMBERS,
    ),
    Target("kafka-produced", check_produced, _BATCHES, _NUMBERS),
    Target("kafka-fetched", check_fetched, _BATCHES, _NUMBERS),
    Target(
        "kafka-answer",
        check_answer,
        [_ANSWER, struct.pack(">hihhhhhh", 0, 2, 0, 3, 8, 1, 4, 11)],
        _NUMBERS,
    ),
    Target(
        "kafka-login",
        check_login,
        [b"\n\0user\0password", b".\nn,,n=user,r=abc\nc=biws,r=abc,p=AAAA", b"..\nn,,n=user,r=abc"],
        [b"n,,", b"y,,", b"p=tls-unique,,", b"n=", b",r=", b"c=biws", b",p=", b"a=user", b",m=x", b"=2C", b"=3D"],
    ),
)  # fmt: skip
