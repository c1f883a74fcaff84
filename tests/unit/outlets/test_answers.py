"""What an answer means: the setting ``success``, and the rules of each publisher."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.delivery.outcomes import Fate
from app.model.outlet import Success
from app.outlets.success import TargetAnswer, compile_success
from outlets import BARE, EVENT, compiled_outlet

DELIVERED, RETRY, DEAD = Fate.DELIVERED, Fate.RETRY, Fate.DEAD_LETTER
OK = {"pointer": "/ok", "equals": True}
DEAD_IF = {"pointer": "/error", "in": ["channel_not_found", 7]}


@pytest.mark.parametrize(
    ("success", "answer", "fate"),
    [
        ({"status": [200, 410]}, TargetAnswer(200), DELIVERED),
        ({"status": [200, 410]}, TargetAnswer(410), DELIVERED),
        ({"status": [200, 410]}, TargetAnswer(204), RETRY),
        ({"status": [200, 410]}, TargetAnswer(415), None),
        ({"status": [200, 410]}, TargetAnswer(503), None),
        ({"body": OK}, TargetAnswer(200, b'{"ok": true}'), DELIVERED),
        ({"body": OK}, TargetAnswer(200, b'{"ok": 1}'), RETRY),
        ({"body": OK}, TargetAnswer(200, b'{"ok": "true"}'), RETRY),
        ({"body": OK}, TargetAnswer(200, b"{}"), RETRY),
        ({"body": OK}, TargetAnswer(200, b"ok"), RETRY),
        ({"body": OK}, TargetAnswer(200, b""), RETRY),
        ({"body": OK}, TargetAnswer(200, b'{"ok": true}', whole=False), RETRY),
        ({"body": OK}, TargetAnswer(400, b'{"ok": true}'), None),
        (
            {"body": OK, "dead_letter_if": DEAD_IF},
            TargetAnswer(200, b'{"error": "channel_not_found"}'),
            DEAD,
        ),
        (
            {"body": OK, "dead_letter_if": DEAD_IF},
            TargetAnswer(200, b'{"error": "rate_limited"}'),
            RETRY,
        ),
        ({"dead_letter_if": DEAD_IF}, TargetAnswer(200, b'{"error": 7}'), DEAD),
        ({"dead_letter_if": DEAD_IF}, TargetAnswer(200, b'{"error": 8}'), DELIVERED),
        (
            {"body": {"pointer": "/a/1/b", "equals": None}},
            TargetAnswer(200, b'{"a": [0, {"b": null}]}'),
            DELIVERED,
        ),
        ({"body": {"pointer": "", "equals": "ok"}}, TargetAnswer(201, b'"ok"'), DELIVERED),
    ],
)
def test_success(success: dict[str, Any], answer: TargetAnswer, fate: Fate | None) -> None:
    """None: the rules of delivery hold. No row is a fault of the endpoint."""
    judge = compile_success(Success.model_validate(success))
    assert judge is not None
    outcomes = judge(answer, 1)
    assert (None if outcomes is None else outcomes[0].fate) is fate
    assert outcomes is None or not outcomes[0].endpoint_fault


def test_without_a_setting_nothing_is_judged() -> None:
    """The rules of delivery hold."""
    assert compile_success(Success()) is None


SLACK = {
    "preset": "slack",
    "text": "Order {pointer:/order/id} <{pointer:/note ?? <!channel> & co}>",
}
TEAMS = {"preset": "teams", "title": "Failed", "text": "Order {pointer:/order/id}"}
DISCORD = {
    "preset": "discord",
    "text": "Order {pointer:/order/id}: {pointer:/note ?? @everyone *now*}",
}
PAGERDUTY = {
    "preset": "pagerduty",
    "key": {"secret": "R1"},
    "summary": "Order {pointer:/order/id} failed",
}
JIRA = {"preset": "jira_service_management", "key": {"secret": "G1"}, "message": "Order {id}"}
ELASTIC = {"preset": "elasticsearch", "index": "orders-{time:%Y.%m}"}
SPLUNK = {"preset": "splunk_hec", "key": {"secret": "S1"}, "index": "shop"}


@pytest.mark.parametrize(
    ("settings", "target", "body"),
    [
        (SLACK, "/v2", {"text": "Order o/1 <&lt;!channel&gt; &amp; co>"}),
        (DISCORD, "/v2", {"content": r"Order o/1: \@everyone \*now\*", "allowed_mentions": {"parse": []}}),
        (
            PAGERDUTY,
            "/v2/v2/enqueue",
            {
                "routing_key": "R1", "event_action": "trigger", "dedup_key": "/shop e1",
                "payload": {
                    "summary": "Order o/1 failed", "source": "/shop", "severity": "error",
                    "timestamp": EVENT.attributes["time"],
                    "custom_details": {"attributes": {**EVENT.attributes, "count": 3}, "data": json.loads(EVENT.data or b"")},
                },
            },
        ),
        (
            JIRA,
            "/v2/jsm/ops/integration/v2/alerts",
            {"message": "Order e1", "alias": "/shop e1", "source": "/shop", "priority": "P3", "details": {}},
        ),
    ],
    ids=["slack", "discord", "pagerduty", "jira"],
)  # fmt: skip
def test_the_request_of_a_preset(settings: dict[str, Any], target: str, body: object) -> None:
    """Values are escaped in the markup of the publisher; the template's own markup is not."""
    made = compiled_outlet(settings).shape(EVENT)
    assert made.target == target
    assert json.loads(made.message.body) == body


def test_teams_gets_a_card_of_plain_texts() -> None:
    """A ``TextRun`` knows no markdown: nothing of the data is a link."""
    message = json.loads(compiled_outlet(TEAMS).shape(EVENT).message.body)
    (attachment,) = message["attachments"]
    lines = attachment["content"]["body"]
    assert [line["inlines"][0]["text"] for line in lines] == ["Failed", "Order o/1"]
    assert {line["inlines"][0]["type"] for line in lines} == {"TextRun"}


def test_elasticsearch_gets_two_lines_an_event() -> None:
    """The action, then the document; several events follow one another."""
    outlet = compiled_outlet(ELASTIC)
    made = outlet.join([outlet.piece(EVENT), outlet.piece(EVENT)])
    lines = [json.loads(line) for line in made.message.body.splitlines()]
    assert made.target == "/v2/_bulk"
    assert dict(made.message.headers) == {"Content-Type": "application/x-ndjson"}
    assert lines[0] == {"create": {"_index": "orders-2026.11", "_id": "/shop e1"}}
    assert lines[1]["@timestamp"] == EVENT.attributes["time"]
    assert lines[2:] == lines[:2]


def test_an_event_without_time_or_data_is_whole_too() -> None:
    """The default documents leave out what an event need not have."""
    outlet = compiled_outlet({**ELASTIC, "index": "orders"})
    document = json.loads(outlet.piece(BARE).splitlines()[1])
    assert document == {"attributes": dict(BARE.attributes)}
    assert "time" not in json.loads(compiled_outlet(SPLUNK).piece(BARE))


def test_splunk_gets_its_token_and_the_time() -> None:
    """The collector reads one JSON object after another."""
    outlet = compiled_outlet(SPLUNK, "https://splunk.example:8088/services/collector/event")
    made = outlet.join([outlet.piece(EVENT)] * 2)
    assert made.target == "/services/collector/event"
    assert dict(made.message.headers)["authorization"] == "Splunk S1"
    one = json.loads(outlet.piece(EVENT))
    assert (one["time"], one["source"], one["index"]) == ("1795734123", "/shop", "shop")


BULK = [
    {"create": {"status": 201}},
    {"create": {"status": 409}},
    {"create": {"status": 429}},
    {"create": {"status": 400}},
]


@pytest.mark.parametrize(
    ("settings", "answer", "fates"),
    [
        (SLACK, TargetAnswer(200, b"ok"), None),
        (SLACK, TargetAnswer(404, b"no_service"), [DEAD]),
        (SLACK, TargetAnswer(429), None),
        (TEAMS, TargetAnswer(202), None),
        (TEAMS, TargetAnswer(200, b"Webhook message delivery failed with error: ... HTTP error 429 with"), [RETRY]),
        (TEAMS, TargetAnswer(200, b"Webhook message delivery failed with error: ... HTTP error 404 with"), [DEAD]),
        (DISCORD, TargetAnswer(404, b'{"code": 10015}'), [DEAD]),
        (PAGERDUTY, TargetAnswer(202), None),
        (SPLUNK, TargetAnswer(200, b'{"text":"Success","code":0}'), [DELIVERED]),
        (SPLUNK, TargetAnswer(200, b'{"text":"Server is busy","code":9}'), [RETRY]),
        (SPLUNK, TargetAnswer(503, b'{"text":"Server is busy","code":9}'), None),
        (ELASTIC, TargetAnswer(200, b'{"errors":false,"items":[]}'), [DELIVERED]),
        (ELASTIC, TargetAnswer(200, json.dumps({"errors": True, "items": BULK}).encode()), [DELIVERED, DELIVERED, RETRY, DEAD]),
        (ELASTIC, TargetAnswer(200, b'{"errors":true,"items":[]}'), [RETRY]),
        (ELASTIC, TargetAnswer(200, b'{"errors":true', whole=False), [RETRY]),
        (ELASTIC, TargetAnswer(429), None),
    ],
)  # fmt: skip
def test_the_answers_of_a_publisher(
    settings: dict[str, Any], answer: TargetAnswer, fates: list[Fate] | None
) -> None:
    """None: the rules of delivery hold."""
    outcomes = compiled_outlet(settings).conclude(answer, len(BULK)).outcomes
    assert (None if outcomes is None else [each.fate for each in outcomes]) == fates


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (b'{"retry_after": 0.3}', 1),
        (b'{"retry_after": 64.57}', 65),
        (b"{}", None),
        (b'{"retry_after": 1e9}', None),
    ],
)
def test_discord_says_in_its_body_how_long_to_wait(body: bytes, seconds: int | None) -> None:
    """In seconds, with a fraction."""
    assert compiled_outlet(DISCORD).conclude(TargetAnswer(429, body), 1).wait == seconds
