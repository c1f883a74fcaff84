"""A request whose values need no encoding is written at once, and is the one that the general way writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.bindings.http import HttpMessage, _attribute_headers, encode
from app.bindings.record import ContentMode, Decoded
from app.bindings.transcode import PLAIN
from app.event.value import CloudEvent, DataForm

texts = st.text(st.sampled_from('aB0/:"% é;=\x7f'), min_size=1, max_size=8)
attributes = st.dictionaries(
    st.sampled_from(["id", "source", "type", "datacontenttype", "subject", "note"]), texts
)


@given(attributes, st.none() | st.binary(max_size=5), st.sampled_from(DataForm))
def test_both_ways_write_the_same(
    named: dict[str, str], data: bytes | None, form: DataForm
) -> None:
    event = CloudEvent({"specversion": "1.0", **named}, data, form)
    decoded = Decoded(event, ContentMode.BINARY)
    implied = "application/json" if form is DataForm.JSON else None
    names, values = _attribute_headers(event, named.get("datacontenttype", implied))
    written = encode(decoded, PLAIN)
    assert (written.names, written.values, written.body) == (names, tuple(values), data or b"")
    if written.plain:
        assert all(value.isascii() and value.isprintable() for value in written.values)
    assert HttpMessage(names, tuple(values), b"").plain is False
