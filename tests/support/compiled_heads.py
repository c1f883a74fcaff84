"""Requests whose heads are compiled, and what httptools finds in the same bytes."""

from __future__ import annotations

import httptools

from app.bindings.headers import FIELD_NAMES
from app.gateway.head_layout import HeadLayout, HeadLayouts
from app.gateway.request import events_target
from raw_http import event, request

BODY = b'{"a":1}'
SEEDS = [
    event(1, BODY, ce_time="2026-11-20T10:00:00Z", ce_partitionkey="k-1"),
    event(1, BODY, ce_subject="s", ce_region="eu", user_agent="a client/1.0 (x; y)", x_own="a b"),
    event(1, BODY, target="/events/named", authorization="Bearer abc", ce_partitionkey="k"),
    event(1, b"", ce_time="2026-11-20T10:00:00.5+01:00", connection="keep-alive"),
    event(1, BODY, ce_dataschema="https://x/y", traceparent="00-1-2-3").replace(b"ce-id", b"CE-Id"),
    request(
        body=BODY, headers=[("ce-specversion", "1.0"), ("ce-type", "t"), ("ce-id", "1"), ("ce-source", "/s")]
    ),
    event(1, BODY).replace(b"/json", b"/" + b"x" * 250),  # too long for RabbitMQ, as the name of the next one
    event(1, BODY, **{"ce_" + "x" * 260: "v"}),
]  # fmt: skip


class ParsedRequests:
    """The requests that httptools finds in the bytes of a connection."""

    def __init__(self, data: bytes) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.url = self.body = b""
        self.complete = 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((FIELD_NAMES[name], value.rstrip(b" \t")))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1


def learned(data: bytes) -> HeadLayout:
    """Return the layout of a request."""
    seen = ParsedRequests(data)
    line = b"POST %b HTTP/1.1" % seen.url
    _, route = events_target(seen.url.decode())
    layout = HeadLayouts(often=1).learn(data, line, seen.headers, route)
    assert layout is not None
    return layout
