from __future__ import annotations

import pytest

from app.bindings import http
from app.bindings.headers import PRINTABLE
from app.bindings.kafka import LAYOUTS
from app.bindings.layout import plain_attributes

NAMES = ("ce_specversion", "ce_id", "ce_source", "ce_type")
VALUES = (b"1.0", b"1", b"/s", b"t")
REQUEST = [
    (name.replace("_", "-").encode(), value) for name, value in zip(NAMES, VALUES, strict=True)
]


def test_a_layout_says_where_everything_is() -> None:
    """Names repeat from event to event, and are looked at once."""
    layout = LAYOUTS["trace", *NAMES, "content-type", "x-foreign-ce_id"]

    assert layout.names == ("specversion", "id", "source", "type")
    assert layout.own((b"", *VALUES, b"")) == VALUES
    assert (layout.typed, layout.repeated) == (5, False)
    assert layout.foreign == (("trace", 0), ("ce_id", 6))


@pytest.mark.parametrize(
    "names",
    [
        (),
        NAMES[1:],
        (*NAMES, "ce_id"),
        (*NAMES, "ce_"),
        (*NAMES, "ce_data"),
        (*NAMES, "ce_datacontenttype"),
        (*NAMES, "CE_TIME"),
    ],
)
def test_names_out_of_the_ordinary_call_for_a_closer_look(names: tuple[str, ...]) -> None:
    """One that is missing, twice there, or none: which it is, another reader tells."""
    values = [b"1.0"] * len(names)

    assert plain_attributes(LAYOUTS[names], values, None, PRINTABLE) is None


@pytest.mark.parametrize("value", [None, b"a\nb", b"\x7f", "\u00e4".encode(), b""])
def test_values_out_of_the_ordinary_call_for_a_closer_look(value: bytes | None) -> None:
    """A null, a line break, what is not ASCII, and what breaks the rule of its name."""
    values = (*VALUES[:3], value)

    assert plain_attributes(LAYOUTS[NAMES], VALUES, None, PRINTABLE) is not None
    assert plain_attributes(LAYOUTS[NAMES], values, None, PRINTABLE) is None
    assert plain_attributes(LAYOUTS[NAMES], VALUES, "no media type", PRINTABLE) is None


def test_what_goes_along_is_as_configured_for_each_listener() -> None:
    """Two configurations in one process do not share what they remember (I3)."""
    headers = [*REQUEST, (b"a", b"1"), (b"b", b"2"), (b"a", b"3")]

    def foreign(*names: bytes) -> tuple[tuple[str, bytes | None], ...]:
        (decoded,) = http.decode(headers, b"", forward=frozenset(names))
        return decoded.foreign

    assert foreign(b"a") == (("a", b"1"), ("a", b"3"))
    assert foreign(b"b") == (("b", b"2"),)
    assert foreign() == ()
