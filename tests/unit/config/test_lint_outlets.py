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


def findings(tmp_path: Path, request: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    """The level and setting of each finding below the subscription."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    one = subscription("a", "https://hooks.example/x", request=request, **more)
    if "handshake" not in more:
        del one["handshake"]
    settings = configuration(
        tmp_path, subscriptions=[one], routes=[route(schema={"file": str(schema)})]
    )
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
