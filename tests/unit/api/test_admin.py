"""The admin listener, asked through ASGI about a service that is made up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from msgspec.structs import replace

import topics_service
from admin_app import admin_app, client_of
from app.access.caller import EventMeter
from app.access.who import ProducerDirectory
from app.api.access.callers import AdminAccess
from app.api.access.guard import demand_token
from app.api.asked.readiness import RoleReadiness
from app.api.status import families
from app.api.status.answers import DiskView, KafkaListenerView, SpoolView
from app.api.status.configured import ReloadResult
from app.api.subscriptions.standings import brokers_of, letters_of, parked_of
from app.bindings import kafka
from app.bindings.documents import FormatName
from app.bindings.record import Record
from app.bindings.transcode import EncodeOptions
from app.errors import BrokerUnavailable, SetupError, StoreUnavailable
from app.interfaces import DeadLetter
from app.model.metadata import GroupLag, Lags, LogHealth, LogMetadata
from app.model.producer import Producer
from app.model.route import Route, Target
from app.model.subscription_status import SubscriptionStatus
from app.problems import PROBLEMS
from app.telemetry import LABEL_BOUND
from fake_log import FakeLog

EVENT = Record(
    b"k\xff",
    (
        ("ce_specversion", b"1.0"),
        ("ce_id", b"7"),
        ("ce_source", b"/s"),
        ("ce_type", b"t"),
        ("content-type", b"application/json"),
    ),
    b'{"price": 1.10}',
)
DOCUMENT = Path(__file__).parents[3] / "openapi" / "openapi.json"
FOREIGN = Record(None, (("x", None),), b"no event")
_READY = RoleReadiness(ready=True, causes=[])


class Service(topics_service.FakeTopicsService):
    installation = "shop"
    roles = ("gateway", "worker")

    def __init__(self) -> None:
        super().__init__()
        self.logs = {"log": self.log}
        self.routes = (Route(name="all", to=(Target(broker="log", topic="events"),)),)
        self.started_at = self.clock.monotonic()
        self.roles_now = {"gateway": _READY, "worker": _READY}
        self.lags: list[GroupLag] = []
        self.listeners: tuple[KafkaListenerView, ...] = ()
        self.producers = ProducerDirectory(())
        self.of_intakes: dict[str, EventMeter] = {}
        self.spools = self.registry = self
        begun = ReloadResult(at=0.0, cause="start", outcome="ok", digest="0123456789ab")
        self.configured = SimpleNamespace(
            source="skybridge.yaml",
            digest=begun.digest,
            last=begun,
            taken=begun,
            taken_at=0.0,
            shown={},
        )

    def notify(self, kind: str, subject: str, detail: Mapping[str, object], /) -> None: ...

    def groups(self, broker: str, topic: str) -> dict[str, str]:
        return {}

    async def states(self) -> tuple[SpoolView, ...]:
        return (
            SpoolView(
                route="orders", broker="log", state="spooling", cause="away", records=3, bytes=300,
                most=1_000, oldest_seconds=1.5, repeats=2,
            ),
        )  # fmt: skip

    def views(self) -> tuple[KafkaListenerView, ...]:
        return self.listeners

    def tallies(self) -> dict[str, EventMeter]:
        return self.of_intakes

    async def disks(self) -> dict[str, DiskView]:
        return {"/data": DiskView(free=1, size=4)}

    async def metrics(self) -> list[families.Family]:
        letters, parked = await letters_of(self.store), await parked_of(self.store)
        return [
            *families.ready_families(await self.readiness()),
            *families.broker_families(await brokers_of(self.logs)),
            *families.subscription_families(await self.statuses(), await self.lag()),
            *families.store_families(letters, parked),
            *families.spool_families(await self.states()),
            *families.kafka_listener_families(self.views()),
            *families.volume_families(await self.disks()),
            *families.certificate_families({"server.events.tls.cert": 1.5e9}),
            *families.configuration_families(self.configured),
        ]

    async def readiness(self) -> dict[str, RoleReadiness]:
        return self.roles_now

    async def statuses(self) -> list[SubscriptionStatus]:
        return [
            SubscriptionStatus(
                id="billing",
                sink="https://b.example/hook",
                broker="log",
                group="skybridge.shop.billing",
                state="paused",
                cause="503 with Retry-After",
                held=3,
                paused_for=12.5,
                oldest=3600.25,
                last_status=503,
                last_error="closed",
            )
        ]

    async def lag(self) -> Lags:
        return Lags(self.lags)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def client(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with _client(service, None) as client:
        yield client


def _client(
    service: Service,
    token: str | None,
    stopped: asyncio.Event | None = None,
    base: str = "http://127.0.0.1",
) -> httpx.AsyncClient:
    return client_of(admin_app(service, AdminAccess.by(token), stopped), base)


async def test_ready_service_answers_200_with_each_role(client: httpx.AsyncClient) -> None:
    """An orchestrator sends traffic on this answer alone."""
    answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["roles"]["gateway"] == {"ready": True, "causes": []}


async def test_a_role_that_is_not_ready_makes_503_with_its_cause(
    service: Service, client: httpx.AsyncClient
) -> None:
    """Whoever is paged must read why, not guess."""
    service.roles_now["worker"] = RoleReadiness(
        ready=False, causes=["subscription billing is starting"]
    )
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["roles"]["worker"]["causes"] == ["subscription billing is starting"]
    assert answer.json()["ready"] is False


async def test_one_role_is_asked_alone(service: Service, client: httpx.AsyncClient) -> None:
    """A subscription that begins anew must not take the only pod out of its Service."""
    service.roles_now["worker"] = RoleReadiness(
        ready=False, causes=["subscription billing is restarting"]
    )
    answer = await client.get("/readyz", params={"role": "gateway"})
    assert (answer.status_code, list(answer.json()["roles"])) == (200, ["gateway"])
    assert (await client.get("/readyz", params={"role": "worker"})).status_code == 503
    assert (await client.get("/readyz", params={"role": "queen"})).status_code == 422
    del service.roles_now["worker"]
    elsewhere = await client.get("/readyz", params={"role": "worker"})
    assert elsewhere.status_code == 503
    assert "does not run the role worker" in elsewhere.json()["roles"]["worker"]["causes"][0]


async def test_liveness_does_not_depend_on_readiness(
    service: Service, client: httpx.AsyncClient
) -> None:
    """A broker that is away must not get the process restarted."""
    service.roles_now["gateway"] = RoleReadiness(ready=False, causes=["broker away"])
    assert (await client.get("/healthz")).status_code == 200


async def test_status_shows_subscriptions_with_dead_letters_and_last_error(
    service: Service, client: httpx.AsyncClient
) -> None:
    """The one page an operator opens first."""
    service.store.letters.rows.append(_letter(EVENT))
    status = (await client.get("/status")).json()
    (subscription,) = status["subscriptions"]
    assert subscription["state"] == "paused"
    assert subscription["cause"] == "503 with Retry-After"
    assert subscription["last_error"] == "503 (closed)"
    assert subscription["dead_letters"] == {"status-415": 1}
    assert subscription["lag"] is None
    assert status["brokers"] == {"log": {"healthy": True, "cause": ""}}


async def test_status_counts_routes_and_answers_and_says_what_needs_a_person(
    service: Service, client: httpx.AsyncClient
) -> None:
    """One answer is one screen: ``skybridge status`` asks nothing else."""
    service.counters.add("events_published", "all", "log", by=7)
    service.counters.add("events_published", "all", "copy", by=7)
    service.counters.add("events_unpublished", "all", "log", "publish-unknown", by=2)
    service.counters.add("deliveries", "billing", "delivered", by=5)
    service.counters.add("deliveries", "billing", "filtered", by=9)
    service.counters.add("answers", "billing", "204", by=5)
    service.counters.add("answers", "billing", "503")
    status = (await client.get("/status")).json()
    (route,), (subscription,) = status["routes"], status["subscriptions"]
    assert (route["events"], route["unpublished"]) == (14, 2)
    assert (subscription["delivered"], subscription["answers"]) == (5, {"204": 5, "503": 1})
    assert status["disks"] == {"/data": {"free": 1, "size": 4}}
    late = "subscription billing: its oldest event has waited for 1 h 0 min: 503 with Retry-After"
    cure = "Cure: the attempts show what the target answers"
    assert status["readiness"]["worker"] == {"ready": True, "causes": [f"{late}. {cure}"]}
    spool, only = status["attention"]
    assert spool["verdict"] == "spool-filling"
    assert subscription["attention"] == [only]
    assert only["verdict"] == "late-events"
    assert only["subject"] == "subscription billing"
    assert only["next"] == "skybridge attempts --subscription billing"
    metrics = (await client.get("/metrics")).text
    assert 'skybridge_answers_total{answer="503",subscription="billing"} 1.0' in metrics
    assert 'skybridge_subscription_paused{subscription="billing"} 0.0' in metrics


async def test_status_shows_filter_expressions_that_failed(
    service: Service, client: httpx.AsyncClient
) -> None:
    """Issue 16: of a route and of a subscription each, apart from what was filtered."""
    before = (await client.get("/status")).json()
    name = before["subscriptions"][0]["id"]
    service.counters.add("filter_errors", "subscription", name, by=6)
    service.counters.add("filter_errors", "route", "all", by=2)
    after = (await client.get("/status")).json()
    assert [each["filter_errors"] for each in before["subscriptions"] + before["routes"]] == [0, 0]
    assert [each["filter_errors"] for each in after["subscriptions"] + after["routes"]] == [6, 2]
    metrics = (await client.get("/metrics")).text
    assert f'skybridge_filter_errors_total{{name="{name}",of="subscription"}} 6.0' in metrics


async def test_each_kafka_listener_is_shown_and_measured(
    service: Service, client: httpx.AsyncClient
) -> None:
    """Where clients come to, how many are there, and what was refused; a label is a broker's name."""
    service.listeners = (
        KafkaListenerView(
            broker="log",
            address="127.0.0.1:19092",
            connections=3,
            held_bytes=70,
            refused_connections=1,
            refused_frames=2,
        ),
    )
    (listener,) = (await client.get("/status")).json()["kafka_listeners"]
    assert listener == {
        "broker": "log",
        "address": "127.0.0.1:19092",
        "connections": 3,
        "held_bytes": 70,
        "refused_connections": 1,
        "refused_frames": 2,
    }
    metrics = (await client.get("/metrics")).text
    assert 'skybridge_kafka_open_connections{broker="log"} 3.0' in metrics
    assert 'skybridge_kafka_held_bytes{broker="log"} 70.0' in metrics


async def test_each_producer_is_shown_with_what_it_has_sent(
    service: Service, client: httpx.AsyncClient
) -> None:
    """How much, how fast, and when last."""
    listed = [{"name": name, "keys": [f"the-key-of-the-{name}"]} for name in ("shop", "till")]
    service.producers = ProducerDirectory([Producer.model_validate(each) for each in listed])
    service.producers.callers["shop"].take(30, service.clock.monotonic())
    service.producers.callers["shop"].tally.refused += 2
    shop, till = (await client.get("/status")).json()["producers"]
    assert shop == {"name": "shop", **THIRTY_JUST_NOW}
    assert (till["name"], till["last_event_seconds"]) == ("till", None)


THIRTY_JUST_NOW = {"events": 30, "refused": 2, "events_per_second": 30.0, "last_event_seconds": 0.0}


async def test_each_intake_is_shown_with_what_came_by_it(
    service: Service, client: httpx.AsyncClient
) -> None:
    service.of_intakes = {"github": EventMeter(), "erp": EventMeter()}
    service.of_intakes["github"].add(30, service.clock.monotonic())
    service.of_intakes["github"].refused += 2
    github, erp = (await client.get("/status")).json()["intakes"]
    assert github == {"name": "github", **THIRTY_JUST_NOW}
    assert (erp["name"], erp["last_event_seconds"]) == ("erp", None)


@pytest.mark.parametrize("step", [3600.0, -3600.0])
async def test_a_step_of_the_wall_clock_makes_no_sender_silent_and_hides_none(
    service: Service, client: httpx.AsyncClient, step: float
) -> None:
    """A sender is silent if it has sent nothing for five minutes since a reload."""
    now, begun = service.clock.monotonic(), service.configured.last
    service.of_intakes = {"github": EventMeter()}
    service.of_intakes["github"].add(30, now)
    service.clock.suspend(1)
    taken = replace(begun, at=service.clock.now(), cause="signal")
    service.configured.last = service.configured.taken = taken
    service.configured.taken_at = service.clock.monotonic()
    service.clock.ahead = step
    for seconds, silent in ((60, []), (300, ["intake github"])):
        service.clock.suspend(seconds)
        found = (await client.get("/status")).json()["attention"]
        subjects = [each["subject"] for each in found if each["verdict"] == "silent-producer"]
        assert subjects == silent


async def test_a_store_in_trouble_hides_nothing_else(
    service: Service, client: httpx.AsyncClient
) -> None:
    """That is when the status is looked at."""
    service.store.trouble = "disk full"
    status = (await client.get("/status")).json()
    assert status["store"] == {"healthy": False, "cause": "disk full"}
    assert (await client.get("/metrics")).status_code == 200
    letters = await client.get("/v1/dead-letters")
    assert letters.status_code == 503
    assert letters.json()["type"] == "urn:skybridge:problem:store-unavailable"


def _operations() -> list[tuple[str, str]]:
    """Method and path of every operation of the document."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    return [
        (method, path)
        for path, operations in paths.items()
        for method in operations
        if method in {"get", "post", "put", "patch", "delete"}
        and not path.startswith(("/events", "/in/"))
    ]


async def test_an_unknown_query_parameter_is_refused_on_every_operation(
    client: httpx.AsyncClient,
) -> None:
    """``/v1/parked?event_id=7`` answered with everything, as if all of it were of that event."""
    taken = []
    for method, path in _operations():
        filled = re.sub(r"\{[^}]+\}", "1", path)
        body = {"json": {}} if method in {"post", "put", "patch"} else {}
        answer = await client.request(method, filled, params={"event_idd": "7"}, **body)
        refused = answer.status_code == 422 and any(
            (fault["code"], fault["at"]) == ("unknown-parameter", "query.event_idd")
            for fault in answer.json()["faults"]
        )
        if not refused:
            taken.append((method, path, answer.status_code, answer.text))
    assert taken == []


ELSEWHERE = [
    {"origin": "https://evil.example"},
    {"origin": "null"},  # a file, or a page in a sandbox
    {"origin": "http://127.0.0.1:3000"},  # another port is another origin
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "http://127.0.0.1:8081", "sec-fetch-site": "cross-site"},
]
CHANGES = ["/v1/subscriptions/s:pause", "/v1/config:reload", "/v1/dead-letters:redrive"]


@pytest.mark.parametrize("headers", ELSEWHERE)
@pytest.mark.parametrize("path", CHANGES)
async def test_a_page_of_another_origin_changes_nothing(client, path, headers):
    """Any page in a browser on this machine can post to loopback, and needs no token there."""
    answer = await client.post(path, headers={"host": "127.0.0.1:8081", **headers})
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:skybridge:problem:other-origin"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://127.0.0.1:8081", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
)
async def test_programs_and_pages_of_the_listener_itself_may_change_something(client, headers):
    """What comes of it is the resource's to say."""
    answer = await client.post("/v1/nothing", headers={"host": "127.0.0.1:8081", **headers})
    assert answer.status_code == 404


async def test_a_page_of_another_origin_may_look(client):
    """The browser itself keeps the answer from it."""
    headers = {"host": "127.0.0.1:8081", "origin": "https://evil.example"}
    assert (await client.get("/status", headers=headers)).status_code == 200


@pytest.mark.parametrize("path", ["/status", "/metrics", "/v1/topics", "/openapi.json", "/docs"])
async def test_with_a_token_nothing_is_told_without_it(service: Service, path: str) -> None:
    """Off loopback the listener shows topics and dead letters: only to those who may."""
    async with _client(service, "t0ken-of-the-admin", base="http://shop.example") as client:
        assert (await client.get(path)).status_code == 401
        wrong = await client.get(path, headers={"authorization": "Bearer t0ken-of-the-admim"})
        right = await client.get(path, headers={"authorization": "Bearer t0ken-of-the-admin"})
    assert wrong.status_code == 401
    assert wrong.headers["content-type"] == "application/problem+json"
    assert right.status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_need_no_token(service: Service, path: str) -> None:
    """A kubelet has none."""
    async with _client(service, "t0ken-of-the-admin") as client:
        assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    ("token", "base"),
    [("t0ken-of-the-admin", "http://shop.example"), (None, "http://evil.example")],
)
async def test_readiness_tells_a_stranger_no_causes(
    service: Service, token: str | None, base: str
) -> None:
    """Causes name brokers and their addresses; a load balancer needs the status alone."""
    service.roles_now["gateway"] = RoleReadiness(
        ready=False, causes=["broker main: 10.0.0.7:9092 refused"]
    )
    async with _client(service, token, base=base) as client:
        answer = await client.get("/readyz")
        other = await client.get("/readyz", params={"role": "worker"})
    assert (answer.status_code, answer.json()) == (503, {"ready": False})
    assert (other.status_code, other.json()) == (200, {"ready": True})


async def test_readiness_tells_the_holder_of_the_token_its_causes(service: Service) -> None:
    """A wrong token is refused here too: an answer of another shape would let it be tried out unseen."""
    service.roles_now["gateway"] = RoleReadiness(
        ready=False, causes=["broker main: 10.0.0.7:9092 refused"]
    )
    async with _client(service, "t0ken-of-the-admin", base="http://shop.example") as client:
        right = await client.get("/readyz", headers={"authorization": "Bearer t0ken-of-the-admin"})
        wrong = await client.get("/readyz", headers={"authorization": "Bearer t0ken-of-the-admim"})
    assert right.json()["roles"]["gateway"]["causes"] == ["broker main: 10.0.0.7:9092 refused"]
    assert wrong.status_code == 401


async def test_without_a_token_other_host_names_are_refused(service: Service) -> None:
    """A web page must not read the topics through a name that it points at 127.0.0.1."""
    async with _client(service, None, base="http://evil.example") as client:
        assert (await client.get("/status")).status_code == 421


@pytest.mark.parametrize("base", ["http://localhost:8081", "http://[::1]:8081"])
async def test_loopback_names_are_welcome_without_a_token(service: Service, base: str) -> None:
    """Loopback has more than one name."""
    async with _client(service, None, base=base) as client:
        assert (await client.get("/status")).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "shop.example"])
def test_off_loopback_it_does_not_start_without_a_token(host: str) -> None:
    """Design: off loopback the admin listener refuses to start without a token."""
    with pytest.raises(SetupError, match="token") as refusal:
        demand_token(host, AdminAccess())
    assert refusal.value.setting == "server.admin.token"
    demand_token(host, AdminAccess.by("t0ken-of-the-admin"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_on_loopback_it_starts_without_a_token(host: str) -> None:
    """The way a laptop runs it."""
    demand_token(host, AdminAccess())


async def test_peek_shows_events_with_their_data_as_it_was(
    service: Service, client: httpx.AsyncClient
) -> None:
    """1.10 must not become 1.1 on the way to a person either."""
    await service.log.create_topic("events", 1)
    service.log.submit("events", [EVENT])
    answer = await client.get("/v1/topics/log/events/records")
    assert '"data":{"price": 1.10}' in answer.text
    (message,) = answer.json()["messages"]
    assert message["position"] == "0"
    assert (message["key"], message["key_base64"]) == (None, "a/8=")


async def test_peek_shows_what_is_no_event_with_the_reason(
    service: Service, client: httpx.AsyncClient
) -> None:
    """A foreign record is the very thing one looks for with peek."""
    await service.log.create_topic("events", 1)
    service.log.submit("events", [FOREIGN])
    (message,) = (await client.get("/v1/topics/log/events/records")).json()["messages"]
    assert message["fault"]
    assert message["headers"] == [["x", None]]
    assert message["body_base64"] == "bm8gZXZlbnQ="


@pytest.mark.parametrize("name", ["json", "protobuf", "avro"])
async def test_peek_shows_an_event_of_any_format_as_json(
    service: Service, client: httpx.AsyncClient, name: FormatName
) -> None:
    """Whoever looks need not read Protobuf; mode and content type say what lies there."""
    await service.log.create_topic("events", 1)
    writing = EncodeOptions(mode="structured", format=name)
    record = kafka.encode(kafka.decode(EVENT), writing, None)
    service.log.submit("events", [Record(None, (*record.headers, ("x", b"y")), record.body)])
    (message,) = (await client.get("/v1/topics/log/events/records")).json()["messages"]
    assert message["event"]["id"] == kafka.decode(EVENT).event.id
    assert message["mode"] == "structured"
    assert message["content_type"].startswith(f"application/cloudevents+{name}")
    assert message["foreign"] == [["x", "y"]]


async def test_peek_shows_a_document_that_is_not_read_as_what_it_is(
    service: Service, client: httpx.AsyncClient
) -> None:
    """4.7: its content type, what mirrored headers told, and its bytes; it is no fault."""
    await service.log.create_topic("events", 1)
    headers = (("ce_type", b"t"), ("content-type", b"application/cloudevents+new; v=1"))
    service.log.submit("events", [Record(None, headers, b"no event")])
    (message,) = (await client.get("/v1/topics/log/events/records")).json()["messages"]
    assert (message["content_type"], message["attributes"], message["body_base64"]) == (
        "application/cloudevents+new; v=1", {"type": "t"}, "bm8gZXZlbnQ=",
    )  # fmt: skip
    assert "fault" not in message
    assert "event" not in message


async def test_peek_is_bounded(service: Service, client: httpx.AsyncClient) -> None:
    """A topic of a million messages must not become one answer."""
    await service.log.create_topic("events", 2)
    service.log.submit("events", [EVENT] * 5 + [FOREIGN] * 5)
    found = (await client.get("/v1/topics/log/events/records", params={"limit": 7})).json()
    assert len(found["messages"]) == 7


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/topics/nope/events/records", "unknown-broker"),
        ("/v1/topics/log/nope/records", "unknown-topic"),
        ("/v1/topics/log/nope/tail", "unknown-topic"),
        ("/v1/topics/log/nope", "unknown-topic"),
        ("/nothing", "not-found"),
    ],
)
async def test_what_is_not_there_is_a_404_problem(
    client: httpx.AsyncClient, path: str, code: str
) -> None:
    """Problems are RFC 9457 on this listener as well."""
    answer = await client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:skybridge:problem:{code}"


async def test_another_method_is_a_problem_that_names_those_allowed(
    client: httpx.AsyncClient,
) -> None:
    """RFC 9110 15.5.6, in the same shape as every other refusal."""
    answer = await client.post("/status")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:skybridge:problem:method-not-allowed"


async def test_a_wrong_parameter_is_a_problem_too(client: httpx.AsyncClient) -> None:
    """One form of error for every client."""
    answer = await client.get("/v1/dead-letters", params={"limit": "many"})
    assert answer.status_code == 422
    assert "query.limit" in answer.json()["detail"]


async def test_tail_to_the_end_gives_what_is_there(
    service: Service, client: httpx.AsyncClient
) -> None:
    """skybridge tail --no-follow is this request."""
    await service.log.create_topic("events", 3)
    service.log.submit("events", [EVENT, FOREIGN, EVENT])
    answer = await client.get(
        "/v1/topics/log/events/tail", params={"from": "earliest", "follow": "false"}
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.count("\ndata: ") == 3
    assert answer.text.count("id: ") == 4  # and where it begins


async def test_tail_ends_when_the_service_leaves(service: Service) -> None:
    """An open stream must not hold up the drain (rule 11)."""
    await service.log.create_topic("events", 1)
    stopped = asyncio.Event()
    async with _client(service, None, stopped) as client:
        request = asyncio.create_task(client.get("/v1/topics/log/events/tail"))
        asyncio.get_running_loop().call_soon(stopped.set)
        async with asyncio.timeout(60):
            assert (await request).status_code == 200


async def test_topics_lists_partitions_with_their_ends(
    service: Service, client: httpx.AsyncClient
) -> None:
    """The Metadata and Offset answers of the protocol guide."""
    await service.log.create_topic("events", 1)
    service.log.submit("events", [EVENT])
    (topic,) = (await client.get("/v1/topics")).json()
    assert topic["partitions"][0]["latest"] == "1"
    assert (await client.get("/v1/topics/log/events")).json() == topic


class Away(FakeLog):
    """Refuses connections."""

    async def metadata(self, *_: object) -> LogMetadata:
        raise BrokerUnavailable(f"{self.name}: connection refused")

    async def health(self) -> LogHealth:
        return LogHealth(healthy=False, cause="connection refused")


async def test_topics_leaves_out_a_broker_that_is_away(
    service: Service, client: httpx.AsyncClient
) -> None:
    """One cluster that is down must not hide the others."""
    service.logs |= {"main": Away("main")}
    service.kinds |= {"main": "kafka"}
    await service.log.create_topic("events", 1)
    answer = await client.get("/v1/topics")
    assert (answer.status_code, [each["broker"] for each in answer.json()]) == (200, ["log"])


async def test_topics_of_brokers_that_are_all_away_are_not_none(
    service: Service, client: httpx.AsyncClient
) -> None:
    """An empty list would say that there is no topic."""
    service.logs["log"] = Away("log")
    answer = await client.get("/v1/topics")
    assert (answer.status_code, answer.json()["detail"]) == (503, "log: connection refused")


async def test_a_subscription_says_whether_its_broker_answers(
    service: Service, client: httpx.AsyncClient
) -> None:
    """While it does not, nobody knows the lag, and the state is still the one before."""
    for log, health in (
        (service.log, {"healthy": True, "cause": ""}),
        (Away("log"), {"healthy": False, "cause": "connection refused"}),
    ):
        service.logs["log"] = log
        (subscription,) = (await client.get("/status")).json()["subscriptions"]
        assert subscription["broker_health"] == health


async def test_a_lag_without_the_events_of_the_pull_queue_is_unknown(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lag of 0 would else mean that all events are finished, when the store has not counted them (issue 46)."""
    status = SubscriptionStatus(id="a", sink="pull", state="running", group="g", queue_bound=5)
    service.lags = [GroupLag(group="g", topic="t", partition=0, committed="1", lag=0)]
    monkeypatch.setattr(service, "statuses", AsyncMock(return_value=[status]))
    lags = []
    for count_all in (AsyncMock(return_value={}), AsyncMock(side_effect=StoreUnavailable("slow"))):
        monkeypatch.setattr(service.store.pulled, "count_all", count_all)
        (subscription,) = (await client.get("/status")).json()["subscriptions"]
        lags.append(subscription["lag"])
    assert lags == [0, None]


async def test_counts_of_a_store_that_does_not_answer_are_null(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count of 0 would say that nothing is parked, given up or in the queue."""
    status = SubscriptionStatus(
        id="a", sink="pull", broker="log", state="running", group="g", queue_bound=5
    )
    monkeypatch.setattr(service, "statuses", AsyncMock(return_value=[status]))
    (known,) = (await client.get("/status")).json()["subscriptions"]
    assert known["parked"]["rows"] == known["queue"]["waiting"] == len(known["dead_letters"]) == 0
    _make_counts_fail(service, monkeypatch)
    (unknown,) = (await client.get("/status")).json()["subscriptions"]
    assert unknown["parked"] is unknown["dead_letters"] is None
    assert unknown["queue"] == {"waiting": None, "most": 5, "oldest_seconds": None}
    assert unknown["attention"] == []


async def test_unknown_counts_have_no_sample(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.store.letters.rows.append(_letter(EVENT))
    assert "\nskybridge_dead_letters_stored{" in (await client.get("/metrics")).text
    _make_counts_fail(service, monkeypatch)
    lines = (await client.get("/metrics")).text.splitlines()
    names = ("skybridge_dead_letters_stored", "skybridge_parked_")
    assert [each for each in lines if each.startswith(names) and "_total" not in each] == []


def _make_counts_fail(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the store count nothing, as it does when it is too slow."""
    for table, verb in (("letters", "count"), ("parked", "count"), ("pulled", "count_all")):
        failing = AsyncMock(side_effect=StoreUnavailable("slow"))
        monkeypatch.setattr(getattr(service.store, table), verb, failing)


async def test_dead_letters_are_not_those_of_a_deleted_subscription_if_subscriptions_are_unknown(
    service: Service, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their cure would be to discard them."""
    service.store.letters.rows.append(replace(_letter(EVENT), subscription="of-the-api"))
    (found,) = _of_dead_letters(await client.get("/status"))
    assert found["detail"].startswith("dead letters of a deleted subscription")
    monkeypatch.setattr(service, "entries", AsyncMock(side_effect=StoreUnavailable("slow")))
    assert _of_dead_letters(await client.get("/status")) == []


def _of_dead_letters(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the verdicts on dead letters."""
    return [each for each in answer.json()["attention"] if each["verdict"] == "dead-letters"]


async def test_dead_letters_show_cause_and_message(
    service: Service, client: httpx.AsyncClient
) -> None:
    """What will not be delivered, and everything needed to see why."""
    service.store.letters.rows.append(_letter(EVENT))
    page = await client.get("/v1/dead-letters", params={"subscription": "billing"})
    (letter,) = page.json()["dead_letters"]
    assert (letter["cause"], letter["status"]) == ("status-415", 415)
    assert letter["message"]["event"]["id"] == "7"
    page = await client.get("/v1/dead-letters", params={"subscription": "other"})
    assert page.json()["dead_letters"] == []


async def test_metrics_carry_counters_and_gauges(
    service: Service, client: httpx.AsyncClient
) -> None:
    """Prometheus text, every known counter there from the start."""
    service.counters.add("events_published", "all", "log", by=3)
    text = (await client.get("/metrics")).text
    assert 'skybridge_events_published_total{broker="log",route="all"} 3.0' in text
    assert "# TYPE skybridge_deliveries_total counter" in text
    assert 'skybridge_ready{role="gateway"} 1.0' in text
    assert 'skybridge_subscription_ready{subscription="billing"} 1.0' in text
    assert 'skybridge_subscription_disabled{subscription="billing"} 0.0' in text
    assert 'skybridge_subscription_held{subscription="billing"} 3.0' in text
    assert 'skybridge_subscription_paused_seconds{subscription="billing"} 12.5' in text
    assert 'skybridge_subscription_oldest_seconds{subscription="billing"} 3600.25' in text
    assert 'skybridge_disk_free_bytes{path="/data"} 1.0' in text
    assert 'skybridge_disk_size_bytes{path="/data"} 4.0' in text
    assert (
        "skybridge_certificate_expiry_timestamp_seconds"
        '{certificate="server.events.tls.cert"} 1.5e+09' in text
    )


async def test_metrics_stay_bounded_whatever_labels_come(
    service: Service, client: httpx.AsyncClient
) -> None:
    """Rule 8: label cardinality is a bound."""
    for number in range(LABEL_BOUND + 50):
        service.counters.add("events_refused", f"code-{number}")
    text = (await client.get("/metrics")).text
    assert text.count("skybridge_events_refused_total{") == LABEL_BOUND + 1
    assert 'skybridge_events_refused_total{code="other"} 50.0' in text


async def test_docs_need_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    """/docs must work on a machine without the internet."""
    page = (await client.get("/docs")).text
    assert "/events/{route}" in page
    for elsewhere in ("http://", "https://", "//cdn", "<script"):
        assert elsewhere not in page.replace("http://{host}:{port}", "")


async def test_docs_have_each_problem_at_its_code(client: httpx.AsyncClient) -> None:
    """The code of a problem's type leads to its cause and its cure."""
    page = (await client.get("/docs")).text
    answer = (await client.get("/nowhere")).json()
    code = answer["type"].rpartition(":")[2]
    assert f"<details id={code}><summary><code>{answer['type']}</code>" in page
    assert [each for each in PROBLEMS if f"<details id={each}>" not in page] == []


def _letter(record: Record) -> DeadLetter:
    from app.model.message import Message, Partition

    return DeadLetter(
        subscription="billing",
        broker="log",
        message=Message(record, Partition("events", 0), "0", 0, 1, 1),
        cause="status-415",
        detail="unsupported",
        attempts=1,
        status=415,
        at_ms=1,
    )
