"""All requests that Skybridge must refuse, as data, with the status, problem code and fault codes
of each answer.

Rows without ``listener_only`` can be passed to ``app.bindings.http.decode`` unchanged. Every row
can be sent over a socket, because no header has a byte that HTTP parsers refuse. No row may publish
an event or get a 5xx.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import bad_attributes as attributes
import bad_documents as documents
from bad_request import (
    BATCH,
    GOOD,
    STRUCTURED,
    BadRequest,
    refused,
)

__all__ = ["BAD_REQUESTS", "BadRequest", "oversize"]

FOREIGN_TYPES = (
    b"application/json", b"text/plain", b"application/x-www-form-urlencoded",
    b"multipart/form-data; boundary=x", b"application/xml", b"application/cloudevent+json",
)  # fmt: skip


def foreign() -> Iterator[BadRequest]:
    four = ["missing-attribute"] * 4
    for content_type in FOREIGN_TYPES:
        yield refused(
            f"foreign {content_type.decode()}",
            400,
            "not-a-cloudevent",
            *four,
            content_type=content_type,
        )
    yield refused("foreign without anything", 400, "not-a-cloudevent", *four, body=b"")
    yield refused("foreign without content type", 400, "not-a-cloudevent", *four)
    document_as_json = json.dumps(GOOD).encode()
    yield refused(
        "foreign document as plain JSON",
        400,
        "not-a-cloudevent",
        *four,
        content_type=b"application/json",
        body=document_as_json,
    )
    yield refused(
        "foreign with an extension only",
        400,
        "not-a-cloudevent",
        *four,
        headers=((b"ce-ext", b"x"),),
    )
    yield refused(
        "foreign prefix",
        400,
        "not-a-cloudevent",
        *four,
        headers=tuple((f"x-{k}".encode(), v.encode()) for k, v in GOOD.items()),
    )


def listener() -> Iterator[BadRequest]:
    """Yield requests that only a listener refuses. The route ``keyed`` must have a key policy with
    ``missing: reject``.
    """
    good = tuple((f"ce-{key}".encode(), value.encode()) for key, value in GOOD.items())
    for method in ("POST", "PUT"):
        yield BadRequest(
            f"{method} to an unknown route",
            good,
            b"",
            404,
            "unknown-route",
            method=method,
            target="/events/nosuch",
            listener_only=True,
        )
        yield BadRequest(
            f"{method} without the key",
            good,
            b"",
            400,
            "missing-key",
            ("missing-key",),
            method=method,
            target="/events/keyed",
            listener_only=True,
        )
    yield BadRequest(
        "structured to an unknown route",
        ((b"content-type", STRUCTURED),),
        json.dumps(GOOD).encode(),
        404,
        "unknown-route",
        target="/events/nosuch",
        listener_only=True,
    )


def oversize(body_bytes: int, header_bytes: int, header_fields: int) -> list[BadRequest]:
    """Return requests that exceed each bound of the listener by one byte or one header field."""
    good = tuple((f"ce-{key}".encode(), value.encode()) for key, value in GOOD.items())
    wide = (*good, (b"ce-ext", b"x" * header_bytes))
    many = good + tuple((b"x-%d" % number, b"x") for number in range(header_fields - len(good) + 1))
    event = json.dumps(GOOD).encode()
    return [
        BadRequest(
            "binary body too large",
            good,
            b"x" * (body_bytes + 1),
            413,
            "body-too-large",
            listener_only=True,
        ),
        BadRequest(
            "document too large",
            ((b"content-type", STRUCTURED),),
            event + b" " * body_bytes,
            413,
            "body-too-large",
            listener_only=True,
        ),
        BadRequest(
            "batch too large",
            ((b"content-type", BATCH),),
            b"[" + event + b"]" + b" " * body_bytes,
            413,
            "body-too-large",
            listener_only=True,
        ),
        BadRequest(
            "header block too large", wide, b"", 431, "headers-too-large", listener_only=True
        ),
        BadRequest(
            "too many header fields", many, b"", 431, "headers-too-large", listener_only=True
        ),
    ]


BAD_REQUESTS: tuple[BadRequest, ...] = tuple(
    row
    for rows in (
        attributes.missing, attributes.empty, attributes.names, attributes.times,
        attributes.characters, attributes.encodings, attributes.references, attributes.repeats,
        documents.pills, documents.types, documents.data, documents.batches, documents.media_types,
        foreign, listener,
    )
    for row in rows()
)  # fmt: skip
