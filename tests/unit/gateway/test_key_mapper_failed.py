"""A key mapper of the operator that fails: told apart from a bad request, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from app.gateway.answers import HttpAnswer
from app.gateway.intakes import Intakes
from app.gateway.publish import Publisher, PublishPolicy
from app.gateway.request import EventRequest
from app.gateway.resource import EventsPolicy, EventsResource
from app.model.log_name import LogName
from app.model.route import Route
from app.routing.plan import Resources, Router
from app.telemetry import Counters
from scripted_log import ScriptedLog


def shop(attributes: Mapping[str, str], _data: bytes | None, _key: bytes | None) -> str:
    return attributes["subject"]


def answer(counters: Counters, log: Any, *events: dict[str, str]) -> HttpAnswer | None:
    settings = {"name": "r", "to": {"broker": "log", "topic": "t"}, "key": {"mapper": "shop"}}
    router = Router([Route.model_validate(settings)], Resources({"shop": shop}))
    resource = EventsResource(
        Publisher(PublishPolicy(router=router), {LogName("log"): log}, counters),
        EventsPolicy(intakes=Intakes((), counters)),
        counters,
    )
    kind = (b"content-type", b"application/cloudevents-batch+json")
    required = {"specversion": "1.0", "id": "1", "source": "/", "type": "t"}
    body = json.dumps([required | each for each in events]).encode()
    return resource.post(EventRequest([kind], dict([kind]), body), lambda _answer: None)


@pytest.mark.parametrize("events", [[{}], [{"subject": "s"}, {}, {"subject": "s"}]])
async def test_it_is_503_with_its_cause_and_nothing_is_published(
    events: list[dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 1 and reliability G4: the sender keeps its events, and comes back later; the operator sees
    what was raised, the sender only its class."""
    counters, log = Counters(), ScriptedLog("log")
    refused = answer(counters, log, *events)
    assert refused is not None
    document = json.loads(refused.body)
    assert (refused.status, document["type"]) == (503, "urn:skybridge:problem:key-mapper-failed")
    assert dict(refused.headers)[b"retry-after"] == b"30"
    assert document["title"] == "The key mapper 'shop' of this gateway raised KeyError"
    assert counters.values()["events_refused"] == {("key-mapper-failed",): 1}
    assert log.submits == []
    assert "KeyError: 'subject'" in caplog.text


async def test_a_mapper_that_works_makes_the_key() -> None:
    """The other half: the key is on the record."""
    log = ScriptedLog("log")
    answer(Counters(), log, {"subject": "s"})
    assert [record.key for record in log.submits[0].records] == [b"s"]
