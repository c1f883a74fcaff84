"""What a job of ``pipeline reroute`` cannot do is said before it starts, all of it at once (issue 8 point 6)."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import SetupError
from app.filters.model import Filter
from app.model.route import Route
from app.pipeline.predicate import reasons
from app.pipeline.reroute.plan import plan_of
from app.pipeline.settings import KafkaPlace, Reroute

MAIN = KafkaPlace("main", "127.0.0.1:9092")
OTHER = KafkaPlace("other", "127.0.0.1:9093")
SAME = KafkaPlace("alias", "127.0.0.1:9092")


def _route(**given: Any) -> Route:
    usual = {"name": "r", "to": {"broker": "main", "topic": "target"}}
    return Route.model_validate({**usual, **given})


def _job(*routes: Route, rejects: str | None = None) -> Reroute:
    places = {each.broker: each for each in (MAIN, OTHER, SAME)}
    return Reroute(MAIN, ["source"], routes, places, rejects)


def _faults(*routes: Route, rejects: str | None = None) -> str:
    with pytest.raises(SetupError) as refused:
        plan_of(_job(*routes, rejects=rejects))
    return str(refused.value)


def test_everything_that_stands_in_the_way_is_told_at_once() -> None:
    told = _faults(
        _route(filters=[{"any": [{"sql": "TRUE"}, {"sql": "id = 'x' AND DATA('/a') = 1"}]}]),
        _route(name="own", key={"mapper": "of-ours"}),
        _route(name="rabbit", to={"broker": "rabbit", "exchange": "e"}),
        _route(name="pulsar", to={"broker": "pulsar", "topic": "t"}),
        rejects="source",
    )
    assert "routes[0].filters[0].any[1].sql, character 14: DATA looks into the data" in told
    assert "routes[1].key.mapper: of-ours is code of your own" in told
    assert "routes[2].to[0]: rabbit is no Kafka" in told
    assert "routes[3].to[0]: pulsar is no Kafka" in told
    assert "the rejects go to source" in told


@pytest.mark.parametrize(
    ("broker", "topic", "round_"),
    [
        ("main", "source", True),
        ("alias", "source", True),
        ("main", "{type}", True),
        ("main", "sou{type}", True),
        ("main", "source.{type}", False),
        ("main", "sink", False),
        ("other", "source", False),
    ],
)
def test_a_route_that_leads_back_to_what_is_read_is_refused(
    broker: str, topic: str, round_: bool
) -> None:
    """Its records would be read and published for ever."""
    route = _route(to={"broker": broker, "topic": topic})
    if round_:
        assert "would go round" in _faults(route)
    else:
        assert plan_of(_job(route)).steps[0].route is route


def test_routes_say_why_all_of_their_records_go_the_exact_way() -> None:
    found = plan_of(
        _job(
            _route(name="native"),
            _route(name="key", key={"mapper": "pointer", "pointer": "/a"}),
            _route(name="older", specversion="0.3"),
            _route(name="proto", content_mode="structured", format="protobuf"),
        )
    )
    assert [str(step) for step in found.steps] == [
        "native -> main:target, natively",
        "key -> main:target, exactly, for its key is looked up in the data",
        "older -> main:target, exactly, for it writes version 0.3",
        "proto -> main:target, exactly, for it writes documents of protobuf",
    ]


def test_relaxed_durability_is_told_not_to_be_followed() -> None:
    (note,) = plan_of(_job(_route(durability="relaxed"))).notes
    assert "durability relaxed is not followed" in note


def test_each_place_where_sql_asks_for_data_is_told() -> None:
    """Filters within filters, and several within one expression."""
    one = Filter.model_validate(
        {"not": {"all": [{"sql": "HAS_DATA('/a') OR LENGTH(DATA('/b')) > 1"}]}}
    )
    assert [(each.path, each.at) for each in reasons([one])] == [
        ("filters[0].not.all[0].sql", 0),
        ("filters[0].not.all[0].sql", 25),
    ]
