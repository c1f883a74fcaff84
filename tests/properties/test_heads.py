"""A head that is read by its compiled pattern means what it means to httptools, and its event what it always meant."""

from __future__ import annotations

import random
from typing import Any

import pytest

from app.access.caller import EventSender
from app.access.quota import Quota
from app.access.rights import Rights
from app.errors import SenderError
from app.gateway.publish import Publisher, PublishPolicy
from app.gateway.request import EventRequest
from app.model.log_name import LogName
from app.model.producer import May
from app.model.route import Route
from app.routing.plan import Router
from app.routing.publications import PulsarProfile
from app.telemetry import Counters
from compiled_heads import SEEDS, ParsedRequests, learned
from corrupted_requests import TOKENS, corrupted_bytes
from scripted_log import ScriptedLog

TEXTS = [
    b"1", b"0", b"", b"\t", b" x", b"x ", b"a b", b"a%20b", b"%", b'"q"', b"com.example.b", b"/x", b"://", b"1.0",
    b"0.3", b"2026-02-30T10:00:00Z", b"2026-11-20T10:00:00Z", b"a" * 300, b"\xc3\xa9", b"\xff", b"application/json",
    b"application/cloudevents+json", b"0" * 12, b"+7", b"7_7", b"a\x00b", b"a\x7fb", b"a\rb", b"a\nb", b"a\r\n b",
]  # fmt: skip
LOG = {"broker": "log", "topic": "t"}
ROUTES: list[dict[str, Any]] = [
    {},
    {"key": {"mapper": "partitionkey", "missing": "reject"}},
    {"key": {"mapper": "attribute", "attribute": "subject"}},
    {"key": {"mapper": "attribute", "attribute": "datacontenttype"}},
    {"key": {"mapper": "template", "template": "{id}"}},
    {"key": {"mapper": "partitionkey", "missing": "from_request"}},
    {"to": {"broker": "log", "topic": "of.{type}"}},
    {"to": {"broker": "log", "topic": "of.{region ?? none}"}},
    {"to": [LOG, {"broker": "log", "topic": "u"}]},
    {"filters": [{"prefix": {"type": "com.example."}}]},
    {"filters": [{"exact": {"datacontenttype": "application/json"}}]},
    {"filters": [{"sql": "LENGTH(id) = 1"}]},
    {"content_mode": "structured"},
    {"content_mode": "as_received", "empty_body": "empty"},
    {"specversion": "0.3"},
    {"deduplicate": {"window": "1m"}},
    {"to": {"broker": "rabbit", "topic": "t"}, "key": {"mapper": "attribute", "attribute": "id"}},
    {"to": {"broker": "rabbit", "exchange": "e", "routing_key": "{type}"}},
    {"to": {"broker": "rabbit", "topic": "of.{region ?? none}"}, "content_mode": "as_received"},
    {"to": {"broker": "pulsar", "topic": "t"}, "key": {"mapper": "partitionkey"}},
    {"to": {"broker": "pulsar", "topic": "t"}, "empty_body": "null"},
    {"to": {"broker": "pulsar-ce", "topic": "t"}},
    {"to": {"broker": "pulsar-json", "topic": "t"}},
]
KINDS = {
    "rabbit": "rabbitmq",
    "pulsar": "pulsar",
    "pulsar-ce": "pulsar",
    "pulsar-json": "pulsar",
}
PROFILES = {
    "pulsar-ce": PulsarProfile(names="ce_"),
    "pulsar-json": PulsarProfile(strings="json"),
}
MAY = May.model_validate({"types": ["com.example.*"]})
RIGHTS = {"": May(), "shop": May(), "narrow": MAY}
CASES = [(1, 10_000), pytest.param(2, 100_000, marks=pytest.mark.nightly)]


class PublishedEvents:
    """A publisher, and everything that it did."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.log: Any = ScriptedLog(at_once=True)
        self.counters = Counters()
        named = {"name": "named", "filters": [{"exact": {"type": "none"}}], "to": LOG}
        routes = [named, {"name": "r", "to": LOG, **settings}]
        router = Router(
            [Route.model_validate(route) for route in routes], kinds=KINDS, manners=PROFILES
        )
        quota = Quota(1.0, 50)  # some are over it
        self.callers = [
            None,
            *[EventSender(name, Rights(name, may), quota) for name, may in RIGHTS.items()],
        ]
        logs = {LogName(broker): self.log for broker in ("log", *KINDS)}
        policy = PublishPolicy(router=router)
        self.publisher = Publisher(policy, logs, self.counters, monotonic=lambda: 0.0)

    def publish(self, request: EventRequest, caller: int) -> object:
        """Return the answer, and what was submitted for the request of one of the callers."""
        answers: list[object] = []
        request.caller = self.callers[caller]
        begin = len(self.log.submits)
        try:
            answers.append(self.publisher.publish(request, answers.append))
        except SenderError as error:
            answers.append((error.code, error.faults))
        made = [(one.topic, one.records, one.identities) for one in self.log.submits[begin:]]
        return [each for each in answers if each is not None], made


def mutated(chance: random.Random, seed: bytes) -> bytes:
    """Return a request with one value replaced, or with random corruptions."""
    if chance.random() < 0.3:
        return corrupted_bytes(chance, [seed])
    head, _, body = seed.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    for _ in range(chance.randint(0, 2)):
        at = chance.randrange(len(lines))
        name, colon, _ = lines[at].partition(b": ")
        lines[at] = name + colon + chance.choice(TEXTS)
        if chance.random() < 0.1:
            lines.insert(at, chance.choice(TOKENS).removesuffix(b"\r\n"))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize(("seed", "cases"), CASES)
async def test_a_compiled_head_is_read_as_the_parser_reads_it(seed: int, cases: int) -> None:
    """Requests that the pattern does not match go to httptools, so they need no comparison."""
    chance, read = random.Random(seed), 0
    layouts = [(data, learned(data)) for data in SEEDS]
    for _ in range(cases):
        data, layout = chance.choice(layouts)
        case = mutated(chance, data)
        found = layout.read(case)
        if found is None:
            continue
        read += 1
        parsed = ParsedRequests(case)
        assert parsed.complete == 1
        assert (parsed.headers, parsed.body) == (layout.headers(found[0]), found[1])
        assert (parsed.parser.get_method(), parsed.url) == (b"POST", ParsedRequests(data).url)
        assert parsed.parser.should_keep_alive()
        assert not parsed.parser.should_upgrade()
        assert parsed.parser.get_http_version() == "1.1"
    assert read > cases // 10


@pytest.mark.parametrize(("seed", "cases"), CASES)
async def test_an_event_is_published_alike_with_and_without_its_layout(
    seed: int, cases: int
) -> None:
    """The same records to the same topics, the same answers and the same counts."""
    chance, read = random.Random(seed), 0
    layouts = [(data, learned(data)) for data in SEEDS]
    ways = [(PublishedEvents(route), PublishedEvents(route)) for route in ROUTES]
    for _ in range(cases):
        data, layout = chance.choice(layouts)
        found = layout.read(mutated(chance, data))
        if found is None:
            continue
        read += 1
        values, body = found
        by_layout = EventRequest(None, None, body, layout.route, layout=layout, values=values)
        headers = layout.headers(values)
        whole = EventRequest(headers, dict(headers), body, layout.route)
        compiled, ordinary = chance.choice(ways)
        caller = chance.randrange(4)
        assert compiled.publish(by_layout, caller) == ordinary.publish(whole, caller)
    assert read > cases // 10
    for compiled, ordinary in ways:
        assert compiled.counters.values() == ordinary.counters.values()


@pytest.mark.parametrize("route", [*ROUTES[:4], *ROUTES[16:22]])
def test_the_usual_routes_have_a_plan_for_a_layout(route: dict[str, Any]) -> None:
    """Otherwise the tests above compare the ordinary way with itself."""
    layout = learned(SEEDS[0])
    found = layout.read(SEEDS[0])
    assert found is not None
    request = EventRequest(None, None, found[1], layout.route, layout=layout, values=found[0])
    publisher = PublishedEvents(route).publisher
    planned = publisher._plan_row(layout, request, None)
    assert (planned is None) == (route.get("key", {}).get("attribute") == "datacontenttype")
