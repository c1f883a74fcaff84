"""What a job of ``pipeline reroute`` cannot do is said before it starts, all of it at once (issue 8 point 6)."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import SetupError
from app.model.route import Route
from app.spark.reroute.plan import check_job, route_line
from app.spark.settings import KafkaPlace, Reroute

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
        check_job(_job(*routes, rejects=rejects))
    return str(refused.value)


def test_everything_that_stands_in_the_way_is_told_at_once() -> None:
    said = _faults(
        _route(deduplicate={"window": "1h"}),
        _route(name="own", key={"mapper": "of-ours"}),
        _route(name="rabbit", to={"broker": "rabbit", "exchange": "e"}),
        _route(name="pulsar", to={"broker": "pulsar", "topic": "t"}),
        rejects="source",
    )
    assert "routes[0].deduplicate: only the gateway supports this setting" in said
    assert "routes[1].key.mapper: of-ours is your own code" in said
    assert "routes[2].to[0]: rabbit is neither a Kafka" in said
    assert "routes[3].to[0]: pulsar is neither a Kafka" in said
    assert "the rejects go to source" in said


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
        assert "would be routed again" in _faults(route)
    else:
        assert check_job(_job(route)) == []


@pytest.mark.parametrize(
    "given",
    [
        {"filters": [{"sql": "DATA('/a') = 1 OR HAS_DATA('/b')"}]},
        {"key": {"mapper": "pointer", "pointer": "/a"}},
        {"specversion": "0.3"},
        {"content_mode": "structured", "format": "protobuf"},
    ],
)
def test_whatever_the_gateway_asks_of_an_event_a_job_does_too(given: dict[str, Any]) -> None:
    assert check_job(_job(_route(**given))) == []


def test_a_route_is_told_with_its_places() -> None:
    to = [{"broker": "main", "topic": "a.{type}"}, {"broker": "other", "topic": "b"}]
    assert route_line(_route(to=to)) == "r -> main:a.{type}, other:b"


def test_relaxed_durability_is_told_not_to_be_followed() -> None:
    (note,) = check_job(_job(_route(durability="relaxed")))
    assert "durability relaxed has no effect" in note
