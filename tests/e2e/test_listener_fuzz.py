"""Bytes that were a request once: whatever comes, no 5xx, no hang, no loss of the listener (S1)."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from typing import Any

import pytest

from app.gateway.limits import Limits
from app.gateway.publish import Publisher
from app.model.route import Route
from app.routing.plan import Router
from app.telemetry import Counters
from listening import listening
from raw_http import RawConnection, event, request
from scripted_log import ScriptedLog

AT_ONCE = 250
LONG = pytest.mark.timeout(1200)
PATIENCE = 60.0  # seconds; deadlines below are far shorter
LIMITS = Limits(head_timeout=0.2, body_timeout=0.3, keep_alive=0.3, linger=0.1, body=4000)
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [A-Z][A-Za-z ]*\r\n")

STRUCTURED = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":[1,2.50,null]}}'
JSON_TYPE = [("content-type", "application/cloudevents+json")]
BATCH_TYPE = [("content-type", "application/cloudevents-batch+json")]
CHUNKED = request(headers=[("transfer-encoding", "chunked"), *JSON_TYPE], length=False)
SEEDS = [
    event(1),
    event("Euro%20%E2%82%AC", skybridge_key="k", prefer="return=representation"),
    request(body=STRUCTURED, headers=JSON_TYPE),
    request("/events/all?key=%41", STRUCTURED, headers=JSON_TYPE, method="PUT"),
    request(body=b"[" + STRUCTURED + b"," + STRUCTURED + b"]", headers=BATCH_TYPE),
    CHUNKED + b"%x\r\n" % len(STRUCTURED) + STRUCTURED + b"\r\n0\r\nx: y\r\n\r\n",
    request("/other", method="GET", length=False),
    request(method="OPTIONS", headers=[("webhook-request-origin", "x")], length=False),
    event(1, connection="Upgrade", upgrade="h2c"),
    event(1, expect="100-continue", connection="close"),
]
TOKENS = [
    b"\r\n", b"\n", b"\r", b"\0", b"\xff\xfe", b"%", b"%C0%A0", b":", b" ", b"\t", b"content-length: 5\r\n",
    b"transfer-encoding: chunked\r\n", b"0\r\n\r\n", b"\r\n\r\n", b"HTTP/1.0", b"ce-id: 2\r\n", b"{", b"]",
    b'"', b"\\ud800", b"1e400", b"null", b"content-encoding: gzip\r\n", b"expect: 100-continue\r\n",
    b"connection: upgrade\r\nupgrade: x\r\n", b"\xed\xa0\x80", b"99999999999999999999",
]  # fmt: skip


def mutated(chance: random.Random) -> bytes:
    """One to three valid requests behind each other, with a few wounds."""
    data = bytearray(b"".join(chance.choices(SEEDS, k=chance.randint(1, 3))))
    for _ in range(chance.randint(1, 5)):
        place = chance.randrange(len(data) + 1)
        wound = chance.randrange(5)
        if wound == 0:
            data[place : place + 1] = bytes([chance.randrange(256)])
        elif wound == 1:
            del data[place : place + chance.randint(1, 30)]
        elif wound == 2:
            data[place:place] = chance.choice(TOKENS)
        elif wound == 3:
            data[place:place] = data[place : place + chance.randint(1, 60)]
        else:
            del data[place:]
    return bytes(data)


@pytest.mark.parametrize(
    ("seed", "cases"),
    [
        (1, 1500),
        pytest.param(2, 1500, marks=pytest.mark.nightly),
        pytest.param(3, 100_000, marks=[pytest.mark.nightly, LONG]),
    ],
)
async def test_mutated_requests_are_never_5xx_and_never_hang(
    seed: int, cases: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Reliability S1, G5."""
    chance = random.Random(seed)
    log: Any = ScriptedLog(at_once=True)
    route = Route.model_validate({"name": "all", "to": {"broker": "log", "topic": "t"}})
    counters = Counters()
    publisher = Publisher(Router([route]), {"log": log}, counters, limits=LIMITS)
    bounds = {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}
    statuses: set[int] = set()
    with caplog.at_level(logging.ERROR):
        async with listening(publisher, counters=counters, **bounds) as server:
            for _ in range(cases // AT_ONCE):
                sendings = [mutated(chance) for _ in range(AT_ONCE)]
                for case, found in zip(
                    sendings,
                    await asyncio.gather(*(sent(server.port, each) for each in sendings)),
                    strict=True,
                ):
                    assert all(status < 500 for status in found), case
                    statuses.update(found)
            async with await RawConnection.open(server.port) as peer:
                await peer.send(event(1))
                assert (await peer.answer()).status == 202
            assert publisher.in_flight == 0
    assert {202, 400} <= statuses
    assert not [record for record in caplog.records if record.name.startswith("app.")]


async def sent(port: int, case: bytes) -> list[int]:
    """Every status that came back before the peer closed, which it must do within the deadline."""
    async with await RawConnection.open(port) as peer:
        peer.writer.write(case)
        async with asyncio.timeout(PATIENCE):
            try:
                answers = await peer.reader.read()
            except ConnectionError:
                return []
    return [int(status) for status in ANSWER.findall(answers)]
