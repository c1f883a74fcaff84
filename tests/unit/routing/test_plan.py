"""Routes in order, each event to its places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bindings import kafka
from app.bindings.record import ContentMode, Decoded
from app.bindings.run import EventColumns
from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.errors import SenderError, SetupError
from app.event.value import CloudEvent
from app.filters.cesql.expression import Failed
from app.formats.json import read_event
from app.formats.json_columns import read_columns
from app.model.log_name import LogName
from app.model.route import Route
from app.routing import plan as plan_module
from app.routing.plan import BadTopic, MissingKey, NoRoute, Router, UnknownRoute
from app.routing.publications import PulsarProfile

MakeDecoded = Callable[..., Decoded]


def route(name: str, /, **settings: Any) -> Route:
    return Route.model_validate({"name": name, "to": {"broker": "log", "topic": name}} | settings)


ORDERS = route("orders", filters=[{"prefix": {"type": "order."}}])
CREATED = route("created", filters=[{"suffix": {"type": ".created"}}])
REST = route("rest")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("order.created", "orders"), ("user.created", "created"), ("user.gone", "rest")],
)
def test_the_first_match_wins(decoded: MakeDecoded, kind: str, expected: str) -> None:
    """Order in the file is the meaning of the file: an event takes one route, never two."""
    published = Router([ORDERS, CREATED, REST]).plan(decoded(type=kind), None)
    assert [each.route for each in published] == [expected]
    assert [each.topic for each in published] == [expected]


def test_an_expression_of_a_route_that_fails_is_told(decoded: MakeDecoded) -> None:
    """Issue 16: by the name of its route; the event goes on to the next one."""
    told: list[tuple[str, str]] = []

    def failed(name: str) -> Failed:
        return lambda _event, expression, failure: told.append((name, failure.kind))

    routes = [route("large", filters=[{"sql": "total > 100"}]), REST]
    (published,) = Router(routes, failed=failed).plan(decoded(type="order"), None)
    assert published.route == "rest"
    assert told == [("large", "missingAttribute")]


def test_an_event_that_no_route_wants_is_refused(decoded: MakeDecoded) -> None:
    """422, so that a sender learns of it: dropping it would be losing it."""
    with pytest.raises(NoRoute) as refused:
        Router([ORDERS]).plan(decoded(type="x" * 5000), None)
    assert (refused.value.status, refused.value.code) == (422, "no-route")
    assert len(str(refused.value)) < 400


def test_a_named_route_is_not_asked_for_its_filters(decoded: MakeDecoded) -> None:
    """/events/{route}: who names a route has decided."""
    published = Router([ORDERS, REST]).plan(decoded(type="user.gone"), None, "orders")
    assert [each.route for each in published] == ["orders"]


def test_an_unknown_route_is_refused(decoded: MakeDecoded) -> None:
    """404, also where a route would match."""
    with pytest.raises(UnknownRoute) as refused:
        Router([REST]).plan(decoded(), None, "n" * 5000)
    assert (refused.value.status, refused.value.code) == (404, "unknown-route")
    assert len(str(refused.value)) < 400


def test_each_target_gets_one_publication_of_one_record(decoded: MakeDecoded) -> None:
    """202 answers for all of them; the key is made once, so that they agree."""
    both = route(
        "both", to=[{"broker": "log", "topic": "all"}, {"broker": "main", "topic": "by.{type}"}]
    )
    first, second = Router([both]).plan(decoded(), b"k")
    assert (first.broker, first.topic) == ("log", "all")
    assert (second.broker, second.topic) == ("main", "by.t.created")
    assert first.record is second.record
    assert first.record.key == b"k"


BROKERS = {"log": "embedded", "main": "kafka", "rabbit": "rabbitmq", "pulsar": "pulsar"}
EVERYWHERE = route("all", to=[{"broker": broker, "topic": "t"} for broker in BROKERS])


def test_the_kind_of_the_broker_decides_the_binding(decoded: MakeDecoded) -> None:
    """Each target gets what its readers expect; kinds that share a binding share the record, and one
    key is made for all."""
    event = decoded(subject="s")
    published = Router([EVERYWHERE], kinds=BROKERS).plan(event, b"k")
    records = {each.broker: each.record for each in published}
    assert [each.broker for each in published] == list(BROKERS)
    assert records["log"] is records["main"]
    for broker, record in records.items():
        assert record == BINDINGS[BROKERS[broker]].encode(event, EncodeOptions(), b"k")
        assert BINDINGS[BROKERS[broker]].decode(record).event.id == event.event.id
    names = {broker: {name for name, _ in records[broker].headers} for broker in records}
    assert [("ce_id" in names["main"]), ("ce-id" in names["rabbit"]), ("CE-Id" in names["pulsar"])] == [
        True, True, True,
    ]  # fmt: skip


def test_a_route_writes_in_its_format(decoded: MakeDecoded) -> None:
    """Route.format: documents in one format, whatever came."""
    chosen = route("r", content_mode="structured", format="protobuf")
    (published,) = Router([chosen]).plan(decoded(), None)
    assert dict(published.record.headers)["content-type"] == b"application/cloudevents+protobuf"
    assert kafka.decode(published.record).event.id == decoded().event.id


def opaque(**attributes: str) -> Decoded:
    event, mode = CloudEvent(attributes), ContentMode.STRUCTURED
    return Decoded(event, mode, b"\x00", "application/cloudevents+new", opaque=True)


def test_an_opaque_document_takes_the_routes_that_ask_nothing_of_it() -> None:
    """4.7: filters see the attributes of mirrored headers only."""
    router = Router([ORDERS, REST])
    assert [each.route for each in router.plan(opaque(), None)] == ["rest"]
    assert [each.route for each in router.plan(opaque(type="order.new"), None)] == ["orders"]
    with pytest.raises(NoRoute) as refused:
        Router([ORDERS]).plan(opaque(), None)
    assert "format" in refused.value.faults[0].detail


@pytest.mark.parametrize("mode", ["binary", "as_received", "structured"])
def test_an_opaque_document_is_published_byte_for_byte(mode: str) -> None:
    """H6, K5: whatever the mode, where no format is fixed."""
    (published,) = Router([route("r", content_mode=mode)]).plan(opaque(), b"k")
    record = published.record
    assert (record.key, record.body) == (b"k", b"\x00")
    assert dict(record.headers)["content-type"] == b"application/cloudevents+new"
    assert kafka.decode(record).opaque


def test_an_opaque_document_cannot_be_written_in_a_format() -> None:
    """4.7: 415, and nothing is published."""
    chosen = route("r", content_mode="structured", format="json")
    with pytest.raises(SenderError) as refused:
        Router([chosen]).plan(opaque(), None)
    assert refused.value.status == 415


KEYS: list[dict[str, Any]] = [
    {"mapper": "partitionkey"}, {"mapper": "attribute", "attribute": "id"},
    {"mapper": "template", "template": "{id}"}, {"mapper": "pointer", "pointer": "/a"},
    {"mapper": "hash", "attributes": ["id"]}, {"mapper": "none"},
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key["mapper"])
def test_an_opaque_document_yields_no_key_of_its_own(key: dict[str, Any]) -> None:
    """It is never looked into; a route that demands a key refuses it, the others go without one."""
    (published,) = Router([route("r", key=key)]).plan(opaque(), b"k")
    assert published.record.key is None
    if key["mapper"] != "none":
        with pytest.raises(MissingKey):
            Router([route("r", key=key | {"missing": "reject"})]).plan(opaque(), None)


@pytest.mark.parametrize("mode", ["binary", "structured", "as_received"])
@pytest.mark.parametrize("empty_body", ["null", "empty", None])
def test_a_route_has_its_content_mode(
    event: Callable[..., CloudEvent], mode: Any, empty_body: Any
) -> None:
    """The record is the Kafka binding's, with the route's settings."""
    sent = Decoded(event(None), ContentMode.BINARY)
    chosen = route("r", content_mode=mode, empty_body=empty_body)
    (published,) = Router([chosen]).plan(sent, b"k")
    assert published.record == kafka.encode(
        sent, EncodeOptions(mode=mode, empty_body=empty_body), b"k"
    )


def test_a_route_without_its_key_is_the_senders_fault(decoded: MakeDecoded) -> None:
    """400 before anything is published."""
    strict = route("r", key={"mapper": "partitionkey", "missing": "reject"})
    with pytest.raises(MissingKey):
        Router([strict]).plan(decoded(), b"k")
    assert Router([strict]).plan(decoded(partitionkey="p"), None)[0].record.key == b"p"


def test_a_bad_topic_publishes_nothing(decoded: MakeDecoded) -> None:
    """A plan is whole or not at all: no target is served before the last one is decided."""
    both = route(
        "both", to=[{"broker": "log", "topic": "all"}, {"broker": "log", "topic": "{source}"}]
    )
    with pytest.raises(BadTopic):
        Router([both]).plan(decoded(), None)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"to": {"broker": "b", "topic": "{Type}"}}, "routes[1].to[0].topic"),
        ({"to": {"broker": "b", "topic": "a b"}}, "routes[1].to[0].topic"),
        (
            {"to": [{"broker": "b", "topic": "a"}, {"broker": "b", "topic": "{"}]},
            "routes[1].to[1].topic",
        ),
        ({"key": {"mapper": "template", "template": "{"}}, "routes[1].key.template"),
    ],
)
def test_what_cannot_be_compiled_names_its_setting(settings: dict[str, Any], setting: str) -> None:
    """A service that starts must be able to route."""
    with pytest.raises(SetupError) as refused:
        Router([REST, route("bad", **settings)])
    assert refused.value.setting == setting


KINDS = st.sampled_from(["a", "b", "ab", "ba", "c"])
FILTERS = st.lists(
    st.tuples(st.sampled_from(["exact", "prefix", "suffix"]), KINDS).map(
        lambda pair: {pair[0]: {"type": pair[1]}}
    ),
    max_size=2,
)


@given(st.lists(FILTERS, max_size=4), KINDS)
def test_routing_is_total(filters: list[list[dict[str, Any]]], kind: str) -> None:
    """Every event has exactly one route or is refused with 422; with a catch-all never the latter."""
    routes = [route(f"r{n}", filters=each) for n, each in enumerate(filters)]
    sent = Decoded(
        CloudEvent({"specversion": "1.0", "id": "1", "source": "/", "type": kind}),
        ContentMode.BINARY,
    )
    try:
        published = Router(routes).plan(sent, None)
    except NoRoute:
        assert all(each.filters for each in routes)
    else:
        assert len(published) == 1


OLD = b'{"specversion":"0.2","id":"1","source":"/s","type":"order.old","contenttype":"text/plain","data":"x"}'


def structured(document: bytes) -> Decoded:
    return Decoded(
        read_event(document), ContentMode.STRUCTURED, document, "application/cloudevents+json"
    )


def test_an_event_goes_on_in_the_version_it_came_in() -> None:
    """Versions are the sender's affair, until a route says otherwise; the document is untouched."""
    for mode, body in (("structured", OLD), ("as_received", OLD), ("binary", b"x")):
        (published,) = Router([route("all", content_mode=mode)]).plan(structured(OLD), None)

        assert published.record.body == body
        assert kafka.decode(published.record).event.version == "0.2"


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3", "1.0"])
@pytest.mark.parametrize("mode", ["binary", "structured", "as_received"])
def test_a_route_writes_every_event_in_its_version(mode: str, version: str) -> None:
    """specversion on a route: consumers of its topic see one version, whatever senders speak."""
    router = Router([route("all", content_mode=mode, specversion=version)])
    newest = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"x"}'
    for document in (OLD, newest):
        (published,) = router.plan(structured(document), None)
        event = kafka.decode(published.record).event

        assert event.version == version
        assert event.attributes["datacontenttype"] == "text/plain"
        assert event.data == b"x"


def test_filters_templates_and_keys_see_the_names_of_1_0() -> None:
    """A rule is written once, for senders of every version."""
    document = (
        b'{"cloudEventsVersion":"0.1","eventID":"1","source":"/s","eventType":"order.old",'
        b'"extensions":{"PartitionKey":"k1"}}'
    )
    chosen = route(
        "orders",
        filters=[{"prefix": {"type": "order."}}],
        to={"broker": "log", "topic": "of.{type}"},
        key={"mapper": "partitionkey"},
    )
    (published,) = Router([chosen]).plan(structured(document), None)

    assert (published.topic, published.record.key) == ("of.order.old", b"k1")
    assert ("CE-X-PartitionKey", b'"k1"') in published.record.headers


def test_a_relaxed_route_publishes_through_a_log_of_its_own(decoded: MakeDecoded) -> None:
    """Rule 1: nobody else's acknowledgement gets less because of it."""
    relaxed = route("metrics", durability="relaxed")
    nobody = route("noise", durability="relaxed", acks=0)
    router = Router([relaxed, nobody, ORDERS])
    names = [router.plan(decoded(), None, each)[0].log for each in ("metrics", "noise", "orders")]
    assert names == [LogName("log", 1), LogName("log", 0), LogName("log")]


def test_each_pulsar_is_written_to_in_its_own_manner(decoded: MakeDecoded) -> None:
    """Names and strings belong to the cluster: targets that write alike share the record."""
    places = [{"broker": name, "topic": "t"} for name in ("one", "two", "three")]
    router = Router(
        [route("all", to=places)],
        kinds=dict.fromkeys(("one", "two", "three"), "pulsar"),
        manners={"two": PulsarProfile(names="ce_")},
    )
    one, two, three = (each.record for each in router.plan(decoded(), None))
    assert one is three
    assert "CE-Id" in dict(one.headers)
    assert "ce_id" in dict(two.headers)


def test_an_exchange_and_a_topic_are_targets_of_one_route(decoded: MakeDecoded) -> None:
    """202 comes when both have the event."""
    both = [
        {"broker": "r", "topic": "t"},
        {"broker": "r", "exchange": "x", "routing_key": "{type}"},
    ]
    published = Router([route("all", to=both)], kinds={"r": "rabbitmq"}).plan(
        decoded(type="a.b"), None
    )
    assert [each.topic for each in published] == ["t", "exchange:x:a.b"]


def run_of(*more: str, kinds: Sequence[str] = ("order.created",) * 6) -> EventColumns:
    """Events of a batch that look alike; ``more``: members of each, as JSON has them."""
    documents = [
        f'{{"specversion":"1.0","id":"{n}","source":"/s","type":"{kind}",'
        + "".join(f"{member}," for member in more)
        + f'"partitionkey":"k{n}","data":{n}}}'
        for n, kind in enumerate(kinds)
    ]
    columns = read_columns([each.encode() for each in documents])
    assert columns is not None
    return EventColumns(
        columns, "application/cloudevents+json", (("x-request", b"1"), ("ce_id", None))
    )


BY_COLUMN: Sequence[dict[str, Any]] = [
    {},
    {"filters": [{"exact": {"type": "order.created"}}]},
    {"filters": [{"any": [{"not": {"prefix": {"subject": "x"}}}, {"suffix": {"type": "d"}}]}]},
    {"key": {"mapper": "partitionkey", "missing": "reject"}},
    {"key": {"mapper": "partitionkey", "missing": "from_request"}},
    {"key": {"mapper": "attribute", "attribute": "subject", "missing": "from_request"}},
    {"key": {"mapper": "attribute", "attribute": "id"}},
    {"key": {"mapper": "attribute", "attribute": "subject"}},
    {"key": {"mapper": "none"}},
    {"to": {"broker": "log", "topic": "of.{type}"}},
    {"empty_body": "empty"},
    {"specversion": "1.0"},
]
ONE_BY_ONE: Sequence[dict[str, Any]] = [
    {"filters": [{"sql": "id <> 'x'"}]},
    {"filters": [{"not": {"exact": {"id": "x"}}}]},
    {"filters": [{"exact": {"type": "another"}}]},
    {"key": {"mapper": "attribute", "attribute": "subject", "missing": "reject"}},
    {"key": {"mapper": "hash", "attributes": ["id"]}},
    {"to": {"broker": "log", "topic": "of.{id}"}},
    {"to": {"broker": "log", "topic": "of.{id ?? none}"}},
    {"to": [{"broker": "log", "topic": "a"}, {"broker": "log", "topic": "b"}]},
    {"to": {"broker": "rabbit", "topic": "a"}},
    {"content_mode": "structured"},
    {"specversion": "0.3"},
    {"deduplicate": {"window": "1m"}},
]


@pytest.mark.parametrize("settings", BY_COLUMN)
@pytest.mark.parametrize("more", [(), ('"datacontenttype":"text/json"',)])
@pytest.mark.parametrize("key", [None, b"k"])
def test_events_that_look_alike_are_planned_as_each_by_itself(
    settings: dict[str, Any], more: tuple[str, ...], key: bytes | None
) -> None:
    run, router = run_of(*more), Router([route("r", **settings)])
    planned = router.plan_run(run, key)
    assert planned is not None
    assert planned.publications() == [each for event in run for each in router.plan(event, key)]


@pytest.mark.parametrize("settings", ONE_BY_ONE)
def test_events_that_a_route_tells_apart_are_planned_one_by_one(settings: dict[str, Any]) -> None:
    """So that a fault of one is told by its index, and no event takes the way of another."""
    router = Router([route("r", **settings)], kinds={"rabbit": "rabbitmq"})
    assert router.plan_run(run_of(), None) is None


def test_events_whose_types_take_several_routes_are_planned_one_by_one() -> None:
    run = run_of(kinds=["order.created"] * 5 + ["user.gone"])
    assert Router([ORDERS, REST]).plan_run(run, None) is None
    assert Router([ORDERS, REST]).plan_run(run, None, "orders") is not None


def test_events_whose_data_is_an_event_are_planned_one_by_one() -> None:
    """By their content type they would be taken for that one (spec 4.7)."""
    run = run_of('"datacontenttype":"application/cloudevents+json"')
    assert Router([REST]).plan_run(run, None) is None


def test_the_plans_of_a_head_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders choose the values that decide. What has no plan is planned one by one."""
    monkeypatch.setattr(plan_module, "CHOICES", 2)
    router = Router([route("r", to={"broker": "log", "topic": "of.{type}"})])
    plan = router.plan_rows(("specversion", "id", "source", "type"), None)
    assert plan is not None
    for _ in range(2):
        for kind, planned in ((b"a", True), (b"x" * 257, False), (b"b", True), (b"c", False)):
            assert (plan((b"1.0", b"1", b"/s", kind), b"{}") is not None) is planned, kind
