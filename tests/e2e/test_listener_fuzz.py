"""Bytes that were a request once: whatever comes, no 5xx, no hang, no loss of the listener (S1)."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from app.telemetry import Counters
from configuration import route
from corrupted_requests import LIMITS, corrupted_bytes, statuses_after
from listening import listening, publishing
from raw_http import RawConnection, event, request
from scripted_log import ScriptedLog

AT_ONCE = 250

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


@pytest.mark.parametrize(
    ("seed", "cases"),
    [
        (1, 500),
        pytest.param(2, 1500, marks=pytest.mark.nightly),
        pytest.param(3, 100_000, marks=pytest.mark.nightly),
    ],
)
async def test_mutated_requests_are_never_5xx_and_never_hang(
    seed: int, cases: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Reliability S1, G5."""
    chance = random.Random(seed)
    log: Any = ScriptedLog(at_once=True)
    counters = Counters()
    publisher = publishing([route("t")], log, counters, limits=LIMITS)
    bounds = {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}
    statuses: set[int] = set()
    sendings = (corrupted_bytes(chance, SEEDS) for _ in range(cases))

    async def send_in_turn(port: int) -> None:
        for case in sendings:
            found = await statuses_after(port, case)
            assert all(status < 500 for status in found), case
            statuses.update(found)

    with caplog.at_level(logging.ERROR):
        async with listening(publisher, counters=counters, **bounds) as server:
            await asyncio.gather(*(send_in_turn(server.port) for _ in range(AT_ONCE)))
            async with await RawConnection.open(server.port) as peer:
                await peer.send(event(1))
                assert (await peer.answer()).status == 202
            assert publisher.in_flight == 0
    assert {202, 400} <= statuses
    assert not [record for record in caplog.records if record.name.startswith("app.")]
