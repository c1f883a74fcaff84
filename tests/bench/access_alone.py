"""What the door alone costs, in this process: a key, a remembered token, and the quota of one event."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import table
from joserfc import jwt
from joserfc.jwk import ECKey

from app.access.caller import EventSender
from app.access.who import ProducerDirectory
from app.gateway.door import Authenticator
from app.gateway.issuers import Issuers
from app.gateway.request import Pending
from app.interfaces.clock import SystemClock
from app.model.producer import Producer
from app.runtime.heap import settle_heap

KEY = "sky_0123456789abcdef0123456789abcdef"
ISSUER = "https://id.example"
PREFACE = """## The door alone

In a loop in one process: from the head of a request to its caller, and the quota of one event. Microseconds of CPU
above an empty call.
"""


def measure(folder: Path, rounds: int, count: int) -> list[table.Plain]:
    return asyncio.run(_measure(folder, rounds, count))


async def _measure(folder: Path, rounds: int, count: int) -> list[table.Plain]:
    signer = ECKey.generate_key("P-256", {"kid": "1", "use": "sig"})
    keys = folder / "jwks.json"
    keys.write_text(json.dumps({"keys": [signer.as_dict(private=False)]}))
    clock = SystemClock()
    quota = {"events": "999999999/s", "burst": 1_000_000_000}
    match = {"issuer": ISSUER, "audience": "skybridge", "match": {"azp": "a"}, "jwks": keys}
    door = Authenticator(
        ProducerDirectory([
            Producer.model_validate({"name": "key", "keys": [KEY], "quota": quota}),
            Producer.model_validate({"name": "token", "jwt": match, "quota": quota}),
        ]),
        Issuers(clock.monotonic).of,
        clock,
        is_open=False,
    )  # fmt: skip
    claims = {"iss": ISSUER, "aud": "skybridge", "azp": "a", "exp": int(clock.now()) + 3_600}
    token = jwt.encode({"alg": "ES256", "kid": "1"}, claims, signer)
    settle_heap()
    ways = {"key": (KEY, 1.5), "remembered token": (token, 2.5)}
    rows = [
        table.Plain(name, "", most, await _above_empty(door, value, rounds, count), digits=2)
        for name, (value, most) in ways.items()
    ]
    caller, now = door.producers.callers["key"], clock.monotonic()
    quota_alone = _above(lambda: caller.take(1, now), rounds, count)
    return [*rows, table.Plain("quota of one event", "", 1.0, quota_alone, digits=2)]


async def _above_empty(
    door: Authenticator, credential: str, rounds: int, count: int
) -> list[float]:
    headers = [
        (b"host", b"x"),
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer " + credential.encode()),
        (b"ce-id", b"1"),
    ]
    named = dict(headers)
    verdict = door.judge(headers, named, (), "")
    if isinstance(verdict, Pending):
        await verdict.asking
        verdict = door.judge_again(verdict)
    assert isinstance(verdict, EventSender)
    return _above(lambda: door.judge(headers, named, (), "127.0.0.1"), rounds, count)


def _above(call: Callable[[], object], rounds: int, count: int) -> list[float]:
    return [_cost(call, count) - _cost(lambda: None, count) for _ in range(rounds)]


def _cost(call: Callable[[], object], count: int) -> float:
    begun = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begun) / count * 1e6
