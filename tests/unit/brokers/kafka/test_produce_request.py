"""Produce requests and answers, byte for byte as aiokafka's schemas have them: a second opinion."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from aiokafka.errors import KafkaError
from aiokafka.protocol import produce
from aiokafka.protocol.admin import ApiVersionResponse_v0
from aiokafka.protocol.transaction import InitProducerIdRequest_v0, InitProducerIdResponse_v0

from app.brokers.kafka.errors import KafkaRefusal
from app.brokers.kafka.produce_request import (
    ProducerId,
    StoredAt,
    head_of,
    identity_answer,
    identity_request,
    produce_answers,
    produce_request,
    produce_version,
)

VERSIONS = range(3, 9)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_that_of_the_schema(version: int) -> None:
    kind = getattr(produce, f"ProduceRequest_v{version}")
    topics = {"t": [(0, b"first"), (3, b"second")], "ü": [(1, b"")]}
    expected = kind(None, -1, 9_000, [(name, list(pairs)) for name, pairs in topics.items()])
    assert b"".join(produce_request(topics, -1, 9_000)) == expected.encode()
    header = expected.build_request_header(correlation_id=77, client_id="me")
    assert head_of(0, version, 77, b"me") == header.encode()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_that_of_the_schema(version: int) -> None:
    more: list[Any] = [0] if version >= 5 else []
    plain: list[Any] = [*more, [], None] if version >= 8 else more
    named: list[Any] = [*more, [(2, "no key"), (4, None)], "refused"] if version >= 8 else more
    kind = getattr(produce, f"ProduceResponse_v{version}")
    answer = kind(
        [
            ("t", [(0, 0, 41, -1, *plain), (1, 87, -1, -1, *named), (2, 46, -1, -1, *plain)]),
            ("ü", [(0, 6, -1, -1, *plain), (5, 0, 0, -1, *plain)]),
        ],
        250,
    )
    refusal = (
        KafkaRefusal(87, {2: "no key", 4: ""}, "refused") if version >= 8 else KafkaRefusal(87)
    )
    answers, throttle_ms = produce_answers(answer.encode(), version)
    assert throttle_ms == 250
    assert answers == {
        ("t", 0): StoredAt(41),
        ("t", 1): refusal,
        ("t", 2): KafkaRefusal(46),
        ("ü", 0): KafkaRefusal(6),
        ("ü", 5): StoredAt(0),
    }


@pytest.mark.parametrize("data", [b"", b"\0\0\0\1", b"\0\0\0\1\0\1\xff\0\0\0\0"])
def test_what_is_no_answer_is_an_error(data: bytes) -> None:
    with pytest.raises((struct.error, UnicodeDecodeError)):
        produce_answers(data, 8)
    for read in (produce_version, identity_answer):
        with pytest.raises(KafkaError):  # opening a connection knows only these errors
            read(data[:7])


@pytest.mark.parametrize(
    ("oldest", "newest", "used"),
    [(0, 2, None), (0, 3, 3), (0, 7, 7), (3, 8, 8), (3, 13, 8), (8, 13, 8), (9, 20, None)],
)
def test_the_newest_version_that_both_have_is_used(
    oldest: int, newest: int, used: int | None
) -> None:
    answer = ApiVersionResponse_v0(0, [(18, 0, 4), (0, oldest, newest), (1, 0, 17)])
    assert produce_version(answer.encode()) == used
    assert produce_version(ApiVersionResponse_v0(35, []).encode()) is None


def test_a_producer_id_is_asked_for_and_read_as_the_schema_has_it() -> None:
    request = InitProducerIdRequest_v0(None, 60_000)
    assert b"".join(identity_request()) == request.encode()
    assert identity_answer(InitProducerIdResponse_v0(0, 0, 1 << 40, 3).encode()) == (
        0,
        ProducerId(1 << 40, 3),
    )
    assert identity_answer(InitProducerIdResponse_v0(0, 15, -1, -1).encode())[0] == 15
