"""One request that Skybridge must refuse, and short functions that build such requests."""

from __future__ import annotations

import json
from dataclasses import dataclass

Headers = tuple[tuple[bytes, bytes], ...]

STRUCTURED = b"application/cloudevents+json"
BATCH = b"application/cloudevents-batch+json"
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@dataclass(frozen=True)
class BadRequest:
    """A request that Skybridge must refuse, with the answer that it must get.

    ``faults`` are the fault codes in order, ``indexes`` the positions in the batch of the faulty
    events. ``listener_only`` marks requests that only a running listener can refuse: for a bound, a
    route or a key.
    """

    id: str
    headers: Headers
    body: bytes
    status: int
    code: str
    faults: tuple[str, ...] = ()
    indexes: tuple[int, ...] = ()
    method: str = "POST"
    target: str = "/events"
    listener_only: bool = False


def binary(
    name: str, *faults: str, drop: str = "", add: Headers = (), **headers: str | bytes
) -> BadRequest:
    """Return a valid request in binary mode after some attributes were replaced, dropped or added.

    Args:
        name: The name of the case, after "binary".
        faults: The fault codes that the answer must list.
        drop: Names of attributes to leave out, separated by spaces.
        add: Further headers, after those of the attributes.
        headers: New values by attribute name.
    """
    values = {f"ce-{key}": value for key, value in GOOD.items()} | {
        "content-type": "application/json"
    }
    for key, value in headers.items():
        values["content-type" if key == "datacontenttype" else f"ce-{key}"] = value
    for key in drop.split():
        values.pop("content-type" if key == "datacontenttype" else f"ce-{key}")
    pairs = tuple((key.encode(), _bytes(value)) for key, value in values.items())
    return BadRequest(f"binary {name}", pairs + add, b"{}", 400, "invalid-event", faults)


def document(name: str, body: bytes, *faults: str, content_type: bytes = STRUCTURED) -> BadRequest:
    """Return a structured request with this body, which must be refused with 400 and these faults."""
    headers = ((b"content-type", content_type),)
    return BadRequest(f"structured {name}", headers, body, 400, "invalid-event", faults)


def structured(name: str, *faults: str, drop: str = "", **members: object) -> BadRequest:
    """Return a structured request made of a good document, with members replaced, dropped or
    added.
    """
    event = {key: value for key, value in (GOOD | members).items() if key not in drop.split()}
    return document(name, json.dumps(event).encode(), *faults)


def raw(name: str, members: bytes, *faults: str) -> BadRequest:
    """Return a structured request made of a good document, with raw JSON text of further members
    at its end.
    """
    good = json.dumps(GOOD, separators=(",", ":")).encode()
    return document(name, good[:-1] + b"," + members + b"}", *faults)


def batch(name: str, elements: list[object], *faults: tuple[int, str]) -> BadRequest:
    """Return a batched request with these elements. Each of ``faults`` is the index of an element and a fault code
    that the answer must list."""
    return BadRequest(
        f"batch {name}",
        ((b"content-type", BATCH),),
        json.dumps(elements).encode(),
        400,
        "invalid-event",
        tuple(code for _, code in faults),
        tuple(index for index, _ in faults),
    )


def refused(
    name: str,
    status: int,
    code: str,
    *faults: str,
    content_type: bytes = b"",
    body: bytes = b"{}",
    headers: Headers = (),
) -> BadRequest:
    """Return a request that Skybridge must refuse with this status, problem code and fault codes."""
    pairs = ((b"content-type", content_type), *headers) if content_type else headers
    return BadRequest(name, pairs, body, status, code, faults)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


REQUIRED = ("specversion", "id", "source", "type")
OPTIONAL = ("datacontenttype", "dataschema", "subject", "time")
