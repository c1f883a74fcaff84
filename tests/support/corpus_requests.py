"""Build and decode the HTTP requests of the corpus."""

from __future__ import annotations

from typing import Any

from app.bindings import http
from app.bindings.record import Decoded
from corpus import Case, octets


def body_of(case: Case) -> bytes:
    return octets(case.message["body"]) or b""


def headers_of(case: Case) -> list[tuple[bytes, bytes]]:
    """Return the headers as on the wire, with names in the sender's letter case."""
    return [(name.encode(), octets(value) or b"") for name, value in case.message["headers"]]


def decode(case: Case) -> list[Decoded]:
    """Decode the request as the gateway does: with header names in lower case, and with the options
    of the case."""
    headers = [(name.lower(), value) for name, value in headers_of(case)]
    return http.decode(headers, body_of(case), **case.switches)


def decode_message(message: http.HttpMessage, switches: dict[str, Any]) -> list[Decoded]:
    headers = [(name.lower().encode(), value.encode()) for name, value in message.headers]
    return http.decode(headers, message.body, **switches)


def request_bytes(case: Case) -> bytes:
    """Return the whole HTTP request as bytes for a socket."""
    method = case.message.get("method", "POST").encode()
    fields = b"".join(b"%b: %b\r\n" % pair for pair in headers_of(case))
    body = body_of(case)
    head = b"%b /events HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n"
    return head % (method, fields, len(body)) + body
