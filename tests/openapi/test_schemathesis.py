"""The admin listener does what its description says, whatever is sent to it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import checks

from app.store.encryption import new_key
from configuration import configuration, route
from sending import event_headers
from service_process import serving

EXAMPLES = int(os.environ.get("SKYBRIDGE_SCHEMATHESIS_EXAMPLES", "6"))
STREAMS = r"^/events|/tail$|/events$|/live$"  # the other listener; what goes on for ever
CHECKED = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
)
SOURCE = {"broker": "log", "topics": ["events"]}
SINK = "http://127.0.0.1:9/"
EVENT = event_headers("1") | {"skybridge-key": "k"}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real service on the embedded log."""
    folder: Path = tmp_path_factory.mktemp("fuzzed")
    by_source = {"mapper": "attribute", "attribute": "source"}
    filed = {"id": "filed", "source": SOURCE, "sink": SINK, "timeout": "1s"}
    settings = configuration(
        folder,
        store={"encryption": {"key": new_key()}},
        brokers={"log": {"partitions": 2}},
        routes=[route(name="everything", key=by_source)],
        limits={"subscriptions": 60},
        timeouts={
            "store": None, "publish": None, "drain": "2s",
            "webhook_dns": "200ms", "webhook_connect": "200ms",
        },
        log={"level": "warning"},
        subscriptions=[filed],
    )  # fmt: skip
    with serving(settings, folder) as service:
        yield service.admin_url
        assert service.running, service.log.read_text()[-2000:]
        assert "Traceback" not in service.log.read_text()


DOCUMENT = json.loads((Path(__file__).parents[2] / "openapi" / "openapi.json").read_text())
METHODS = frozenset({"get", "put", "post", "patch", "delete", "head", "options"})
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, item in DOCUMENT["paths"].items()
    for method in item
    if method in METHODS and not re.search(STREAMS, path)
]


@pytest.fixture(scope="module")
def operations() -> Mapping[str, Any]:
    """By method and path. Made by the tests, not while they are collected: it takes seconds."""
    described = schemathesis.openapi.from_dict(DOCUMENT).exclude(path_regex=STREAMS)
    found = {each.ok().label: each.ok() for each in described.get_all_operations()}
    assert list(found) == OPERATIONS
    return found


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )


def _ask(operation: Any, admin: str, examples: int) -> None:
    """Half of the requests are about things that are there, or hardly any would come past 404."""

    @_settings(examples)
    @given(case=operation.as_strategy(), known=st.sampled_from([None, "made", "filed", "made"]))
    def ask(case: Any, known: str | None) -> None:
        if known is not None:
            _about(case, known)
        case.call_and_validate(base_url=admin, checks=CHECKED, timeout=240)

    ask()


def _about(case: Any, subscription: str) -> None:
    known = {"id": subscription, "name": subscription, "broker": "log", "topic": "events"}
    for name in known.keys() & (case.path_parameters or {}).keys():
        case.path_parameters[name] = known[name]
    if case.operation.method in {"put", "patch"}:
        case.headers["If-Match"] = "*"
        case.headers.pop("If-None-Match", None)
    if case.operation.path.endswith(":test"):
        case.body = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    if isinstance(case.body, dict) and "sink" in case.body:
        case.body |= {"source": SOURCE, "sink": SINK}
        case.body.pop("id", None)
    if isinstance(case.body, dict) and "protocol" in case.body:  # the draft's
        case.body |= {"config": SOURCE, "source": "/s", "protocol": "HTTP", "filters": []}
        case.body.pop("sinkcredential", None)


@pytest.fixture
def made(admin: str) -> str:
    """A subscription that the API made, there again before each operation, and an event for it."""
    document = {"id": "made", "source": SOURCE, "sink": SINK, "timeout": "1s"}
    with httpx.Client(base_url=admin, timeout=120) as client:
        client.put("/v1/subscriptions/made", json=document, headers={"if-none-match": "*"})
        client.post("/v1/topics/log/events/records", headers=EVENT)
        client.post("/v1/subscriptions/made:resume")
    return admin


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_is_a_described_one(
    operation: str, operations: Mapping[str, Any], made: str
) -> None:
    """No 5xx, and no status, content type, header or body that the description does not have."""
    _ask(operations[operation], made, EXAMPLES)


@pytest.mark.nightly
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_is_a_described_one_at_length(
    operation: str, operations: Mapping[str, Any], made: str
) -> None:
    """The same, for as long as it takes."""
    _ask(operations[operation], made, 100)


def test_what_was_made_can_be_read_changed_and_deleted(admin: str) -> None:
    """By the links of the description: answers of one operation are what the next one is asked with."""
    described = schemathesis.openapi.from_url(f"{admin}/openapi.json").exclude(path_regex=STREAMS)
    machine = described.as_state_machine()

    class Checked(machine):  # type: ignore[misc, valid-type]
        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            case.validate_response(response, checks=CHECKED)

    Checked.run(settings=settings(_settings(max(5, EXAMPLES // 2)), stateful_step_count=6))
