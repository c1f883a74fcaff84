"""Requests: compiled heads against httptools, and events of headers."""

from __future__ import annotations

from httptools import HttpParserError, HttpParserUpgrade

from app.bindings import http
from compiled_heads import SEEDS, ParsedRequests, learned
from corrupted_requests import TOKENS
from fuzz.target import Target
from reading_checks import answered

_LAYOUTS = [(seed, learned(seed)) for seed in SEEDS]
_VALUES = b"="  # behind the number of a layout: its values follow, instead of a request
_BETWEEN = b"\x1f"


def check_head(data: bytes) -> None:
    """Compare a compiled head with httptools. A request that no pattern reads goes to httptools anyway."""
    seed, layout = _LAYOUTS[data[0] % len(_LAYOUTS) if data else 0]
    case = data[1:]
    if case.startswith(_VALUES):
        case = _with_values(seed, case[1:].split(_BETWEEN))
    found = layout.read(case)
    if found is None:
        return
    parsed = ParsedRequests(case)
    assert parsed.complete == 1
    assert (parsed.headers, parsed.body) == (layout.headers(found[0]), found[1])
    assert (parsed.parser.get_method(), parsed.url) == (b"POST", ParsedRequests(seed).url)
    assert parsed.parser.should_keep_alive()
    assert not parsed.parser.should_upgrade()
    assert parsed.parser.get_http_version() == "1.1"


def _with_values(seed: bytes, values: list[bytes]) -> bytes:
    """Return the seed with these values in its header fields. An empty value keeps that of the seed."""
    head, _, body = seed.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    for at, value in enumerate(values[: len(lines)]):
        if value:
            lines[at] = lines[at].partition(b": ")[0] + b": " + value
    return b"\r\n".join([first, *lines]) + b"\r\n\r\n" + body


def check_event(data: bytes) -> None:
    """Return events of a request, or refuse it by the sender's fault."""
    try:
        parsed = ParsedRequests(data)
    except (HttpParserError, HttpParserUpgrade):
        return
    for strict in (False, True):
        answered(lambda: http.decode(parsed.headers, parsed.body, strict_percent=strict))  # noqa: B023


TARGETS = (
    Target(
        "http-head",
        check_head,
        [bytes([at]) + case for at, seed in enumerate(SEEDS) for case in (seed, b"=a\x1fb\x1f/c\x1f5")],
        TOKENS,
    ),
    Target("http-event", check_event, SEEDS, [*TOKENS, b"ce-", b"application/cloudevents", b"+json", b"-batch"]),
)  # fmt: skip
