"""An event's journey: the same decisions as on the hot path, each with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.bindings.record import ContentMode, Decoded
from app.errors import Fault, SenderError
from app.event.value import CloudEvent
from app.filters.dialects import compile_filters
from app.model.route import Route
from app.model.subscription import Subscription
from app.routing.hops import FOLLOWED, HOPS, JourneyHop
from app.routing.journey import EventExplainer, Journey
from app.routing.plan import Resources, Router

ORDERS = {
    "name": "orders",
    "filters": [{"prefix": {"type": "com.example.order."}}],
    "to": {"broker": "log", "topic": "orders"},
    "key": {"mapper": "partitionkey"},
}
EVERYTHING = {"name": "everything", "to": {"broker": "log", "topic": "events"}}


def a_subscription(name: str, topic: str = "orders", **settings: Any) -> Subscription:
    return Subscription.model_validate(
        {
            "id": name,
            "source": {"broker": "log", "topics": [topic]},
            "sink": f"https://{name}.example/hook",
            **settings,
        }
    )


def a_guide(*subscriptions: Subscription, routes: Any = (ORDERS, EVERYTHING)) -> EventExplainer:
    kinds = {"log": "embedded"}
    return EventExplainer(
        [Route.model_validate(route) for route in routes], subscriptions, kinds=kinds
    )


def an_event(type_: str = "com.example.order.created", **attributes: str) -> Decoded:
    named = {"specversion": "1.0", "id": "1", "source": "/s", "type": type_, **attributes}
    return Decoded(CloudEvent(named), ContentMode.BINARY)


def chosen(journey: Journey) -> list[str]:
    return [route.name for route in journey.routes if route.chosen]


def test_the_first_route_that_matches_is_taken_and_those_behind_it_are_not_asked() -> None:
    journey = a_guide().explain(an_event(), None)
    assert [(each.name, each.chosen, each.asked) for each in journey.routes] == [
        ("orders", True, True),
        ("everything", False, False),
    ]
    assert journey.routes[0].filters[0].decided_by == "prefix type 'com.example.order.'"


def test_a_route_that_is_passed_over_says_which_part_of_which_filter_decided() -> None:
    journey = a_guide().explain(an_event("other"), None)
    passed_over, taken = journey.routes
    assert not passed_over.filters[0].passes
    assert passed_over.filters[0].because == "type is 'other'"
    assert taken.chosen


def test_what_another_client_writes_is_explained_without_a_route() -> None:
    """A setup whose topics are fed from outside has no route to begin with."""
    kinds = {"log": "kafka"}
    wanted = {"id": "b", "source": {"broker": "log", "topics": ["orders"]}, "sink": "https://b/"}
    guide = EventExplainer((), [Subscription.model_validate(wanted)], kinds=kinds)
    journey = guide.explain(an_event(), b"k", as_from="log/orders")
    (hop,) = journey.hops
    assert (journey.refused, hop.by, hop.key) == (None, "another client", b"k")
    assert [(each.id, each.wants) for each in hop.subscriptions] == [("b", True)]
    for nowhere in ("lgo/orders", "log", "log/"):
        refused = guide.explain(an_event(), None, as_from=nowhere).refused
        assert isinstance(refused, SenderError)
        assert refused.status == 404


def test_a_route_named_by_the_request_is_taken_without_asking_its_filters() -> None:
    journey = a_guide().explain(an_event("other"), None, "orders")
    assert chosen(journey) == ["orders"]
    assert not any(route.asked for route in journey.routes)


@pytest.mark.parametrize(
    ("routes", "named", "status"), [((ORDERS,), None, 422), ((ORDERS,), "nowhere", 404)]
)
def test_an_event_that_no_route_takes_is_refused_as_the_sender_would_be(
    routes: Any, named: str | None, status: int
) -> None:
    journey = a_guide(routes=routes).explain(an_event("other"), None, named)
    assert journey.refused is not None
    assert journey.refused.status == status
    assert journey.hops == ()


def test_a_missing_key_that_the_route_wants_is_refused_and_the_reason_stays() -> None:
    route = {**ORDERS, "key": {"mapper": "partitionkey", "missing": "reject"}}
    journey = a_guide(routes=(route,)).explain(an_event(), None)
    assert journey.refused is not None
    assert journey.refused.status == 400
    assert journey.key is not None
    assert journey.key.why == "the event has no attribute partitionkey, or an empty one"


def test_the_key_of_the_record_is_that_of_the_explanation() -> None:
    journey = a_guide().explain(an_event(partitionkey="o7"), b"not asked for")
    (hop,) = journey.hops
    assert hop.key == b"o7"
    assert hop.record is not None
    assert hop.record.key == b"o7"
    assert ("ce_id", b"1") in hop.record.headers


def test_each_subscription_of_the_topic_says_whether_it_wants_the_event_and_why() -> None:
    guide = a_guide(
        a_subscription("billing", filters=[{"exact": {"type": "com.example.order.created"}}]),
        a_subscription("audit", filters=[{"sql": "EXISTS vip AND subject = 's'"}]),
        a_subscription("elsewhere", "events"),
    )
    (hop,) = guide.explain(an_event(subject="s", partitionkey="o7"), None).hops
    billing, audit = hop.subscriptions
    assert (billing.id, billing.wants, billing.lane) == ("billing", True, "key 'o7'")
    assert (audit.id, audit.wants) == ("audit", False)
    assert audit.filters[0].decided_by == "EXISTS vip"


@pytest.mark.parametrize(
    ("settings", "lane"),
    [
        ({}, "none: the record has no key"),
        ({"ordering": "none"}, "none: ordering is none"),
        ({"order_by": "subject"}, "subject 's'"),
        ({"order_by": "tenant"}, "none: the event has no tenant"),
        ({"order_by": {"pointer": "/customer/id"}}, "'c7' at '/customer/id' in data"),
        (
            {"order_by": {"pointer": "/customer"}},
            "none: data has no text, number or boolean at '/customer'",
        ),
    ],
)
def test_the_lane_is_told_in_words(settings: dict[str, Any], lane: str) -> None:
    """Rule 3 of delivery."""
    guide = a_guide(a_subscription("billing", **settings))
    event = an_event(subject="s", datacontenttype="application/json")
    decoded = replace(event, event=replace(event.event, data=b'{"customer": {"id": "c7"}}'))
    (hop,) = guide.explain(decoded, None).hops
    assert hop.subscriptions[0].lane == lane


def test_topics_that_nothing_here_writes_to_are_explained_as_fed_from_outside() -> None:
    """Another system feeds them: a subscription there is not forgotten."""
    guide = a_guide(
        a_subscription("inside"),
        a_subscription("mirror", "foreign", sink={"broker": "log", "topic": "copies"}),
        a_subscription("picky", "foreign", filters=[{"exact": {"type": "other"}}]),
        a_subscription("behind", "copies"),
        a_subscription("letters", "given.up"),
        a_subscription("parent", dead_letter={"broker": "log", "topic": "given.up"}),
    )
    journey = guide.explain(an_event(), None)
    assert [(each.broker, each.topic) for each in journey.outside] == [("log", "foreign")]
    mirror, picky = journey.outside[0].subscriptions
    assert (mirror.wants, picky.wants) == (True, False)
    assert mirror.onward is not None
    assert mirror.onward.topic == "copies"


def test_an_event_that_no_route_takes_may_still_come_from_outside() -> None:
    guide = a_guide(a_subscription("reader", "foreign"), routes=[ORDERS])
    journey = guide.explain(an_event("unknown"), None)
    assert journey.refused is not None
    assert [each.topic for each in journey.outside] == ["foreign"]


@pytest.mark.parametrize("topic", ["foreign", "t.{subject}"])
def test_a_target_with_a_template_may_mean_any_topic(topic: str) -> None:
    """Then nobody can say that a topic is fed from outside alone."""
    route = {"name": "any", "to": {"broker": "log", "topic": topic}}
    guide = a_guide(a_subscription("reader", "foreign"), routes=[route])
    assert guide.explain(an_event(subject="s"), None).outside == ()
    assert guide.explain(an_event(), None, as_from="log/foreign").outside == ()


def test_a_mirror_is_followed_to_the_place_it_writes_and_to_who_reads_there() -> None:
    """K11: with the key that the record has."""
    guide = a_guide(
        a_subscription("mirror", sink={"broker": "log", "topic": "copy.{subject}"}),
        a_subscription("reader", "copy.s"),
    )
    (hop,) = guide.explain(an_event(subject="s", partitionkey="o7"), None).hops
    onward = hop.subscriptions[0].onward
    assert onward is not None
    assert (onward.topic, onward.by, onward.key) == ("copy.s", "mirror mirror", b"o7")
    assert [each.id for each in onward.subscriptions] == ["reader"]


def test_a_mirror_that_cannot_write_the_event_says_so_and_the_rest_is_explained() -> None:
    guide = a_guide(
        a_subscription("mirror", sink={"broker": "log", "topic": "copy.{subject}"}),
        a_subscription("billing"),
    )
    (hop,) = guide.explain(an_event(), None).hops
    mirror, billing = hop.subscriptions
    assert "subject" in mirror.fault
    assert mirror.onward is None
    assert billing.wants


def test_a_circle_of_mirrors_ends() -> None:
    guide = a_guide(
        a_subscription("there", "events", sink={"broker": "log", "topic": "orders"}),
        a_subscription("back", "orders", sink={"broker": "log", "topic": "events"}),
        routes=(EVERYTHING,),
    )
    (hop,) = guide.explain(an_event(), None).hops
    depth, seen = 0, []
    while hop.subscriptions and hop.subscriptions[0].onward is not None:
        seen.append(hop.subscriptions[0].id)
        hop, depth = hop.subscriptions[0].onward, depth + 1
    assert seen == ["there", "back"]
    assert depth < HOPS


def test_where_an_exchange_leads_is_said_to_be_untold() -> None:
    route = {"name": "r", "to": {"broker": "rabbit", "exchange": "x", "routing_key": "{type}"}}
    reader = a_subscription("reader", source={"broker": "rabbit", "topics": ["queue:q"]})
    guide = EventExplainer([Route.model_validate(route)], [reader], kinds={"rabbit": "rabbitmq"})
    (hop,) = guide.explain(an_event("t"), None).hops
    assert (hop.topic, hop.subscriptions, hop.untold) == ("exchange:x:t", (), ("reader",))


names = st.sampled_from(["com.example.order.created", "com.example.order.", "other", "x"])


@given(type_=names, key=st.none() | st.binary(max_size=4), wants=names, named=st.booleans())
def test_it_never_says_other_than_the_hot_path_does(
    type_: str, key: bytes | None, wants: str, named: bool
) -> None:
    """The reasons may not drift from what they are the reasons of."""
    routes = [Route.model_validate(ORDERS), Route.model_validate({**EVERYTHING, "filters": [
        {"exact": {"type": wants}}]})]  # fmt: skip
    reader = a_subscription("reader", filters=[{"suffix": {"type": wants}}])
    event, route = an_event(type_), "orders" if named else None
    journey = EventExplainer(routes, [reader]).explain(event, key, route)
    if journey.refused is not None:
        with pytest.raises(SenderError, match=str(journey.refused)):
            Router(routes).plan(event, key, route)
        return
    publications = Router(routes).plan(event, key, route)
    assert [(hop.topic, hop.record) for hop in journey.hops] == [
        (each.topic, each.record) for each in publications
    ]
    verdicts = [each.wants for hop in journey.hops for each in hop.subscriptions]
    expected = compile_filters(reader.filters)(event.event)
    assert verdicts == [expected for hop in journey.hops if hop.topic == "orders"]


def test_data_that_does_not_match_its_schema_is_told_and_goes_where_it_would() -> None:
    """The same check as on the way in; ``reject`` shows the problem, another route shows its topic."""

    def check(_: CloudEvent) -> list[Fault]:
        return [Fault("invalid-data", "1 is not a string.", "/data/id")]

    for on_invalid, taker, topic in (
        ("reject", "orders", None),
        ("count", "orders", "orders"),
        ({"route": "everything"}, "everything", "events"),
    ):
        schema = {"schema": {"file": "order.json", "on_invalid": on_invalid}}
        routes = [Route.model_validate(each) for each in ({**ORDERS, **schema}, EVERYTHING)]
        guide = EventExplainer(routes, (), Resources(checks={"orders": check}))
        journey = guide.explain(an_event(), None)
        assert chosen(journey) == [taker]
        assert [fault.at for fault in journey.routes[0].invalid] == ["/data/id"]
        assert [hop.topic for hop in journey.hops] == ([topic] if topic else [])
        assert (journey.refused is None) == (topic is not None)


def test_mirrors_in_layers_are_followed_within_bounds() -> None:
    """There are millions of ways of eight mirrors through them: whoever may ask what an event would meet could
    stop the service (rule 8)."""
    layers = [
        Subscription.model_validate(
            {
                "id": f"m{n}",
                "source": {"broker": "log", "topics": ["orders", *(f"t{m}" for m in range(n))]},
                "sink": {"broker": "log", "topic": f"t{n}"},
            }
        )
        for n in range(40)
    ]

    def followed(hop: JourneyHop) -> int:
        return sum(1 + followed(each.onward) for each in hop.subscriptions if each.onward)

    (hop,) = a_guide(*layers).explain(an_event(), None).hops
    assert followed(hop) == FOLLOWED


def test_the_lane_of_one_producer_is_told_as_such() -> None:
    """Another producer's event of that key waits for nothing here."""
    guide = a_guide(
        a_subscription("keyed", ordering="per_producer_key"),
        a_subscription("valued", ordering="per_producer_key", order_by="source"),
        a_subscription("shared"),
    )
    journey = guide.explain(an_event(partitionkey="k"), None)
    lanes = {each.id: each.lane for hop in journey.hops for each in hop.subscriptions}
    assert lanes == {
        "keyed": "key 'k', of one producer",
        "valued": "source '/s', of one producer",
        "shared": "key 'k'",
    }
    keyless = guide.explain(an_event(), None)
    assert keyless.hops[0].subscriptions[0].lane == "none: the record has no key"
