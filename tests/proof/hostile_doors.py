"""Hostile requests for each door of a service: what it reads, with changes that no honest sender would make.

A door is a listener or a part of its paths. A stream is what is written on one connection: requests whose frames are
whole, and a last one that may be damaged anywhere. A service answers requests in their order, so a stream costs one
connection for many requests.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import publishers
from bad_requests import BAD_REQUESTS
from corrupted_requests import TOKENS, corrupted_bytes
from hostile_json import NOT_JSON, VALUES
from kafka_capture import frames
from pages import CHECKOUT
from raw_http import request

LENGTH = 40  # requests of a stream whose refusals leave the connection open
STRANGERS = 2  # and of a stream of strangers, whose connection ends with the first refusal
KEY, READER, CHECKER = (
    "the-key-of-an-honest-sender",
    "the-token-that-reads",
    "the-token-that-checks",
)
INTAKES = ("github", "gitlab", "stripe", "slack", "shopify", "standard", "nobody", "%2e%2e")
_NUMBERS = [0, 1, -1, 0x7FFFFFFF, -0x80000000, 0xFFFF, 64 << 20]
_ENDLESS = ("/tail", "/live", "}/events")  # answers that do not end
_PARTS = (
    "steady",
    "log",
    "events",
    "0",
    "nobody",
    "%2e%2e",
    "%00",
    "a" * 300,
    "é",
    "*",
    "-1",
    "%C3%28",
)
_CHECKS = ("/v1/config:check", "/v1/config:plan")


class Seed(NamedTuple):
    """A request before it is changed."""

    method: str
    target: str
    headers: Sequence[tuple[str, bytes]]
    body: bytes


class Stream(NamedTuple):
    """What is written on one connection.

    Attributes:
        ends: Whether the end of the stream is sent too. Otherwise the last request asks to close the connection.
    """

    data: bytes
    ends: bool


def changed(dice: random.Random, seed: Seed) -> Seed:
    """Change target, a header or the body, so that the frame of the request stays whole."""
    method, target, headers, body = seed
    headers = list(headers)
    for _ in range(dice.choice((1, 1, 2, 4))):
        match dice.randrange(5):
            case 0:
                body = corrupted_bytes(dice, [body or b"{}"])
            case 1:
                body = dice.choice((*VALUES, *NOT_JSON))
            case 2 if headers:
                at = dice.randrange(len(headers))
                value = _one_line(corrupted_bytes(dice, [headers[at][1] or b"x"]))
                headers[at] = (headers[at][0], value)
            case 3 if headers:
                headers.append(dice.choice(headers))
            case _:
                target += dice.choice(
                    (
                        "/",
                        "?",
                        "?limit=-1",
                        "?limit=1e9",
                        "?a=%00&a=1",
                        "%",
                        ";x",
                        "?cursor=AAAA",
                        "#",
                    )
                )
    return Seed(method, target, headers, body)


def _one_line(value: bytes) -> bytes:
    return value.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b"")


def http_stream(dice: random.Random, seeds: Sequence[Seed], length: int = LENGTH) -> Stream:
    """Return changed requests, the last of which may be damaged anywhere, or asks to close the connection."""
    parts = [_written(changed(dice, dice.choice(seeds))) for _ in range(length - 1)]
    last = dice.choice(seeds)
    if ends := dice.random() < 0.5:
        parts.append(corrupted_bytes(dice, [_written(last)]))
    else:
        parts.append(_written(last._replace(headers=[*last.headers, ("connection", b"close")])))
    return Stream(b"".join(parts), ends)


def _written(seed: Seed) -> bytes:
    return request(seed.target, seed.body, method=seed.method, headers=seed.headers)


def _bearer(token: str) -> tuple[str, bytes]:
    return ("authorization", f"Bearer {token}".encode())


def event_seeds() -> list[Seed]:
    """Return bad and good events, alone and in batches, with the key of a sender."""
    good = {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "data": {"a": [1, 2.5, None]},
    }
    document = json.dumps(good).encode()
    attributes = [
        (f"ce-{name}", str(value).encode()) for name, value in good.items() if name != "data"
    ]
    kinds = [
        Seed("POST", "/events", [*attributes, ("content-type", b"application/json")], b"{}"),
        Seed("PUT", "/events/all?key=%41", [("content-type", b"application/cloudevents+json")], document),
        Seed("POST", "/events", [("content-type", b"application/cloudevents-batch+json")], b"[%b,%b]" % (document, document)),
        Seed("OPTIONS", "/events", [("webhook-request-origin", b"x")], b""),
    ]  # fmt: skip
    bad = [
        Seed(
            each.method, each.target, [(n.decode("latin-1"), v) for n, v in each.headers], each.body
        )
        for each in BAD_REQUESTS
        if len(each.body) < 4_000
    ]
    return [each._replace(headers=[_bearer(KEY), *each.headers]) for each in (*kinds, *kinds, *bad)]


def without_key(seeds: Sequence[Seed]) -> list[Seed]:
    """Return the requests of strangers: without a key, and with one that is nearly right."""
    near = ("authorization", f"Bearer {KEY}x".encode())
    return [
        seed._replace(headers=[*more, *seed.headers[1:]]) for seed in seeds for more in ([], [near])
    ]


def intake_seeds() -> list[Seed]:
    """Return requests with signatures of strangers, and good signatures beside another body."""
    body = {"id": "1", "type": "t", "object_kind": "push"}
    now = 1_700_000_000.0
    signed = [
        publishers.github(body, secret="x"), publishers.gitlab(body, token="x"), publishers.stripe(body, now, "x"),
        publishers.slack(body, now, secret="x"), publishers.shopify(body, secret="x"),
        publishers.standard(body, now), publishers.github(body)._replace(body=b"{}"),
    ]  # fmt: skip
    return [
        Seed("POST", f"/in/{name}", [(n, v.encode()) for n, v in each.headers], each.body)
        for each in signed
        for name in INTAKES
    ]


def admin_seeds(wanted: Callable[[str], bool]) -> list[Seed]:
    """Return the operations of the admin listener whose path is wanted, with and without a token."""
    paths = json.loads((CHECKOUT / "openapi/openapi.json").read_text())["paths"]
    found = []
    for path, operations in paths.items():
        if path.startswith(("/events", "/in/")) or path.endswith(_ENDLESS) or not wanted(path):
            continue
        tokens = [CHECKER] if path in _CHECKS else [READER, READER, "nobody"]
        for method, part, token in (
            (method, part, token) for method in operations for part in _PARTS for token in tokens
        ):
            target = "".join(
                part if number % 2 else text
                for number, text in enumerate(path.replace("}", "{").split("{"))
            )
            body = (
                b'{"max": 1, "wait": "0s", "id": 1}' if method in {"post", "put", "patch"} else b""
            )
            headers = [_bearer(token), ("content-type", b"application/json")]
            found.append(Seed(method.upper(), target, headers, body))
    return found


def is_pull(path: str) -> bool:
    """Return True for the paths of consumers that pull events."""
    return path.endswith((":receive", ":acknowledge", ":release", ":reject", ":renew"))


def kafka_stream(dice: random.Random, seeds: Sequence[bytes]) -> Stream:
    """Return some requests of Kafka's clients with changes, and sizes that may be wrong."""
    some = dice.choices(seeds, k=dice.choice((1, 2, 4)))
    return Stream(b"".join(_framed(_damaged(dice, each), dice) for each in some), ends=True)


def _damaged(dice: random.Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(4, len(data)) if len(data) > 4 and dice.random() < 0.9 else 0
        match dice.randrange(6):
            case 0 if data:
                data[at] ^= 1 << dice.randrange(8)
            case 1:
                data[at : at + 4] = struct.pack(">I", dice.choice(_NUMBERS) & 0xFFFFFFFF)
            case 2:
                del data[at : at + dice.randrange(1, 40)]
            case 3:
                data[at:at] = dice.choice(TOKENS)
            case 4:
                data[at:at] = data[at : at + dice.randrange(1, 60)]
            case _:
                data[at:at] = dice.randbytes(dice.randrange(1, 40))
    return bytes(data)


def _framed(frame: bytes, dice: random.Random) -> bytes:
    size = len(frame) if dice.random() < 0.97 else dice.choice((*_NUMBERS, len(frame) + 1))
    return struct.pack(">I", size & 0xFFFFFFFF) + frame


def kafka_seeds() -> list[bytes]:
    return [frame for _, frame in frames()]
