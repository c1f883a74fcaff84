"""Every row of the table of bad requests, through a socket: exact status and problem, nothing stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.gateway.limits import ListenerLimits
from app.telemetry import Counters
from bad_requests import BAD_REQUESTS, BadRequest, oversize
from listening import listening, publishing
from raw_http import RawConnection
from scripted_log import ScriptedLog

LIMITS = ListenerLimits(header_bytes=64 * 1024, header_fields=64, body=1024 * 1024)
ROUTES = [
    {"name": "keyed", "filters": [{"exact": {"type": "-"}}], "to": {"broker": "log", "topic": "k"},
     "key": {"mapper": "partitionkey", "missing": "reject"}},
    {"name": "all", "to": {"broker": "log", "topic": "t"}},
]  # fmt: skip


def bytes_of(row: BadRequest) -> bytes:
    head = b"%b %b HTTP/1.1\r\nhost: x\r\n" % (row.method.encode(), row.target.encode())
    fields = b"".join(b"%b: %b\r\n" % pair for pair in row.headers)
    return head + fields + b"content-length: %d\r\n\r\n" % len(row.body) + row.body


def expected(row: BadRequest) -> tuple[Any, ...]:
    return row.status, f"urn:skybridge:problem:{row.code}", row.faults, row.indexes


async def test_every_bad_request_has_its_status_and_problem_and_stores_nothing() -> None:
    """G5: 4xx with all faults listed; never 5xx, never a hang, never stored."""
    rows = [*BAD_REQUESTS, *oversize(LIMITS.body, LIMITS.header_bytes, LIMITS.header_fields)]
    log: Any = ScriptedLog(at_once=True)
    counters = Counters()
    publisher = publishing(ROUTES, log, counters, limits=LIMITS, unknown_formats="refuse")
    bounds = {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}
    wrong = []
    async with listening(publisher, counters=counters, **bounds) as server:
        for row in rows:
            found = await answered(server.port, row)
            if found != expected(row):
                wrong.append((row.id, found, expected(row)))
    assert wrong == []
    assert len(rows) >= 200
    assert log.submits == []
    assert counters.total("events_refused") == len(rows)


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", 0, 400), ("1.1", 1, 202), ("1.1", 2, 400), ("1.0", 0, 202), ("1.0", 2, 400)],
)
async def test_a_request_names_exactly_one_host(version: str, hosts: int, status: int) -> None:
    """RFC 9112 3.2: a server MUST answer 400 to HTTP/1.1 without Host, and to more than one."""
    log: Any = ScriptedLog(at_once=True)
    fields = b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\ncontent-length: 0\r\n\r\n"
    publisher = publishing(ROUTES[1:2], log, Counters())
    async with listening(publisher) as server, await RawConnection.open(server.port) as peer:
        head = b"POST /events HTTP/%b\r\n" % version.encode()
        peer.writer.write(head + b"host: x\r\n" * hosts + fields)
        answer = await peer.answer()
    assert answer.status == status
    assert len(log.submits) == (status == 202)


async def answered(port: int, row: BadRequest) -> tuple[Any, ...]:
    async with await RawConnection.open(port) as peer:
        peer.writer.write(bytes_of(row))
        answer = await peer.answer()
    problem = json.loads(answer.body)
    faults = problem["faults"] if row.faults else ()
    indexes = tuple(fault["index"] for fault in faults if "index" in fault)
    assert problem["status"] == answer.status
    return answer.status, problem["type"], tuple(fault["code"] for fault in faults), indexes
