"""The events every part of the benchmark sends: 0.6 kB of JSON, seven header fields, 10,000 keys."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Iterator

KEYS = 10_000
BATCH = 100
BODY_SIZE = 600
LARGE = 4_000  # bytes of data, from which on requests are put together while they are sent
BODIES = 64  # different ones, of large requests
PATH = "/events"
TYPE = "com.example.order.created"


def body(number: int, size: int = BODY_SIZE) -> bytes:
    start = f'{{"order":"A-{number:05}","amount":1.10,"note":"'
    return (start + "x" * (size - len(start) - 2) + '"}').encode()


def attributes(number: int, types: int = 1) -> dict[str, str]:
    """``types``: how many types the events have between them."""
    return {
        "specversion": "1.0",
        "id": f"id-{number:05}",
        "source": "/orders/eu",
        "type": TYPE if types == 1 else type_of(number % types),
        "time": "2026-11-20T10:00:00Z",
        "partitionkey": f"customer-{number:05}",
    }


def type_of(number: int) -> str:
    return f"com.example.order.t{number}"


def single(
    number: int, host: str, size: int = BODY_SIZE, path: str = PATH, types: int = 1
) -> bytes:
    """A whole request in binary mode: six ``ce-`` fields and the content type."""
    told = attributes(number, types)
    fields = "".join(f"ce-{name}: {value}\r\n" for name, value in told.items())
    return _request(host, f"content-type: application/json\r\n{fields}", body(number, size), path)


def around_id(number: int, host: str, size: int = BODY_SIZE) -> tuple[bytes, bytes]:
    """A whole request of ``single``, before and behind the event's id."""
    name = attributes(number)["id"].encode()
    before, _, after = single(number, host, size).partition(b"ce-id: " + name)
    return before + b"ce-id: ", after


def batch(first: int, host: str, path: str = PATH) -> bytes:
    """A whole request of 100 events from ``first`` on."""
    events = [
        json.dumps({**attributes(number), "datacontenttype": "application/json"})[:-1].encode()
        + b',"data":'
        + body(number)
        + b"}"
        for number in range(first, first + BATCH)
    ]
    head = "content-type: application/cloudevents-batch+json\r\n"
    return _request(host, head, b"[" + b",".join(events) + b"]", path)


def numbered(count: int, host: str, fields: str) -> Iterator[bytes]:
    """Requests of ``single`` with further header fields, each event with an id of its own."""
    around = [around_id(number, host) for number in range(KEYS)]
    for number in range(count):
        before, after = around[number % KEYS]
        yield b"%s%d%s" % (before, time.monotonic_ns(), after.replace(b"\r\n", fields.encode(), 1))


def with_key(number: int, host: str, key: str) -> bytes:
    """``single``, with the key of a producer; empty: with none."""
    whole = single(number, host)
    return (
        whole.replace(b"\r\n", f"\r\nauthorization: Bearer {key}\r\n".encode(), 1) if key else whole
    )


def hooks(count: int, host: str, secret: str) -> Iterator[bytes]:
    """Requests to ``/in/github`` as GitHub signs them, no two with one body."""
    for number in range(count):
        content = body(number % KEYS).replace(b"xxxx", b"%d" % time.monotonic_ns(), 1)
        mark = hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
        fields = (
            f"content-type: application/json\r\nx-github-event: push\r\n"
            f"x-github-delivery: {time.monotonic_ns()}\r\nx-hub-signature-256: sha256={mark}\r\n"
        )
        yield _request(host, fields, content, "/in/github")


def requests(
    shape: str, host: str, size: int = BODY_SIZE, path: str = PATH, types: int = 1
) -> Iterable[bytes]:
    """One request a key (``single``, with so many bytes of data), or all keys in batches (``batch``). Large ones
    are put together while they are sent: all of them would not fit into memory."""
    if shape == "batch":
        return [batch(first, host, path) for first in range(0, KEYS, BATCH)]
    if size <= LARGE:
        return [single(number, host, size, path, types) for number in range(KEYS)]
    whole = [single(number, host, size, path, types) for number in range(BODIES)]
    heads = [single(number, host, size, path, types)[:-size] for number in range(KEYS)]
    return (head + whole[number % BODIES][-size:] for number, head in enumerate(heads))


def _request(host: str, fields: str, content: bytes, path: str = PATH) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\n{fields}content-length: {len(content)}\r\n\r\n"
    return head.encode() + content
