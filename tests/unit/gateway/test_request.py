"""Paths, preferences and content codings: the small questions asked of each request."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SenderError
from app.gateway.content_coding import decode_content
from app.gateway.request import EventRequest, events_target, intake_target, wants_receipts


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/events", (True, None)),
        ("/events/orders", (True, "orders")),
        ("/events/a/b", (True, "a/b")),
        ("/events/", (True, None)),
        ("/events/orders/", (True, "orders")),
        ("/events//", (False, None)),
        ("//events", (False, None)),
        ("/eventsx", (False, None)),
        ("/event", (False, None)),
        ("/", (False, None)),
        ("/x/events", (False, None)),
    ],
)
def test_only_events_and_one_name_behind_it_are_ours(
    path: str, expected: tuple[bool, str | None]
) -> None:
    assert events_target(path) == expected


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/in/github", "github"),
        ("/in/github/", "github"),
        ("/in/", None),
        ("/in", None),
        ("/in//", None),
        ("/events/", None),
    ],
)
def test_an_intake_is_named_by_its_path(path: str, name: str | None) -> None:
    assert intake_target(path) == name


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"return=representation", True),
        (b'Return="representation"', True),
        (b"respond-async, return=representation; x=1", True),
        (b"return=minimal", False),
        (b"xreturn=representation", False),
        (b"", False),
    ],
)
def test_receipts_are_asked_for_by_prefer(value: bytes, expected: bool) -> None:
    """RFC 7240: tokens in any case, quoted or not, among others."""
    assert wants_receipts(request((b"prefer", value))) is expected


def test_preferences_may_stand_in_several_fields() -> None:
    """RFC 7240 2: the same as one list; a proxy may add its own behind ours."""
    assert wants_receipts(
        request((b"prefer", b"return=representation"), (b"prefer", b"respond-async"))
    )


def test_no_preference_is_no_receipts() -> None:
    assert not wants_receipts(request())


def request(*headers: tuple[bytes, bytes]) -> EventRequest:
    return EventRequest(headers, dict(headers), b"")


def test_gzip_members_are_bounded_in_number() -> None:
    """Reliability S7: a body of 4 MiB may be two hundred thousand empty members, and each costs."""
    member = gzip.compress(b"")
    assert decode_content(b"gzip", gzip.compress(b"a") + member * 999, 10) == b"a"
    with pytest.raises(SenderError) as refusal:
        decode_content(b"gzip", member * 1001, 10)
    assert refusal.value.code == "broken-content-encoding"
    assert "1000 gzip members" in refusal.value.faults[0].detail


@given(body=st.binary(max_size=2000), cut=st.integers(0, 2000))
def test_every_coding_is_undone_to_the_byte_and_a_torn_one_is_refused(
    body: bytes, cut: int
) -> None:
    """Design: HTTP. A body that ends early must not pass for a shorter one."""
    bare = zlib.compressobj(wbits=-15)
    forms = {
        b"gzip": gzip.compress(body),
        b"deflate": zlib.compress(body),
        b"Deflate": bare.compress(body) + bare.flush(),
    }
    for coding, packed in forms.items():
        assert decode_content(coding, packed, 2000) == body
        if 0 < cut < len(packed):
            with pytest.raises(SenderError) as caught:
                decode_content(coding, packed[:cut], 2000)
            assert caught.value.status == 400


@given(junk=st.binary(min_size=1, max_size=200), coding=st.sampled_from([b"gzip", b"deflate"]))
def test_junk_under_a_coding_is_never_our_fault(junk: bytes, coding: bytes) -> None:
    """G5: 4xx or content, no other exception."""
    assert refusal_of(coding, junk) in (None, 400, 413)


def test_the_bound_holds_for_what_comes_out() -> None:
    """S7: to the byte, over several members too."""
    assert decode_content(b"gzip", gzip.compress(bytes(500)) * 2, 1000) == bytes(1000)
    with pytest.raises(SenderError) as caught:
        decode_content(b"gzip", gzip.compress(bytes(501)) + gzip.compress(bytes(500)), 1000)
    assert caught.value.status == 413


def refusal_of(coding: bytes, body: bytes) -> int | None:
    try:
        decode_content(coding, body, 1000)
    except SenderError as error:
        return error.status
    return None
