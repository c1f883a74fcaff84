"""What the requests of each publisher become: payloads in the shape of its documentation."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import urlencode

import pytest

import publishers
from app.event.validate import faults_of
from app.intakes.arrival import IntakeRequest
from app.intakes.compiled import compile_intake
from app.intakes.mapping import Unmappable
from app.intakes.presets import PRESETS
from app.model.intake import Intake
from hostile_json import VALUES
from publishers import FORM, SignedRequest

NOW = 1_800_000_000.0
CAME = "2027-01-15T08:00:00Z"  # NOW


def attributes(preset: str, sent: SignedRequest) -> dict[str, str]:
    settings = Intake.model_validate({"name": "hooks", "preset": preset, "secret": "s"})
    compiled = compile_intake(settings)
    found = compiled.mapper(IntakeRequest(sent.pairs, sent.body, field=compiled.field), NOW)
    assert not faults_of(found, str)
    return found


def check(preset: str, sent: SignedRequest, **expected: str | None) -> None:
    found = attributes(preset, sent)
    assert {name: found.get(name) for name in expected} == expected
    assert found["datacontenttype"] == dict(sent.pairs)[b"content-type"].decode()


STRIPE = {
    "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy",
    "object": "event",
    "created": 1686089970,
    "data": {"object": {"id": "seti_1NG8Du2eZvKYlo2C9XMqbR0x", "object": "setup_intent"}},
    "type": "setup_intent.created",
}
# Of version 2: times are text, and the object is named and not contained.
STRIPE_THIN = {
    "id": "evt_test_65R9Ijk8dKEYZcXeRWn16R9A7j1FSQ3w3TGDPLLGSM4CW0",
    "object": "v2.core.event",
    "type": "v1.billing.meter.error_report_triggered",
    "created": "2024-09-17T06:20:52.246Z",
    "related_object": {"id": "mtr_test_61R9IeP0SgKbYROOx41PEAQhH0qO23oW", "type": "billing.meter"},
}
SLACK = {
    "token": "z26uFbvR1xHJEdHE1OQiO6t8",
    "team_id": "T123ABC456",
    "api_app_id": "A123ABC456",
    "event": {"type": "message", "channel": "C123ABC456", "user": "U1", "text": "Live", "ts": "1"},
    "type": "event_callback",
    "event_id": "Ev123ABC456",
    "event_time": 1515449522,
}
SLACK_COMMAND = {
    "token": "gIkuvaNzQIHg97ATvDxqgjtO",
    "team_id": "T0001",
    "channel_id": "C2147483705",
    "command": "/weather",
    "text": "94070",
    "trigger_id": "13345224609.738474920.8088930838d88f008e0",
    "api_app_id": "A123456",
}
SLACK_INTERACTION = {
    "type": "block_actions",
    "team": {"id": "T9TK3CUKW", "domain": "example"},
    "trigger_id": "12466734323.1395872398",
    "callback_id": "approve",
}
SLACK_DIALOG = {  # neither a trigger nor a view: a moment, of a user and a dialog
    "token": "M1AqUUw3FqayAbqNtsGMch72",
    "action_ts": "1542993577.333025",
    "team": {"id": "T123ABC456", "domain": "example"},
    "user": {"id": "U123ABC456", "name": "someone"},
    "channel": {"id": "C123ABC456", "name": "general"},
    "callback_id": "offsite",
    "state": "final",
}
SHOPIFY = {
    "id": 820982911946154508,
    "admin_graphql_api_id": "gid://shopify/Order/820982911946154508",
}
STANDARD = {
    "type": "contact.created",
    "timestamp": "2022-11-03T20:26:10.344522Z",
    "data": {"id": 1},
}
NAMES = ("id", "type", "source", "subject", "time")
# Request to preset and attributes, in the order of NAMES.
EVENTS: dict[str, tuple[str, SignedRequest, tuple[str | None, ...]]] = {
    "stripe": ("stripe", publishers.stripe(STRIPE, NOW), (
        "evt_1NG8Du2eZvKYlo2CUI79vXWy", "com.stripe.setup_intent.created", "https://api.stripe.com",
        "seti_1NG8Du2eZvKYlo2C9XMqbR0x", "2023-06-06T22:19:30Z",
    )),
    "stripe: a connected account": ("stripe", publishers.stripe(STRIPE | {"account": "acct_1"}, NOW), (
        "evt_1NG8Du2eZvKYlo2CUI79vXWy", "com.stripe.setup_intent.created",
        "https://api.stripe.com/v1/accounts/acct_1", "seti_1NG8Du2eZvKYlo2C9XMqbR0x", "2023-06-06T22:19:30Z",
    )),
    "stripe: a thin event": ("stripe", publishers.stripe(STRIPE_THIN, NOW), (
        "evt_test_65R9Ijk8dKEYZcXeRWn16R9A7j1FSQ3w3TGDPLLGSM4CW0",
        "com.stripe.v1.billing.meter.error_report_triggered", "https://api.stripe.com",
        "mtr_test_61R9IeP0SgKbYROOx41PEAQhH0qO23oW", "2024-09-17T06:20:52.246Z",
    )),
    "slack": ("slack", publishers.slack(SLACK, NOW), (
        "Ev123ABC456", "com.slack.message", "https://app.slack.com/client/T123ABC456", "C123ABC456",
        "2018-01-08T22:12:02Z",
    )),
    "slack: a slash command": ("slack", publishers.slack(urlencode(SLACK_COMMAND).encode(), NOW), (
        "13345224609.738474920.8088930838d88f008e0", "com.slack.slash_command",
        "https://app.slack.com/client/T0001", "/weather", None,
    )),
    "slack: JSON in a field of a form": (
        "slack", publishers.slack(urlencode({"payload": publishers.text(SLACK_INTERACTION)}).encode(), NOW), (
        "12466734323.1395872398", "com.slack.block_actions", "https://app.slack.com/client/T9TK3CUKW", "approve",
        None,
    )),
    **{
        f"slack: {type_}": (
            "slack", publishers.slack(urlencode({"payload": publishers.text(SLACK_DIALOG | {"type": type_})}).encode(), NOW), (
            "offsite.U123ABC456.1542993577.333025", f"com.slack.{type_}", "https://app.slack.com/client/T123ABC456",
            "offsite", None,
        ))
        for type_ in ("dialog_cancellation", "dialog_submission", "dialog_suggestion")
    },
    "shopify": ("shopify", publishers.shopify(SHOPIFY, "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043"), (
        "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "com.shopify.orders.create", "https://snow.myshopify.com",
        "gid://shopify/Order/820982911946154508", "2026-03-29T18:00:27.877041743Z",
    )),
    "standard webhooks": (
        "standard_webhooks", publishers.standard(STANDARD, NOW, "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"), (
        "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", "contact.created", "/in/hooks", None, "2022-11-03T20:26:10.344522Z",
    )),
}  # fmt: skip


@pytest.mark.parametrize("request_", EVENTS)
def test_the_event_of_a_request(request_: str) -> None:
    preset, sent, expected = EVENTS[request_]
    check(preset, sent, **dict(zip(NAMES, expected, strict=True)))


def test_slack_challenge_is_told_from_an_event() -> None:
    challenge = PRESETS["slack"].challenge
    assert challenge is not None
    asked = {
        "token": "Jhj5dZrVaK7ZwHHjRyZWjbDl",
        "challenge": "3eZbrw1a",
        "type": "url_verification",
    }
    for payload, text in ((asked, "3eZbrw1a"), (SLACK, None), (asked | {"challenge": 7}, None)):
        sent = publishers.slack(payload, NOW)
        assert challenge(IntakeRequest(sent.pairs, sent.body)) == text


def test_shopify_without_a_time_of_its_own() -> None:
    sent = publishers.shopify({"id": 7, "updated_at": "2021-12-31T19:00:00-05:00"})
    own = sent.but("X-Shopify-Triggered-At", None)
    check("shopify", own, time="2021-12-31T19:00:00-05:00", subject="7")


PROJECT = {
    "repository": {"homepage": "http://gitlab.example.com/mike/diaspora"},
    "project": {"web_url": "http://gitlab.example.com/mike/diaspora", "path_with_namespace": "mike/diaspora"},
}  # fmt: skip
NOTE = {"id": 1241, "created_at": "2015-05-17T18:08:09Z", "url": "http://x/mr/1#note_1241"}


@pytest.mark.parametrize(
    ("payload", "type_", "subject", "source"),
    [
        ({"object_kind": "push", "checkout_sha": "da15"}, "push", "da15", None),
        ({"object_kind": "tag_push", "ref": "refs/tags/v1"}, "tag_push", "refs/tags/v1", None),
        ({"object_kind": "issue", "object_attributes": {"iid": 23, "state": "opened"}}, "issue.opened", "23", None),
        (
            {"object_kind": "note", "commit": {"url": "http://x/commit/1"},
             "object_attributes": NOTE | {"noteable_type": "Commit"}},
            "note.commit", "1241", "http://x/commit/1",
        ),
        (
            {"object_kind": "note", "object_attributes": NOTE | {"noteable_type": "MergeRequest"}},
            "note.merge_request", "1241", "http://x/mr/1",
        ),
        (
            {"object_kind": "merge_request", "object_attributes": {"iid": 1, "action": "open"}},
            "merge_request.open", "1", None,
        ),
        (
            {"object_kind": "wiki_page", "object_attributes": {"slug": "awesome", "action": "create"}},
            "wiki_page.create", "awesome", None,
        ),
        ({"object_kind": "pipeline", "object_attributes": {"id": 31, "status": "success"}}, "pipeline.success", "31", None),
        ({"object_kind": "build", "build_id": 1977, "build_status": "created"}, "job.created", "1977", None),
        ({"object_kind": "release", "id": 1, "action": "create"}, "release.create", "1", None),
    ],
)  # fmt: skip
def test_gitlab_follows_the_adapter(
    payload: dict[str, Any], type_: str, subject: str, source: str | None
) -> None:
    check(
        "gitlab",
        publishers.gitlab(PROJECT | payload, "f5e5f430-f57b-4e6e-9fac-d9128cd7232f"),
        id="f5e5f430-f57b-4e6e-9fac-d9128cd7232f",
        type=f"com.gitlab.{type_}",
        subject=subject,
        source=source or "http://gitlab.example.com/mike/diaspora",
        partitionkey="mike/diaspora",
        time="2015-05-17T18:08:09Z" if "note" in type_ else CAME,
    )


def test_gitlab_without_a_project_is_of_its_instance() -> None:
    """System hooks name their kind otherwise."""
    sent = publishers.gitlab({"event_name": "user_create", "created_at": "2012-07-21T07:44:07Z"})
    check("gitlab", sent, type="com.gitlab.user_create", source="https://gitlab.example.com")
    with pytest.raises(Unmappable) as error:
        attributes("gitlab", sent.but("X-Gitlab-Instance", None))
    assert [fault.at for fault in error.value.faults] == ["header x-gitlab-instance"]


def test_gitlab_before_it_had_idempotency_keys() -> None:
    sent = publishers.gitlab(PROJECT | {"object_kind": "push"}).but("Idempotency-Key", None)
    check("gitlab", sent.but("X-Gitlab-Event-UUID", "u-1"), id="u-1")


def test_github_as_a_form_is_the_same_event() -> None:
    payload = {
        "action": "opened",
        "issue": {"number": 7},
        "repository": {"url": "https://x/r", "full_name": "o/r"},
    }
    as_json = attributes("github", publishers.github(payload, "issues"))
    as_form = attributes("github", publishers.github(payload, "issues", form=True))
    assert as_form.pop("datacontenttype") == "application/x-www-form-urlencoded"
    assert as_json.pop("datacontenttype") == "application/json"
    assert as_form == as_json
    assert as_json["type"] == "com.github.issue.opened"
    assert as_json["time"] == CAME


MISSING = {
    "github": (publishers.github({}).but("X-GitHub-Event", None).but("X-GitHub-Delivery", None), 2),
    "gitlab": (publishers.gitlab({}).but("Idempotency-Key", None), 2),
    "stripe": (publishers.stripe({}, NOW), 2),
    "slack": (publishers.slack({}, NOW), 1),
    "shopify": (publishers.shopify({}).but("X-Shopify-Topic", None).but("X-Shopify-Webhook-Id", None), 2),
    "standard_webhooks": (publishers.standard({}, NOW).but("webhook-id", None), 2),
}  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_everything_that_is_missing_is_said_at_once(preset: str) -> None:
    sent, count = MISSING[preset]
    with pytest.raises(Unmappable) as error:
        attributes(preset, sent)
    assert error.value.status == 422
    assert len(error.value.faults) == count, error.value.faults


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"7", b'"x"', b"{", b"\xff", b"[" * 100_000, b'{"a":' * 50_000,
     b'{"id":' + b"9" * 10_000 + b"}", b'{"type":"\\ud800","id":"1"}', b'{"created":1e400}'],
)  # fmt: skip
def test_a_body_that_is_no_event_is_never_more_than_unmappable(preset: str, body: bytes) -> None:
    """The signature may be good: whoever has the secret may send rubbish."""
    made = {"github": publishers.github, "gitlab": publishers.gitlab, "shopify": publishers.shopify}
    sent = made[preset](body) if preset in made else publishers.standard(body, NOW)
    with contextlib.suppress(Unmappable):
        attributes(preset, sent)


def test_the_page_says_of_each_preset_what_is_signed() -> None:
    """The table of the guide is what the code does."""
    from pages import CHECKOUT

    guide = (CHECKOUT / "docs" / "guides" / "intakes.md").read_text()
    table = guide.partition("## Presets")[2].partition("## Your own mapping")[0]
    for name, preset in PRESETS.items():
        (row,) = [line for line in table.splitlines() if line.startswith(f"| `{name}` |")]
        assert preset.signed in row, name
        for header in preset.headers:
            assert f"`{header}`" in row.lower(), (name, header)


SIGNED = {
    "github": lambda body: publishers.github(body, "issues"),
    "gitlab": publishers.gitlab,
    "shopify": publishers.shopify,
    "stripe": lambda body: publishers.stripe(body, NOW),
    "slack": lambda body: publishers.slack(body, NOW).but("Content-Type", publishers.JSON),
    "standard_webhooks": lambda body: publishers.standard(body, NOW),
}
PAYLOADS = {
    "github": (b'"action":"opened","issue":{"number":7,%b},"repository":{"url":"https://x/r"}', "com.github.issue.opened"),
    "gitlab": (b'"object_kind":"push","project":{"web_url":"https://x/p",%b}', "com.gitlab.push"),
    "shopify": (b'"id":1,%b', "com.shopify.orders.create"),
    "stripe": (b'"id":"evt_1","type":"a.b","data":{"object":{"id":"o",%b}}', "com.stripe.a.b"),
    "slack": (b'"event_id":"E","team_id":"T","event":{"type":"message",%b}', "com.slack.message"),
    "standard_webhooks": (b'"type":"a.b","data":{%b}', "a.b"),
}  # fmt: skip


@pytest.mark.parametrize("other", VALUES)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_payload_is_mapped_whatever_stands_beside_what_is_asked_for(
    preset: str, other: bytes
) -> None:
    """Node writes a text that was cut in an emoji with an unpaired surrogate."""
    fields, type_ = PAYLOADS[preset]
    body = rb'{"\ud83d":1,' + fields % (b'"text":' + other) + b"}"
    sent = SIGNED[preset](body)
    assert attributes(preset, sent)["type"] == type_
    if preset in {"github", "slack"}:  # as a form, too
        form = SignedRequest(
            (("Content-Type", FORM), *sent.but("content-type", None).headers),
            urlencode({"payload": body}).encode(),
        )
        assert attributes(preset, form)["type"] == type_


@pytest.mark.parametrize(
    ("preset", "body", "at"),
    [
        ("github", rb'{"action":"x","issue":{"number":"\ud83d"}}', "subject"),
        ("gitlab", rb'{"object_kind":"push","checkout_sha":"\ud83d"}', "subject"),
        ("stripe", rb'{"id":"\ud83d","type":"a"}', "id"),
        ("slack", rb'{"event_id":"E","event":{"type":"cut \ud83d"}}', "type"),
        ("shopify", rb'{"id":"\ud83d"}', "subject"),
    ],
)
def test_what_is_asked_for_and_no_text_is_named(preset: str, body: bytes, at: str) -> None:
    with pytest.raises(Unmappable) as error:
        attributes(preset, SIGNED[preset](body))
    assert ("forbidden-character", at) in [(f.code, f.at) for f in error.value.faults]
