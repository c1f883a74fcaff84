"""What ``check`` finds in the setting ``request`` of a subscription."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.config.lint.checks import lint
from app.config.load.finding import BadConfiguration
from configuration import configuration, loaded, route, subscription, written

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "order": {"$ref": "#/$defs/order"},
        "note": {"type": "string"},
        "open": {"type": "object"},
    },
    "$defs": {
        "order": {
            "type": "object", "additionalProperties": False, "properties": {"id": {"type": "string"}},
        }
    },
}  # fmt: skip


def findings(
    tmp_path: Path,
    request: dict[str, Any],
    *,
    schema: object = SCHEMA,
    also: dict[str, Any] | None = None,
    **more: Any,
) -> list[tuple[str, str]]:
    """The level and setting of each finding below the subscription. ``also`` is a second route."""
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    one = subscription("a", "https://hooks.example/x", request=request, **more)
    if "handshake" not in more:
        del one["handshake"]
    routes = [route(schema={"file": str(file)})]
    if also is not None:
        checked = {"file": str(file), **also["schema"]} if "schema" in also else None
        routes.append(route(**{**also, "schema": checked}))
    settings = configuration(tmp_path, subscriptions=[one], routes=routes)
    try:
        found = lint(loaded(written(settings, tmp_path)))
    except BadConfiguration as error:
        found = error.findings
    return [
        (each.level, each.setting) for each in found if each.setting.startswith("subscriptions")
    ]


@pytest.mark.parametrize(
    ("request_", "setting"),
    [
        ({"body": {"a": {"b": ["{pointer:x}"]}}}, "subscriptions[0].request.body.a.b[0]"),
        ({"path": "/a b"}, "subscriptions[0].request.path"),
        ({"headers": {"x-a": "{nothing"}}, "subscriptions[0].request.headers.x-a"),
        ({"preset": "slack", "text": "{header:x}"}, "subscriptions[0].request.text"),
    ],
)
def test_a_template_that_cannot_be_compiled(
    tmp_path: Path, request_: dict[str, Any], setting: str
) -> None:
    """The finding is at the setting that has the template."""
    assert ("error", setting) in findings(tmp_path, request_)


@pytest.mark.parametrize(
    ("pointer", "warned"),
    [
        ("/order/id", False),
        ("/order/number", True),
        ("/order/id/deeper", True),
        ("/customer", True),
        ("/note", False),
        ("/open/anything", False),
        ("/customer ?? none", False),
    ],
)
def test_a_pointer_that_the_schema_excludes(tmp_path: Path, pointer: str, warned: bool) -> None:
    """A pointer with a default is meant to be missing."""
    found = findings(tmp_path, {"body": {"a": f"{{pointer:{pointer}}}"}})
    assert (("warning", "subscriptions[0].request.body.a") in found) is warned


@pytest.mark.parametrize(
    "more",
    [
        {"content_mode": "binary"}, {"format": "json"}, {"specversion": "1.0"}, {"reply": "all"},
        {"strict_webhook": True}, {"handshake": "ask"}, {"request_rate": 5}, {"batch": {}}, {"headers": {"x-a": "1"}},
        {"forward_headers": ["x-*"]}, {"auth": {"kind": "api_key", "header": "x-a", "secret": "s"}},
        {"retry": {"statuses": [429, 410]}},
    ],
    ids=lambda more: next(iter(more)),
)  # fmt: skip
def test_settings_that_contradict_a_request(tmp_path: Path, more: dict[str, Any]) -> None:
    """They are refused: the request that goes out would not be the one that is written."""
    request = {"headers": {"x-a": "{id}"}, "success": {"status": [410]}}
    assert any(level == "error" for level, _ in findings(tmp_path, request, **more))


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"allOf": None},
        {"type": "object", "properties": None, "additionalProperties": False},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/a"}}},
    ],
    ids=["a circle that doubles", "no list", "no properties", "a circle"],
)
def test_a_schema_of_any_form_ends_the_check(tmp_path: Path, schema: dict[str, Any]) -> None:
    """A circle is followed once, and what is no schema is left to the check of routes."""
    found = findings(tmp_path, {"body": {"a": "{pointer:/order/id}"}}, schema=schema)
    assert ("warning", "subscriptions[0].request.body.a") not in found


@pytest.mark.parametrize(
    "more",
    [
        {"name": "other", "to": {"broker": "log", "topic": "{type}"}},
        {"name": "counted", "schema": {"on_invalid": "count"}},
    ],
    ids=lambda more: more["name"],
)
def test_a_route_that_may_write_other_data_prevents_the_warning(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """A template that can be the topic, or a route that publishes what does not match its schema."""
    found = findings(tmp_path, {"body": {"a": "{pointer:/order/number}"}}, also=more)
    assert ("warning", "subscriptions[0].request.body.a") not in found
