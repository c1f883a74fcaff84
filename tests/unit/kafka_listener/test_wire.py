"""Frames as the message classes of ``kio``, judged by what real clients sent."""

from __future__ import annotations

import io
from struct import pack

import pytest
from kio.serial import entity_writer

from app.kafka_listener.apis import OFFERED
from app.kafka_listener.wire import ErrorCode, Malformed, read_request, size_of, write_answer
from kafka_capture import frames

CAPTURED = frames()


@pytest.mark.parametrize(("who", "frame"), CAPTURED)
def test_what_clients_sent_is_read_to_the_last_byte(who: str, frame: bytes) -> None:
    """Written again from what was read, it is the same frame (seed 001: request framing)."""
    request = read_request(frame, OFFERED)
    body = io.BytesIO()
    entity_writer(type(request.payload))(body, request.payload)
    assert frame.endswith(body.getvalue())
    assert frame[:8] == pack(">hhi", request.api, request.version, request.correlation)
    assert request.client, who


@pytest.mark.parametrize(("who", "frame"), CAPTURED[::4])
def test_a_frame_that_ends_early_is_malformed(who: str, frame: bytes) -> None:
    """Never half read: what follows would be taken for something else."""
    for cut in range(0, len(frame), 1 + len(frame) // 40):
        with pytest.raises(Malformed):
            read_request(frame[:cut], OFFERED)


def test_what_lies_behind_a_request_is_passed_over() -> None:
    """As Kafka does: librdkafka 2.16 asks for the metadata of all topics with three bytes too many."""
    frame = bytes.fromhex("0003000c00000003000772646b61666b610000000000010000")
    assert read_request(frame, OFFERED).payload.topics is None


def test_a_version_from_the_future_is_answered_with_what_there_is() -> None:
    """KIP-511: a newer client learns what to use instead."""
    request = read_request(pack(">hhi", 18, 99, 7) + b"\0\1x", OFFERED)
    assert request.version < 0
    with pytest.raises(Malformed, match="not offered in version 99"):
        read_request(pack(">hhi", 3, 99, 7) + b"\0\1x", OFFERED)
    with pytest.raises(Malformed, match="API 77 is not offered"):
        read_request(pack(">hhi", 77, 0, 7), OFFERED)


def test_what_a_version_lacks_is_left_out_of_an_answer() -> None:
    """One handler for all versions names the newest fields."""
    frame = pack(">hhih", 18, 0, 7, 1) + b"x"
    request = read_request(frame, OFFERED)
    shapes = request.shapes
    answer = write_answer(
        request, shapes.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(), novel=1)
    )
    assert answer == b"\0\0\0\x0a" + b"\0\0\0\x07" + b"\0\0" + b"\0\0\0\0"
    assert size_of(answer[:4]) == len(answer) - 4


@pytest.mark.parametrize("name", ["MetadataRequest", "FetchRequest", "ListOffsetsRequest"])
def test_counts_that_nothing_stands_behind_are_refused_unread(name: str) -> None:
    """The library would make room for all of them first, and the process would end."""
    found = 0
    for _, frame in CAPTURED:
        if type(read_request(frame, OFFERED).payload).__name__ != name:
            continue
        for at in range(8, len(frame) - 4):
            for number in (b"\x7f\xff\xff\xff", b"\xfe\xff\xff\xff\x0f", b"\x80\0\0\0"):
                data = frame[:at] + number + frame[at + 4 :]
                try:
                    read_request(data, OFFERED)
                except Malformed:
                    found += 1
    assert found
