"""What the door alone costs, in this process: a key and a remembered token, each beside an empty call.

From the head of a request to its caller, and the quota of one event. Limits are those of the issue, in
microseconds above the empty call; they are shown, and hold on the machine of the figures.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from joserfc import jwt
from joserfc.jwk import ECKey

from app.access.caller import Caller
from app.access.who import Producers
from app.gateway.door import Door
from app.gateway.issuers import Issuers
from app.gateway.request import Pending
from app.model.producer import Producer
from app.runtime.clock import SystemClock
from app.runtime.heap import settle_heap

KEY = "sky_0123456789abcdef0123456789abcdef"
ISSUER = "https://id.example"


class Cost(NamedTuple):
    """Microseconds of CPU above an empty call: the middle of the rounds, and the limit."""

    name: str
    micros: float
    most: float


def measure(rounds: int, count: int) -> list[Cost]:
    with TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), rounds, count))


def text(costs: Sequence[Cost]) -> str:
    rows = [f"| {each.name} | {each.micros:.2f} | {each.most:g} |" for each in costs]
    return "\n".join(["| door | µs above an empty call | at most |", "|---|---|---|", *rows])


async def _measure(folder: Path, rounds: int, count: int) -> list[Cost]:
    signer = ECKey.generate_key("P-256", {"kid": "1", "use": "sig"})
    keys = folder / "jwks.json"
    keys.write_text(json.dumps({"keys": [signer.as_dict(private=False)]}))
    clock = SystemClock()
    quota = {"events": "999999999/s", "burst": 1_000_000_000}
    match = {"issuer": ISSUER, "audience": "skybridge", "match": {"azp": "a"}, "jwks": keys}
    door = Door(
        Producers([
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
    costs = [
        Cost(name, await _above_empty(door, value, rounds, count), most)
        for name, (value, most) in ways.items()
    ]
    caller, now = door.producers.callers["key"], clock.monotonic()
    return [
        *costs,
        Cost("quota of one event", _above(lambda: caller.take(1, now), rounds, count), 1.0),
    ]


async def _above_empty(door: Door, credential: str, rounds: int, count: int) -> float:
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
    assert isinstance(verdict, Caller)
    return _above(lambda: door.judge(headers, named, (), "127.0.0.1"), rounds, count)


def _above(call: Callable[[], object], rounds: int, count: int) -> float:
    return median(_cost(call, count) - _cost(lambda: None, count) for _ in range(rounds))


def _cost(call: Callable[[], object], count: int) -> float:
    begun = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begun) / count * 1e6
