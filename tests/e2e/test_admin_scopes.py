"""Every operation of the admin listener over a socket, with a token of each scope; and what the audit then holds."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from typer.testing import CliRunner

from app.api.access.operations import RULES
from app.api.openapi.document import operations
from app.cli.commands import app
from app.model.scopes import SCOPES
from configuration import configuration, subscription
from pages import CHECKOUT
from sending import STRUCTURED
from service_process import ServiceProcess, serving
from waiting import wait_until

EVERY = "the-token-with-every-scope"
SECRET = "ana@shop.example"  # in the data of every event
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"mail": SECRET}}
YAML = {"content-type": "application/yaml"}
PROPOSED = "version: 1\nbrokers: {log: {kind: embedded, path: '${env:HOME}/log'}}\n"
S, D, T = "/v1/subscriptions", "/subscriptions", "/v1/topics/log/events"


def token_of(scope: str) -> str:
    return f"token-of-the-scope-{scope}"


class Made(NamedTuple):
    """``answers`` by operation; what later steps need of earlier ones."""

    answers: dict[str, httpx.Response]

    def __getitem__(self, operation: str) -> Any:
        return self.answers[operation].json()


class Step(NamedTuple):
    """A request that succeeds with the right scope. ``path`` may need what was made before."""

    operation: str
    method: str
    path: str | Callable[[Made], str]
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012 - nobody writes into it
    status: int = 200


def a_document(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "source": {"broker": "log", "topics": ["events"]},
        "start": "earliest",
        "handshake": "off",
        "sink": "http://127.0.0.1:9/hook",
    }


DRAFT = {
    "protocol": "HTTP",
    "sink": "http://127.0.0.1:9/hook",
    "config": {"broker": "log", "topics": ["events"], "handshake": "off"},
}
NEVER = {"tokens": ["no-such-lock"]}
MATCH = {"if-match": "*"}
STEPS = (
    Step("health", "GET", "/healthz"),
    Step("readiness", "GET", "/readyz"),
    Step("status", "GET", "/status"),
    Step("alerts", "GET", "/v1/alerts"),
    Step("test_alert", "POST", "/v1/alerts/none:test", status=404),
    Step("metrics", "GET", "/metrics"),
    Step("configuration", "GET", "/v1/config"),
    Step("check_configuration", "POST", "/v1/config:check", PROPOSED, YAML),
    Step("plan_configuration", "POST", "/v1/config:plan", PROPOSED, YAML),
    Step("reload_configuration", "POST", "/v1/config:reload"),
    Step("produce", "POST", f"{T}/records", EVENT, STRUCTURED, 201),
    Step("topics", "GET", "/v1/topics"),
    Step("topic", "GET", T),
    Step("offsets", "GET", f"{T}/offsets"),
    Step("peek", "GET", f"{T}/records"),
    Step("tail", "GET", f"{T}/tail?from=earliest&follow=false"),
    Step("explain", "POST", "/v1/explain", EVENT, STRUCTURED),
    Step("subscriptions", "GET", S),
    Step("subscriptions_allow", "OPTIONS", S, status=204),
    Step("subscription", "GET", f"{S}/billing"),
    Step("subscription_allow", "OPTIONS", f"{S}/billing", status=204),
    Step("subscription_status", "GET", f"{S}/billing/status"),
    Step("create_subscription", "POST", S, a_document("made"), status=201),
    Step("replace_subscription", "PUT", f"{S}/made", a_document("made"), MATCH),
    Step("patch_subscription", "PATCH", f"{S}/made", {"timeout": "3s"},
         {**MATCH, "content-type": "application/merge-patch+json"}),
    Step("test_subscription", "POST", f"{S}/made:test"),
    Step("pause_subscription", "POST", f"{S}/made:pause", {"cause": "for a test"}),
    Step("resume_subscription", "POST", f"{S}/made:resume"),
    Step("retry_subscription", "POST", f"{S}/made:retry", {}),
    Step("replay_subscription", "POST", f"{S}/billing:replay", {"from": "earliest"}, status=202),
    Step("replays", "GET", f"{S}/billing/replays"),
    Step("subscription_history", "GET", f"{S}/billing/history"),
    Step("cancel_replay", "DELETE",
         lambda made: f"{S}/billing/replays/{made['replay_subscription']['replays'][0]['id']}",
         status=204),
    Step("cancel_replays", "DELETE", f"{S}/billing/replays", status=204),
    Step("delete_subscription", "DELETE", f"{S}/made"),
    Step("draft_create", "POST", D, DRAFT, status=201),
    Step("draft_query", "GET", D),
    Step("draft_allow", "OPTIONS", D, status=204),
    Step("draft_retrieve", "GET", lambda made: f"{D}/{made['draft_create']['id']}"),
    Step("draft_allow_one", "OPTIONS", lambda made: f"{D}/{made['draft_create']['id']}", status=204),
    Step("draft_update", "PUT", lambda made: f"{D}/{made['draft_create']['id']}", DRAFT),
    Step("draft_delete", "DELETE", lambda made: f"{D}/{made['draft_create']['id']}"),
    Step("subscription_events", "GET", f"{S}/pulled/events?start=earliest&follow=false"),
    Step("receive", "POST", f"{S}/pulled:receive", {"max_wait": 60}),
    Step("acknowledge", "POST", f"{S}/pulled:acknowledge", NEVER),
    Step("release", "POST", f"{S}/pulled:release", NEVER),
    Step("renew", "POST", f"{S}/pulled:renew", NEVER),
    Step("reject", "POST", f"{S}/pulled:reject", lambda made: {"tokens": [
        made["receive"]["events"][0]["broker_properties"]["lock_token"]]}),
    Step("dead_letters", "GET", "/v1/dead-letters?subscription=pulled"),
    Step("count_dead_letters", "GET", "/v1/dead-letters/count"),
    Step("dead_letter", "GET",
         lambda made: f"/v1/dead-letters/{made['dead_letters']['dead_letters'][0]['id']}"),
    Step("resend_dead_letter", "POST",
         lambda made: f"/v1/dead-letters/{made['dead_letters']['dead_letters'][0]['id']}:resend"),
    Step("redrive_dead_letters", "POST", "/v1/dead-letters:redrive", {"subscription": "pulled"}),
    Step("discard_dead_letters", "POST", "/v1/dead-letters:discard", {"subscription": "pulled"}),
    Step("parked", "GET", "/v1/parked"),
    Step("parked_keys", "GET", "/v1/parked/keys"),
    Step("count_parked", "GET", "/v1/parked/count"),
    Step("attempts", "GET", "/v1/attempts"),
    Step("history", "GET", "/v1/history"),
    Step("history_live", "GET", "/v1/history/live?follow=false"),
    Step("session", "GET", "/v1/session"),
    Step("log_in", "POST", "/v1/session", {"token": token_of("read")}),
    Step("log_out", "DELETE", "/v1/session", status=204),
    Step("find_events", "GET", "/v1/events?id=1"),
    Step("audit", "GET", "/v1/audit"),
)  # fmt: skip
PAUSED = "aside"  # what the walk leaves alone
CHANGES = [step for step in STEPS if RULES[step.operation].audited == "change"]


def settings(folder) -> dict[str, Any]:
    billing = subscription("billing", "http://127.0.0.1:9/hook")
    found = configuration(folder, subscriptions=[billing])
    pulled = {**a_document("pulled"), "sink": {"pull": {}}}
    del pulled["handshake"]
    found["subscriptions"][0]["paused"] = True
    found["subscriptions"] += [pulled, {**pulled, "id": PAUSED}]
    tokens = [{"name": each, "token": token_of(each), "scopes": [each]} for each in SCOPES]
    tokens.append(
        {"name": "masked", "token": "token-that-reads-behind-the-mask", "scopes": ["read"]}
    )
    found["server"]["admin"] |= {"token": EVERY, "tokens": tokens, "mask": ["/mail"]}
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("scopes")
    with serving(settings(folder), folder) as process:
        yield process


@pytest.fixture(scope="module")
def client(service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.admin_url, timeout=120, trust_env=False) as client:
        yield client


def asked(client: httpx.Client, step: Step, made: Made, token: str | None) -> httpx.Response:
    client.cookies.clear()  # of the login: here tokens show themselves
    path = step.path(made) if callable(step.path) else step.path
    body = step.body(made) if callable(step.body) else step.body
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    if isinstance(body, str):
        return client.request(step.method, path, content=body, headers={**headers, **step.headers})
    return client.request(step.method, path, json=body, headers={**headers, **step.headers})


@pytest.fixture(scope="module")
def walked(client) -> Made:
    """All steps, each first with every token that must not."""
    made = Made({})
    for step in STEPS:
        scope = RULES[step.operation].scope
        for other in (each for each in SCOPES if scope not in (None, each)):
            refused = asked(client, step, made, token_of(other))
            said = (step.operation, other, refused.text)
            assert refused.status_code == 403, said
            assert refused.headers["content-type"] == "application/problem+json", said
            assert refused.json()["scope"] == scope, said
            assert f"{step.operation} needs the scope {scope}" in refused.json()["detail"], said
        stranger = asked(client, step, made, None)
        assert stranger.status_code == (step.status if scope is None else 401), step.operation
        answer = asked(client, step, made, None if scope is None else token_of(scope))
        assert answer.status_code == step.status, (step.operation, answer.text)
        made.answers[step.operation] = answer
    return made


def test_every_operation_takes_its_scope_and_no_other(walked):
    """Issue 19: exact 2xx and 403, for all operations with all scopes."""
    assert set(walked.answers) == set(RULES)


SHOWN = {"receive", "subscription_events"}  # to consumers, who get events in full
ASKED = {"explain"}  # the event is in the request, and comes back


def test_no_other_answer_shows_event_data_to_a_token_of_one_scope(walked):
    """Issue 19: ``read`` sees behind the mask only, and the others see none, whatever the operation."""
    shown = {name for name, answer in walked.answers.items() if SECRET in answer.text}
    assert shown - ASKED == SHOWN
    assert {RULES[name].scope for name in SHOWN} == {"pull"}


@pytest.mark.usefixtures("walked")
@pytest.mark.parametrize(
    "operation",
    ["metrics", "peek", "cancel_replays", "check_configuration", "acknowledge", "status"],
)
def test_the_plain_token_has_every_scope(client, operation):
    """``server.admin.token``, as before there were others; nothing is masked for it."""
    (step,) = [each for each in STEPS if each.operation == operation]
    answer = asked(client, step, Made({}), EVERY)
    assert answer.status_code == step.status
    assert (SECRET in answer.text) is (operation == "peek")


def test_the_description_names_the_scope_of_every_operation():
    document = json.loads((CHECKOUT / "openapi" / "openapi.json").read_text())
    named = {
        each["operationId"]: [scope for one in each.get("security", ()) for scope in one]
        for _, _, each in operations(document["paths"])
        if each["operationId"] in RULES
    }
    assert named == {
        name: [rule.scope] if rule.scope else named[name] for name, rule in RULES.items()
    }
    assert set(document["components"]["securitySchemes"]) == set(SCOPES)
    assert named["readiness"] == ["read"]
    assert named["health"] == []


def entries(client: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    found, path = [], "/v1/audit"
    headers = {"authorization": f"Bearer {token_of('read')}"}
    params: Any = {**query, "limit": 1000}
    while path is not None:
        page = client.get(path, params=params, headers=headers)
        assert page.status_code == 200, page.text
        found += page.json()["entries"]
        path, params = page.json()["next"], None
    return found


@pytest.mark.usefixtures("walked")
def test_every_change_is_in_the_audit_with_its_outcome(client):
    for step in CHANGES:
        scope = RULES[step.operation].scope
        found = entries(client, kind="change", operation=step.operation, who=scope)
        (entry,) = [each for each in found if each["target"] != PAUSED]
        assert (entry["who"], entry["address"]) == (scope, "127.0.0.1")
        assert entry["status"] == step.status, step.operation
    (redriven,) = entries(client, operation="redrive_dead_letters", kind="change")
    assert (redriven["target"], redriven["detail"]) == ("pulled", "dry run, 0 match")
    (made,) = entries(client, operation="create_subscription", kind="change")
    assert made["target"] == "made"
    (produced,) = entries(client, operation="produce", kind="change")
    assert produced["target"] == "log/events"


@pytest.mark.usefixtures("walked")
def test_refused_requests_are_kept_by_themselves(client):
    """They push no change out, whoever sends a thousand of them."""
    refusals = entries(client, kind="refusal", operation="pause_subscription")
    assert {(each["who"], each["status"]) for each in refusals} == {
        (scope, 403) for scope in SCOPES if scope != "operate"
    }
    assert entries(client, who="metrics", kind="change") == []


@pytest.mark.usefixtures("walked")
def test_looks_at_event_data_are_in_the_audit(client):
    """By whom data was shown; with a mask that shows some of it too."""
    looked = {each["operation"] for each in entries(client, kind="look")}
    assert looked == {name for name, rule in RULES.items() if rule.audited in {"look", "use"}}


def test_the_audit_holds_no_data_and_no_secret(client, walked):
    text = json.dumps(entries(client))
    assert SECRET in walked.answers["receive"].text
    assert SECRET not in text
    assert EVERY not in text
    assert "token-of-the-scope" not in text


@pytest.mark.usefixtures("walked")
def test_a_reader_without_data_sees_it_masked(client):
    """Attributes and positions as they are; the named value nowhere."""
    headers = {"authorization": "Bearer token-that-reads-behind-the-mask"}
    for path in (f"{T}/records?raw=true", f"{T}/tail?from=earliest&follow=false&raw=true"):
        text = client.get(path, headers=headers).text
        assert SECRET not in text
        assert '"mail":"***"' in text
        assert '"withheld":"masked"' in text


def told_by(*words: str, server: str, token: str) -> Any:
    environ = {"SKYBRIDGE_SERVER": server, "SKYBRIDGE_ADMIN_TOKEN": token}
    return CliRunner().invoke(app, words, env=environ)


@pytest.mark.usefixtures("walked")
def test_the_command_line_shows_the_audit_and_names_a_missing_scope(service):
    """A person reads who did it, or what to ask for."""
    shown = told_by(
        "audit", "--kind", "change", "--operation", "produce", "--json",
        server=service.admin_url, token=token_of("read"),
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    (entry,) = [json.loads(line) for line in shown.stdout.splitlines()]
    assert (entry["who"], entry["target"], entry["status"]) == ("operate", "log/events", 201)
    table = told_by("audit", "--kind", "change", server=service.admin_url, token=token_of("read"))
    assert "log/events" in table.stdout
    refused = told_by("audit", server=service.admin_url, token=token_of("metrics"))
    assert refused.exit_code == 1
    assert "audit needs the scope read. The token metrics has metrics" in refused.output
    assert "Use a token with the scope read" in " ".join(refused.output.split())


@pytest.mark.usefixtures("walked")
def test_a_plan_over_the_socket_resolves_nothing(walked):
    """The variable is there, and its value is not."""
    planned = walked["plan_configuration"]
    text = json.dumps(planned)
    assert planned["result"] == "needs-restart"
    assert "${env:HOME}/log" in text
    assert f"{os.environ['HOME']}/log" not in text
    assert walked["check_configuration"]["valid"] is True


def test_a_change_that_was_answered_stands_in_the_audit_after_a_kill(service, client):
    """Written before the answer goes out."""
    headers = {"authorization": f"Bearer {token_of('operate')}"}
    for n in range(3):
        verb = "resume" if n % 2 else "pause"
        before = len(entries(client, kind="change", target=PAUSED))
        assert client.post(f"{S}/{PAUSED}:{verb}", headers=headers).status_code == 200
        service.kill()
        service.start()
        found = entries(client, kind="change", target=PAUSED)
        assert len(found) == before + 1
        assert (found[0]["operation"], found[0]["status"]) == (f"{verb}_subscription", 200)


def test_a_reload_by_a_signal_is_in_the_audit(service, client):
    before = len(entries(client, who="signal"))
    os.kill(service.pid, signal.SIGHUP)
    wait_until(lambda: len(entries(client, who="signal")) > before, "entry of the reload", 120)
    entry = entries(client, who="signal")[0]
    assert (entry["operation"], entry["status"], entry["address"]) == (
        "reload_configuration", 200, "",
    )  # fmt: skip
    assert entry["detail"].startswith("unchanged, digest ")
