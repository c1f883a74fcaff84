"""The largest request for every operation of the admin listener, and a service whose answers are
large.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from app.interfaces import PullMessage
from app.interfaces.clock import SystemClock
from app.store import open_store
from configuration import configuration, route
from letters_service import a_letter, a_message, a_row, an_attempt
from sending import BATCH, STRUCTURED

S, D, T = "/v1/subscriptions", "/subscriptions", "/v1/topics/log/t0"
PULLED, REPLAYED, CHANGED = "s0", "s1", "made"
YAML = {"content-type": "application/yaml"}
JSON = {"content-type": "application/json"}
PATCH = {"content-type": "application/merge-patch+json"}
MATCH = {"if-match": "*"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "com.example.order"}
TOKENS = {"tokens": [f"no-such-lock-{number}" for number in range(1_000)]}
DOCUMENT_BYTES = 60_000  # below limits.document
DEEP = 100 << 10  # bytes of a body that FastAPI reads, beyond its bound


class LargeRequest(NamedTuple):
    """A request of the admin API.

    ``{letter}``, ``{draft}`` and ``{replay}`` in a path are ids from earlier answers. ``also`` has
    statuses with which the largest body may be refused, because a bound is below its size.
    """

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = {}
    also: tuple[int, ...] = ()


def a_subscription(name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "source": {"broker": "log", "topics": ["events"]},
        "handshake": "off",
        "sink": "http://127.0.0.1:9/hook",
        "paused": True,
        "ordering": "none",
        **more,
    }


def _many_filters(bytes_: int) -> list[dict[str, Any]]:
    one = {"exact": {"type": "com.example.0000"}}
    count = bytes_ // len(json.dumps(one) + ", ")
    return [{"any": [{"exact": {"type": f"com.example.{number:04}"}} for number in range(count)]}]


def _draft() -> dict[str, Any]:
    config = {"broker": "log", "topics": ["events"], "handshake": "off", "paused": True}
    filters = _many_filters(DOCUMENT_BYTES - 1_000)
    return {
        "protocol": "HTTP",
        "sink": "http://127.0.0.1:9/hook",
        "config": config,
        "filters": filters,
    }


def _configuration(subscriptions: int) -> str:
    many = [a_subscription(f"q{number}") for number in range(subscriptions)]
    return json.dumps(
        {
            "version": 1,
            "brokers": {"log": {"kind": "embedded", "path": "log"}},
            "webhooks": {"allow_private": ["127.0.0.0/8"]},
            "subscriptions": many,
        }
    )


def _wrong(routes: int) -> str:
    return "version: 1\nroutes: [" + ", ".join(["{x: 1}"] * routes) + "]\n"


def largest(proposed: int = 5_000, events: int = 80) -> dict[str, LargeRequest]:
    """Return the largest request of each operation by operation id, in an order in which they
    succeed.

    Args:
        proposed: The count of subscriptions in a proposed configuration.
        events: The count of events to explain.
    """
    big = a_subscription(CHANGED, filters=_many_filters(DOCUMENT_BYTES))
    many = [{**EVENT, "id": str(number)} for number in range(events)]
    large = {**EVENT, "data": ["y" * 100] * 9_000}
    page = "limit=1000"
    return {
        "health": LargeRequest("GET", "/healthz"),
        "readiness": LargeRequest("GET", "/readyz"),
        "metrics": LargeRequest("GET", "/metrics"),
        "status": LargeRequest("GET", "/status"),
        "alerts": LargeRequest("GET", "/v1/alerts"),
        "test_alert": LargeRequest("POST", "/v1/alerts/none:test", also=(404,)),
        "configuration": LargeRequest("GET", "/v1/config"),
        "check_configuration": LargeRequest("POST", "/v1/config:check", _wrong(proposed * 10), YAML),
        "plan_configuration": LargeRequest("POST", "/v1/config:plan", _configuration(proposed), YAML),
        "reload_configuration": LargeRequest("POST", "/v1/config:reload"),
        "topics": LargeRequest("GET", "/v1/topics"),
        "topic": LargeRequest("GET", T),
        "offsets": LargeRequest("GET", f"{T}/offsets?time=0"),
        "peek": LargeRequest("GET", f"{T}/records?{page}&max_bytes=16777216&raw=true"),
        "tail": LargeRequest("GET", f"{T}/tail?from=earliest&follow=false&raw=true"),
        "produce": LargeRequest("POST", f"{T}/records", large, STRUCTURED),
        "explain": LargeRequest("POST", "/v1/explain", many, BATCH),
        "find_events": LargeRequest("GET", "/v1/events?id=1"),
        "subscriptions": LargeRequest("GET", S),
        "subscriptions_allow": LargeRequest("OPTIONS", S),
        "create_subscription": LargeRequest("POST", S, big, JSON),
        "replace_subscription": LargeRequest("PUT", f"{S}/{CHANGED}", big, {**JSON, **MATCH}),
        "patch_subscription": LargeRequest(
            "PATCH", f"{S}/{CHANGED}", {"filters": _many_filters(DOCUMENT_BYTES - 1_000)}, {**PATCH, **MATCH}
        ),
        "subscription": LargeRequest("GET", f"{S}/{CHANGED}"),
        "subscription_status": LargeRequest("GET", f"{S}/{CHANGED}/status"),
        "subscription_allow": LargeRequest("OPTIONS", f"{S}/{CHANGED}"),
        "test_subscription": LargeRequest("POST", f"{S}/{CHANGED}:test", large, STRUCTURED),
        "pause_subscription": LargeRequest("POST", f"{S}/{CHANGED}:pause", {"cause": "y" * DEEP}, JSON, (413,)),
        "resume_subscription": LargeRequest("POST", f"{S}/{CHANGED}:resume", also=(409,)),
        "retry_subscription": LargeRequest("POST", f"{S}/{CHANGED}:retry", {"key": "y" * DEEP}, JSON, (404, 409, 413, 422)),
        "subscription_history": LargeRequest("GET", f"{S}/{CHANGED}/history"),
        "delete_subscription": LargeRequest("DELETE", f"{S}/{CHANGED}"),
        "draft_query": LargeRequest("GET", D),
        "draft_allow": LargeRequest("OPTIONS", D),
        "draft_create": LargeRequest("POST", D, _draft(), JSON),
        "draft_retrieve": LargeRequest("GET", f"{D}/{{draft}}"),
        "draft_allow_one": LargeRequest("OPTIONS", f"{D}/{{draft}}"),
        "draft_update": LargeRequest("PUT", f"{D}/{{draft}}", _draft(), JSON),
        "draft_delete": LargeRequest("DELETE", f"{D}/{{draft}}"),
        "replay_subscription": LargeRequest("POST", f"{S}/{REPLAYED}:replay", {"from": "earliest"}, JSON),
        "replays": LargeRequest("GET", f"{S}/{REPLAYED}/replays"),
        "cancel_replay": LargeRequest("DELETE", f"{S}/{REPLAYED}/replays/{{replay}}", also=(404,)),
        "cancel_replays": LargeRequest("DELETE", f"{S}/{REPLAYED}/replays"),
        "subscription_events": LargeRequest("GET", f"{S}/{REPLAYED}/events?start=earliest&follow=false&explain=true"),
        "receive": LargeRequest("POST", f"{S}/{PULLED}:receive", {"max_events": 1_000, "max_wait": 0}, JSON),
        "acknowledge": LargeRequest("POST", f"{S}/{PULLED}:acknowledge", TOKENS, JSON),
        "release": LargeRequest("POST", f"{S}/{PULLED}:release", TOKENS, JSON),
        "renew": LargeRequest("POST", f"{S}/{PULLED}:renew", TOKENS, JSON),
        "reject": LargeRequest("POST", f"{S}/{PULLED}:reject", TOKENS, JSON),
        "dead_letters": LargeRequest("GET", f"/v1/dead-letters?{page}&raw=true"),
        "count_dead_letters": LargeRequest("GET", "/v1/dead-letters/count"),
        "dead_letter": LargeRequest("GET", "/v1/dead-letters/{letter}", also=(404,)),
        "resend_dead_letter": LargeRequest("POST", "/v1/dead-letters/{letter}:resend", also=(404,)),
        "parked": LargeRequest("GET", f"/v1/parked?{page}&messages=true"),
        "parked_keys": LargeRequest("GET", f"/v1/parked/keys?{page}"),
        "count_parked": LargeRequest("GET", "/v1/parked/count"),
        "attempts": LargeRequest("GET", f"/v1/attempts?{page}"),
        "redrive_dead_letters": LargeRequest(
            "POST", "/v1/dead-letters:redrive", {"subscription": REPLAYED, "dry_run": False, "limit": 1_000}, JSON
        ),
        "discard_dead_letters": LargeRequest("POST", "/v1/dead-letters:discard", {"dry_run": False}, JSON),
        "history": LargeRequest("GET", "/v1/history"),
        "history_live": LargeRequest("GET", "/v1/history/live?follow=false"),
        "session": LargeRequest("GET", "/v1/session"),
        "log_in": LargeRequest("POST", "/v1/session", {f"k{number}": 1 for number in range(700)}, JSON, (422,)),
        "log_out": LargeRequest("DELETE", "/v1/session"),
        "audit": LargeRequest("GET", f"/v1/audit?{page}"),
    }  # fmt: skip


def settings(folder: Path, *, routes: int, subscriptions: int) -> dict[str, Any]:
    """Return a configuration with these counts of routes and subscriptions. ``PULLED`` has a pull
    sink.
    """
    others = [
        route(
            f"t{number}", name=f"r{number}", filters=[{"prefix": {"type": f"com.other.{number}."}}]
        )
        for number in range(routes - 1)
    ]
    made = [
        a_subscription(f"s{number}", filters=[{"sql": f"id = '{number}' OR TRUE"}])
        for number in range(1, subscriptions)
    ]
    made[0]["source"] = {"broker": "log", "topics": ["t0"]}  # REPLAYED
    pulled = {
        key: value
        for key, value in a_subscription(PULLED, sink={"pull": {}}).items()
        if key not in {"handshake", "ordering"}
    }
    return configuration(
        folder,
        routes=[*others, route()],
        subscriptions=[{**pulled, "paused": False}, *made],
        timeouts={"drain": None},
    )


async def fill(folder: Path, *, rows: int, subscriptions: int, body: bytes = b"{}") -> None:
    """Write ``rows`` dead letters, parked events, attempts and events for pulling into the store.

    The first of each belong to the event ``1``.
    """
    store: Any = open_store(folder / "store.db", timeout=60)
    await store.start()
    try:
        for number in range(1, rows + 1):
            name = f"s{1 + number % (subscriptions - 1)}"
            await store.letters.add(
                a_letter(
                    number,
                    subscription=name,
                    cause=f"status-{number % 50}",
                    message=a_message(number, body=body),
                )
            )
        for begin in range(1, rows + 1, 500):
            numbers = range(begin, min(rows + 1, begin + 500))
            await store.parked.park(
                [a_row(each, subscription=REPLAYED, key=str(each).encode()) for each in numbers]
            )
            await store.attempts.add(
                [
                    replace(
                        an_attempt(each, subscription=f"s{1 + each % (subscriptions - 1)}"),
                        started_ms=int(SystemClock().now() * 1000),  # older ones are deleted
                        detail="d" * 200,
                    )
                    for each in numbers
                ]
            )
            await store.pulled.offer(
                [
                    PullMessage(
                        subscription=PULLED,
                        broker="log",
                        message=a_message(each, body=body),
                        lane=str(each).encode(),
                    )
                    for each in numbers
                ]
            )
    finally:
        await store.stop()


class KnownIds:
    """The ids from answers that the paths of later requests need."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {"letter": "1"}

    def path(self, asked: LargeRequest) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self._ids[found[1]], asked.path)

    def note(self, operation: str, answer: bytes) -> None:
        found: Mapping[str, Callable[[Any], Any]] = {
            "draft_create": lambda given: given["id"],
            "replay_subscription": lambda given: given["replays"][0]["id"],
            "dead_letters": lambda given: (
                given["dead_letters"][-1]["id"] if given["dead_letters"] else 1
            ),
        }
        name = {"draft_create": "draft", "replay_subscription": "replay", "dead_letters": "letter"}
        if operation in found:
            self._ids[name[operation]] = str(found[operation](json.loads(answer)))


def events(count: int, data: str = "y" * 200) -> LargeRequest:
    """Return a batch for the events listener, whose events have the id ``1`` and different
    sources.

    Only one subscription reads them, because the work of workers is not measured here.
    """
    about = {**EVENT, "type": "com.other.0.order", "data": data}
    many = [{**about, "source": f"/shop/{number}"} for number in range(count)]
    return LargeRequest("POST", "/events", many, BATCH)


def body_of(asked: LargeRequest) -> bytes | None:
    if asked.body is None or isinstance(asked.body, bytes):
        return asked.body
    return asked.body.encode() if isinstance(asked.body, str) else json.dumps(asked.body).encode()
