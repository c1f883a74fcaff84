"""Every binding gives back the event that it wrote, in each mode, version and format that can hold it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.bindings import http, kafka, pulsar, rabbitmq
from app.bindings.record import ContentMode, Decoded, Header
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import InvalidEvent
from app.event.value import CloudEvent, DataForm
from app.event.versions import VERSIONS
from app.formats.protobuf_time import CannotHold, to_text, to_timestamp
from app.formats.typed import NotRepresentable
from event_strategies import decoded_events, events
from example_counts import examples

OTHER_FORMATS = ("protobuf", "avro")
ROUNDS = 25


def over_http(decoded: Decoded, writing: EncodeOptions) -> Decoded:
    """HTTP carries only what it is told to carry beside the event: here, what any header may be."""
    wanted = {name.lower() for name, _ in decoded.foreign}
    message = http.encode(decoded, writing, wanted)
    pairs = [(name.lower().encode(), value.encode()) for name, value in message.headers]
    (back,) = http.decode(pairs, message.body, strict_percent=True)
    return back


def in_a_batch(decoded: Decoded, writing: EncodeOptions) -> Decoded:
    message = http.encode_batch([decoded, decoded], writing.format)
    pairs = [(name.lower().encode(), value.encode()) for name, value in message.headers]
    first, second = http.decode(pairs, message.body)
    assert first == second
    return first


def in_a_record(binding: object) -> Callable[[Decoded, EncodeOptions], Decoded]:
    def way(decoded: Decoded, writing: EncodeOptions) -> Decoded:
        record = binding.encode(decoded, writing, b"\xff")
        assert record.key == b"\xff"
        return binding.decode(record)

    return way


WAYS = {
    "http": (over_http, EncodeOptions()),
    "kafka": (in_a_record(kafka), EncodeOptions()),
    "rabbitmq": (in_a_record(rabbitmq), EncodeOptions()),
    "pulsar": (in_a_record(pulsar), EncodeOptions()),
    "pulsar, names of kafka": (in_a_record(pulsar), EncodeOptions(names="ce_")),
    "pulsar, strings as json": (in_a_record(pulsar), EncodeOptions(strings="json")),
}
KEEPS_EMPTY = {"kafka"}
KEEPS_FOREIGN = set(WAYS) - {"http"}


def explicit(event: CloudEvent) -> dict[str, str]:
    """The attributes with the type of data that JSON had implied (J13, I4)."""
    attributes = dict(event.attributes)
    if event.data_form is DataForm.JSON:
        attributes.setdefault("datacontenttype", "application/json")
    return attributes


def same_time(event: CloudEvent) -> dict[str, str]:
    """As Protobuf gives it back: the same instant, in UTC."""
    attributes = explicit(event)
    if "time" in attributes:
        attributes["time"] = to_text(*to_timestamp(attributes["time"]))
    return attributes


@pytest.mark.parametrize("way", WAYS)
@given(decoded_events())
@examples(ROUNDS)
def test_binary_mode_gives_the_event_back(way: str, decoded: Decoded) -> None:
    """H8 to H10, K12 to K15, R4 to R9, P4 to P6, V6: attributes, data, version; and what is foreign."""
    travel, writing = WAYS[way]
    back = travel(decoded, writing)

    assert back.mode is ContentMode.BINARY
    assert back.event.version == decoded.event.version
    assert dict(back.event.attributes) == explicit(decoded.event)
    if way in KEEPS_EMPTY:
        assert back.event.data == decoded.event.data
    else:
        assert back.event.data == (decoded.event.data or None)
    if way in KEEPS_FOREIGN:
        assert back.foreign == decoded.foreign


@pytest.mark.parametrize("way", [*WAYS, "batch"])
@given(decoded_events())
@examples(ROUNDS)
def test_documents_of_json_give_the_event_back(way: str, decoded: Decoded) -> None:
    """J1 to J14, V4: attributes with their types, data with every byte, and what is foreign."""
    travel, writing = (in_a_batch, PLAIN) if way == "batch" else WAYS[way]
    choices = EncodeOptions(
        mode="structured", format="json", names=writing.names, strings=writing.strings
    )
    event, back = decoded.event, travel(decoded, choices)

    assert back.mode is (ContentMode.BATCH if way == "batch" else ContentMode.STRUCTURED)
    assert back.event.version in {event.version, "1.0"}  # 1.0 where its own cannot hold the data
    assert (back.event.attributes, back.event.data) == (event.attributes, event.data)
    if back.event.version == event.version:
        assert (back.event.types, back.event.arrived) == (event.types, event.arrived)
    if way in KEEPS_FOREIGN:
        assert back.foreign == decoded.foreign


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OTHER_FORMATS)
@given(decoded_events(newest_only=True))
@examples(ROUNDS // 2)
def test_documents_of_other_formats_give_the_event_back(
    name: str, way: str, decoded: Decoded
) -> None:
    """Protobuf and Avro: attributes with their types, data with every byte; or refused as too much."""
    travel, writing = WAYS[way]
    choices = EncodeOptions(
        mode="structured", format=name, names=writing.names, strings=writing.strings
    )
    event = decoded.event
    try:
        expected = same_time(event) if name == "protobuf" else explicit(event)
    except CannotHold:
        with pytest.raises(NotRepresentable):
            travel(decoded, choices)
        return
    back = travel(decoded, choices)

    assert dict(back.event.attributes) == expected
    assert (back.event.data, back.event.types) == (event.data, event.types)


@pytest.mark.parametrize("way", WAYS)
@given(events(), st.sampled_from(list(VERSIONS)))
@examples(ROUNDS)
def test_a_route_that_writes_one_version_writes_it_whole(
    way: str, event: CloudEvent, version: str
) -> None:
    """V7: id, source and data are never touched, and the event says the version that was asked for."""
    travel, writing = WAYS[way]
    choices = EncodeOptions(version=version, names=writing.names, strings=writing.strings)
    back = travel(Decoded(event, ContentMode.BINARY), choices).event

    assert back.version == version
    assert (back.id, back.source, back.data or None) == (
        event.id,
        event.source,
        event.data or None,
    )


@given(decoded_events(newest_only=True), st.sampled_from(["binary", "structured"]))
@examples(ROUNDS)
def test_what_is_written_is_to_the_letter(decoded: Decoded, mode: str) -> None:
    """Strict on write: the readers that take nothing but what the bindings say take all that we write.

    HTTP is read strictly above.
    """
    for binding in (kafka, rabbitmq, pulsar):
        record = binding.encode(decoded, EncodeOptions(mode=mode), None)
        letter = binding.decode(record, binding.STRICT)
        assert letter.event == binding.decode(record).event
        assert letter.event.id == decoded.event.id


LONG = "x" * 300


@given(events())
@examples(50)
def test_what_amqp_cannot_hold_is_refused_and_not_cut(event: CloudEvent) -> None:
    """AMQP 4.2.5.3: a name has 255 bytes at most; the others hold it."""
    long_name = Decoded(
        CloudEvent(dict(event.attributes) | {LONG: "x"}, event.data), ContentMode.BINARY
    )

    with pytest.raises(InvalidEvent):
        rabbitmq.encode(long_name, PLAIN, None)
    for binding in (kafka, pulsar):
        assert binding.decode(binding.encode(long_name, PLAIN, None)).event.attributes[LONG] == "x"


@given(st.lists(decoded_events(newest_only=True), min_size=1, max_size=4))
@examples(ROUNDS // 4)
def test_a_batch_gives_each_event_back(batch: list[Decoded]) -> None:
    """H13, J14: in order, also in Protobuf where all of them fit."""
    for name in ("json", "protobuf"):
        try:
            message = http.encode_batch(batch, name)
        except NotRepresentable:
            assume(False)
        pairs = [(header.lower().encode(), value.encode()) for header, value in message.headers]
        found = http.decode(pairs, message.body)
        assert [each.event.data for each in found] == [each.event.data for each in batch]
        assert [each.event.id for each in found] == [each.event.id for each in batch]


def test_foreign_names_are_tried_that_look_like_ours() -> None:
    """Else the properties above would not see a header taken for an attribute."""
    odd: tuple[Header, ...] = (("ce_id", b"other"), ("CE-Id", b"x"), ("content-type", b"a/b"))
    event = CloudEvent({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"})
    for binding in (kafka, rabbitmq, pulsar):
        back = binding.decode(
            binding.encode(Decoded(event, ContentMode.BINARY, foreign=odd), PLAIN, None)
        )
        assert (back.event.attributes, back.foreign) == (event.attributes, odd)
