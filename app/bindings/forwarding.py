"""Foreign headers on HTTP: which ones are never forwarded, and which ones go into a request."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from app.bindings.record import Decoded, Header
from app.event.memo import Memo

APART = "x-foreign-"  # prefix of a foreign header whose name looks like an attribute

# Headers next to an event, which only Skybridge may write:
PRODUCER = "skybridge-producer"  # the name of the producer that sent the event
INTAKE = "skybridge-intake"  # the name of the intake that received the event
ROUTE = "skybridge-route"  # the route that the request, the intake or the subscription named
ORIGIN_HEADERS = frozenset({PRODUCER, INTAKE, ROUTE})

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(
    r"[ -~\xa0-\ud7ff\ue000-\U0010ffff]*"
)  # no control characters, and UTF-8 throughout

_CREDENTIAL = "may hold a credential"

# Header name to the reason why it belongs to one connection, one party or one message.
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
    INTAKE: "names the intake, which only Skybridge writes",
    ROUTE: "names the route, which only Skybridge writes",
    "user-agent": "names Skybridge",
    "accept-encoding": "belongs to one request",
    "date": "belongs to one message",
}  # fmt: skip
_OWN = "ce-"
_PASSES = re.compile(
    f"(?:{APART})*{_OWN}"
)  # looks like an attribute header, or did before it was escaped
_FAMILIES = {
    _OWN: "belongs to the event",
    "content-": "belongs to the body, which may be rewritten",
    "webhook-": "belongs to the webhook protocol",
}


def is_field_name(name: str) -> bool:
    """Return True if the name can be a header name of HTTP (RFC 9110 5.1)."""
    return _TOKEN.fullmatch(name) is not None


def is_field_value(text: str) -> bool:
    """Return True if the text can be a header value of HTTP, in UTF-8 (RFC 9110 5.5)."""
    return _VALUE.fullmatch(text) is not None


def why_not(name: str) -> str:
    """Return the reason why a header of this name is never forwarded, or "" if it may be forwarded."""
    if name in _REASONS:
        return _REASONS[name]
    return next((why for family, why in _FAMILIES.items() if name.startswith(family)), "")


def _taken_name(name: bytes) -> str:
    text = name.decode("latin-1")
    return text.removeprefix(APART) if _PASSES.match(text) else text


TAKEN_NAMES = Memo(_taken_name)
"""A cached mapping from the name of a request's header to the name under which the header is kept next to the
event."""


def forwarded(foreign: Sequence[Header], wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the foreign headers that go into a request.

    Headers that HTTP cannot carry or that are never forwarded are skipped. The record keeps them.

    Args:
        foreign: The foreign headers of the event.
        wanted: The headers to forward: names in lower case, or prefixes that end with ``*``.
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


def with_foreign_header(decoded: Decoded, name: str, value: bytes) -> Decoded:
    """Return the event with this foreign header added. Existing foreign headers of the same name (lower case)
    are removed."""
    return replace(decoded, foreign=with_header(decoded.foreign, name, value))


def with_header(foreign: Sequence[Header], name: str, value: bytes) -> tuple[Header, ...]:
    """Return the headers with this one added first. Existing headers of the same name (lower case) are
    removed."""
    return ((name, value), *without_headers(foreign, (name,)))


def without_headers(headers: Sequence[Header], names: Collection[str]) -> tuple[Header, ...]:
    """Return the headers without those of these names (lower case)."""
    return tuple([each for each in headers if each[0].lower() not in names])


def may_hold_credential(name: str) -> bool:
    """Return True if a header of this name (lower case) may hold a credential."""
    return _REASONS.get(name) is _CREDENTIAL


def is_wanted(name: str, wanted: Collection[str]) -> bool:
    """Return True if ``wanted`` has the name (lower case), or a prefix of the name followed by ``*``."""
    return name in wanted or any(
        entry.endswith("*") and name.startswith(entry[:-1]) for entry in wanted
    )


_WHY_NOT = Memo(why_not)
