"""GitHub payloads as CloudEvents, as the CloudEvents project's GitHub adapter maps them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.cli.feed.github import delivery_of, to_event
from app.event.value import DataForm
from app.intakes.github import ADAPTER

RECEIVED = "2026-11-21T00:00:00Z"
REPOSITORY = {
    "url": "https://api.github.com/repos/octo/hello",
    "full_name": "octo/hello",
    "name": "hello",
    "owner": {"url": "https://api.github.com/users/octo"},
    "updated_at": "2019-05-15T15:20:00Z",
}


def event(name: str, **fields: Any) -> dict[str, str]:
    payload = json.dumps(fields).encode()
    return dict(to_event(name, payload, delivery="d-1", received=RECEIVED).attributes)


@pytest.mark.parametrize(
    ("name", "fields", "type_", "subject"),
    [
        ("issues", {"action": "opened", "issue": {"number": 7}}, "issue.opened", "7"),
        ("pull_request", {"action": "closed", "number": 3}, "pull_request.closed", "3"),
        ("push", {"ref": "refs/heads/main"}, "push", "refs/heads/main"),
        ("create", {"ref": "v1", "ref_type": "tag"}, "create.tag", "v1"),
        ("deployment", {"action": "created", "deployment": {"id": 5}}, "deployment", "5"),
        ("status", {"sha": "abc", "state": "success"}, "status", "abc"),
        ("watch", {"action": "started"}, "watch.started", None),
        (
            "deployment_status",
            {"deployment_status": {"state": "success", "url": "https://x/1"}},
            "deployment_status.success",
            "https://x/1",
        ),
        (
            "membership",
            {"scope": "team", "action": "added", "member": {"login": "mona"}},
            "membership.team.added",
            "mona",
        ),
    ],
)
def test_type_and_subject_follow_the_adapter(
    name: str, fields: dict[str, Any], type_: str, subject: str | None
) -> None:
    """The adapter names the field for each kind of webhook."""
    attributes = event(name, repository=REPOSITORY, **fields)
    assert attributes["type"] == f"com.github.{type_}"
    assert attributes.get("subject") == subject


def test_source_is_the_repository_and_the_key_its_full_name() -> None:
    """Order is kept per repository (Partitioning extension)."""
    attributes = event("issues", action="opened", repository=REPOSITORY)
    assert attributes["source"] == REPOSITORY["url"]
    assert attributes["partitionkey"] == "octo/hello"


@pytest.mark.parametrize(
    ("name", "fields", "source"),
    [
        ("repository", {"repository": REPOSITORY}, "https://api.github.com/users/octo"),
        ("security_advisory", {"repository": REPOSITORY}, "github.com"),
        ("organization", {"organization": {"url": "https://x/orgs/o"}}, "https://x/orgs/o"),
        ("github_app_authorization", {"sender": {"url": "https://x/u/m"}}, "https://x/u/m"),
        ("marketplace_purchase", {"sender": {"url": "https://x/users/m"}}, "https://x/users"),
        ("ping", {"zen": "Keep it simple."}, "https://api.github.com"),
        (
            "commit_comment",
            {"comment": {"url": "https://x/c/1", "commit_id": "abc"}},
            "https://x/c/1/abc",
        ),
    ],
)
def test_sources_that_are_not_the_repository(
    name: str, fields: dict[str, Any], source: str
) -> None:
    """Some kinds belong to an account, an organisation or nobody; a source is always there."""
    assert event(name, **fields)["source"] == source


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("2019-05-15T15:20:41Z", "2019-05-15T15:20:41Z"),
        ("2017-10-25T00:00:00+00:00", "2017-10-25T00:00:00+00:00"),
        (1557933565, "2019-05-15T15:19:25Z"),
        ("yesterday", RECEIVED),
        (None, RECEIVED),
    ],
)
def test_time_is_the_payloads_own_where_it_is_a_timestamp(value: Any, time: str) -> None:
    """Text is kept as it is (core 1.3); seconds become RFC 3339; anything else is "current time"."""
    assert event("issues", issue={"updated_at": value})["time"] == time


def test_a_kind_the_adapter_does_not_know_follows_its_pattern() -> None:
    """GitHub has grown since the adapter was written."""
    attributes = event(
        "discussion", action="created", discussion={"number": 4}, repository=REPOSITORY
    )
    assert "discussion" not in ADAPTER
    assert attributes["type"] == "com.github.discussion.created"
    assert attributes["subject"] == "4"


def test_the_payload_becomes_the_data_byte_for_byte() -> None:
    """What is sent is compared with what arrives: nothing may be written anew."""
    payload = b'{ "action":"opened",\n  "number": 1.10 }'
    made = to_event("pull_request", payload, delivery="d", received=RECEIVED)
    assert (made.data, made.data_form) == (payload, DataForm.JSON)


def test_stand_in_delivery_ids_are_stable_and_differ() -> None:
    """Two equal payloads are two deliveries; a second run gives the same ids."""
    assert delivery_of("push", 1, b"{}") == delivery_of("push", 1, b"{}")
    assert delivery_of("push", 1, b"{}") != delivery_of("push", 2, b"{}")
