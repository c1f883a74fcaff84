"""Headers beside the event on HTTP (I3): which are never passed along, and which go onto a request."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from app.bindings.record import Decoded, Header
from app.event.memo import Memo

APART = "x-foreign-"  # before a name that would pass for one of the event's own

PRODUCER = "skybridge-producer"  # header beside an event: name of the producer that sent it

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[ -~\xa0-\ud7ff\ue000-\U0010ffff]*")  # no control, and UTF-8 throughout

_CREDENTIAL = "may hold a credential"

# Name to why it is of one connection, of one party, or of the message itself.
_REASONS = {
    **dict.fromkeys(
        ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
         "upgrade", "expect"),
        "belongs to one connection (RFC 9110 7.6.1)",
    ),
    **dict.fromkeys(
        ("authorization", "proxy-authorization", "proxy-authenticate", "www-authenticate", "cookie",
         "set-cookie"),
        _CREDENTIAL,
    ),
    "host": "names the requested host",
    "prefer": "is only for Skybridge",
    "skybridge-key": "is already the record key",
    PRODUCER: "names the producer, which only Skybridge writes",
    "user-agent": "names Skybridge",
    "accept-encoding": "belongs to one request",
    "date": "belongs to one message",
}  # fmt: skip
_OWN = "ce-"
_PASSES = re.compile(f"(?:{APART})*{_OWN}")  # for one of the event's own, or did once
_FAMILIES = {
    _OWN: "belongs to the event",
    "content-": "belongs to the body, which may be rewritten",
    "webhook-": "belongs to the webhook protocol",
}


def is_field_name(name: str) -> bool:
    """Whether it can be the name of a header of HTTP (RFC 9110 5.1)."""
    return _TOKEN.fullmatch(name) is not None


def is_field_value(text: str) -> bool:
    """Whether it can be the value of a header, in UTF-8 (RFC 9110 5.5)."""
    return _VALUE.fullmatch(text) is not None


def why_not(name: str) -> str:
    """Why a header of this name is never passed along; "" when it may be."""
    if name in _REASONS:
        return _REASONS[name]
    return next((why for family, why in _FAMILIES.items() if name.startswith(family)), "")


def _taken_name(name: bytes) -> str:
    text = name.decode("latin-1")
    return text.removeprefix(APART) if _PASSES.match(text) else text


TAKEN_NAMES = Memo(_taken_name)
"""The name of a request's header to the one that it has beside the event."""


def forwarded(foreign: Sequence[Header], wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Those of ``foreign`` that go onto a request. What cannot be a header of HTTP, and what never is
    passed along, stays behind: the record still has it.

    ``wanted``  names in lower case, or beginnings of them with ``*`` behind.
    """
    for name, value in foreign:
        lower = name.lower()
        if value is None or not is_wanted(lower, wanted) or not is_field_name(lower):
            continue
        text = value.decode("utf-8", "surrogateescape").strip(" \t")
        if _VALUE.fullmatch(text) is None:
            continue
        if _PASSES.match(lower):
            yield APART + name, text
        elif not _WHY_NOT[lower]:
            yield name, text


def beside(decoded: Decoded, name: str, value: bytes) -> Decoded:
    """With this header beside the event, in the place of those of its name (lower case)."""
    return replace(decoded, foreign=having(decoded.foreign, name, value))


def having(foreign: Sequence[Header], name: str, value: bytes) -> tuple[Header, ...]:
    """With this header, in the place of those of its name (lower case)."""
    return ((name, value), *without(foreign, name))


def without(headers: Sequence[Header], name: str) -> tuple[Header, ...]:
    """Return the headers but for those of this name (lower case)."""
    return tuple([each for each in headers if each[0].lower() != name])


def may_hold_credential(name: str) -> bool:
    """Of a name in lower case."""
    return _REASONS.get(name) is _CREDENTIAL


def is_wanted(name: str, wanted: Collection[str]) -> bool:
    """Whether a name in lower case is in ``wanted``: names, or beginnings with ``*`` behind."""
    return name in wanted or any(
        entry.endswith("*") and name.startswith(entry[:-1]) for entry in wanted
    )


_WHY_NOT = Memo(why_not)
