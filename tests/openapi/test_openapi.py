"""The checked-in description is what a service serves, and describes both listeners."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from admin_app import admin_app, client_of
from app.api.app import document, skeleton

FILE = Path(__file__).parents[2] / "openapi" / "openapi.json"


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def test_checked_in_document_equals_what_the_code_describes(described: dict[str, Any]) -> None:
    """Clients generated from the file must fit the service (make it anew: skybridge openapi)."""
    assert described == json.loads(json.dumps(document(skeleton())))


async def test_served_document_equals_the_checked_in_one(described: dict[str, Any]) -> None:
    """What is read in the repository is what a running service answers."""
    async with client_of(admin_app(None)) as client:
        served = (await client.get("/openapi.json")).json()
    assert served == described


@pytest.mark.parametrize("path", ["/events", "/events/{route}"])
@pytest.mark.parametrize("method", ["post", "put", "options"])
def test_events_listener_is_described_with_its_own_address(
    described: dict[str, Any], path: str, method: str
) -> None:
    """The hot path has no FastAPI that would describe it (ADR 0002)."""
    item = described["paths"][path]
    assert item["servers"][0]["variables"]["port"]["default"] == "8080"
    assert item[method]["responses"]


@pytest.mark.parametrize(
    "status",
    ["200", "202", "400", "404", "405", "408", "413", "415", "422", "431", "500", "503"],
)
def test_every_answer_of_the_events_listener_is_described(
    described: dict[str, Any], status: str
) -> None:
    """A client must know each answer, and that refusals are problem documents (RFC 9457)."""
    answer = described["paths"]["/events"]["post"]["responses"][status]
    content = answer.get("content", {})
    if status == "202":
        assert not content
    elif status == "200":
        assert "application/json" in content
    else:
        assert "application/problem+json" in content


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    """A dangling $ref breaks every generator."""
    text = json.dumps(described)
    names = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert names
    assert names <= set(described["components"]["schemas"])


def test_operation_ids_are_unique(described: dict[str, Any]) -> None:
    """Generated clients name their methods by them."""
    methods = {"get", "post", "put", "delete", "patch", "options"}
    ids = [
        operation["operationId"]
        for item in described["paths"].values()
        for method, operation in item.items()
        if method in methods
    ]
    assert len(ids) == len(set(ids))
