"""An event that is passed on ten times, anyhow, is the event that it was."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from app.bindings import http
from app.bindings.record import ContentMode, Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.event.value import CloudEvent, DataForm
from app.formats.typed import NotRepresentable
from event_strategies import decoded_events
from example_counts import examples

HOPS = 10


class Hop(NamedTuple):
    """One way from a reader to the next: over HTTP or through a broker, however it is set up."""

    kind: str
    writing: EncodeOptions


hops = st.lists(
    st.builds(
        Hop,
        st.sampled_from(["http", *BINDINGS]),
        st.builds(
            EncodeOptions,
            mode=st.sampled_from(["binary", "structured", "as_received"]),
            format=st.sampled_from(["as_received", "json", "protobuf", "avro"]),
            names=st.sampled_from(["CE-", "ce_"]),
            strings=st.sampled_from(["bare", "json"]),
        ),
    ),
    min_size=HOPS,
    max_size=HOPS,
)


def taken(decoded: Decoded, hop: Hop) -> Decoded:
    if hop.kind == "http":
        message = http.encode(decoded, hop.writing)
        pairs = [(name.lower().encode(), value.encode()) for name, value in message.headers]
        (back,) = http.decode(pairs, message.body)
        return back
    binding = BINDINGS[hop.kind]
    return binding.decode(binding.encode(decoded, hop.writing, b"key"))


def known(event: CloudEvent) -> dict[str, str]:
    """What must survive: all but the spelling of time, which Protobuf has as an instant."""
    attributes = dict(event.attributes)
    attributes.pop("time", None)
    if event.data_form is DataForm.JSON:
        attributes.setdefault("datacontenttype", "application/json")
    return attributes


@given(decoded_events(), hops)
@examples(60)
def test_ten_hops_change_nothing(decoded: Decoded, way: list[Hop]) -> None:
    """Whatever bindings, modes and formats it passes: attributes, every byte of data, foreign headers.

    A hop whose format cannot hold the event refuses it, and is left out.
    """
    now, kept, retimed = decoded, True, False
    for hop in way:
        try:
            then = taken(now, hop)
        except NotRepresentable:
            continue
        retimed |= "protobuf" in (then.media_type or "") and now.document is None
        kept &= hop.kind != "http"
        if kept:
            assert then.foreign == decoded.foreign
        now = then

    assert known(now.event) == known(decoded.event)
    assert (now.event.data or None) == (decoded.event.data or None)
    assert ("time" in now.event.attributes) == ("time" in decoded.event.attributes)
    if not retimed and not any(hop.writing.format == "protobuf" for hop in way):
        assert now.event.attributes.get("time") == decoded.event.attributes.get("time")


@given(decoded_events(newest_only=True), hops)
@examples(60)
def test_a_document_that_is_kept_is_the_same_object_after_ten_hops(
    decoded: Decoded, way: list[Hop]
) -> None:
    """as_received, and any format: nobody on the way writes the document anew."""
    first = taken(decoded, Hop("kafka", EncodeOptions(mode="structured", format="json")))
    now = Decoded(first.event, ContentMode.STRUCTURED, first.document, first.media_type)
    for hop in way:
        now = taken(now, Hop(hop.kind, EncodeOptions(mode="as_received", names=hop.writing.names)))

    assert now.document is first.document
    assert now.media_type == first.media_type
