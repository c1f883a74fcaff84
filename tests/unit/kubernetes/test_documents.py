"""An object becomes the document of a subscription: its own names are resolved, and its rights checked."""

import base64

import pytest

from app.config.check.candidate import read_document
from app.config.model.operator import OperatorNamespace
from app.kubernetes.admin import is_stored
from app.kubernetes.document import demand_bounded, document_of, secrets_of, service_of
from app.kubernetes.names import SECRET_LABEL
from app.kubernetes.outcome import NotAccepted
from app.kubernetes.rights import NamespaceRights
from app.kubernetes.secret_texts import SecretTexts
from app.model.secret import HIDDEN

SIGNING = "whsec_Zmlyc3Qtc2VjcmV0LW9mLXRoZS10ZXN0cw=="
RIGHTS = OperatorNamespace(
    name="team",
    topics=("orders*", "main/paid"),
    reply_routes=("answers",),
    hosts=("*.example.com",),
)


def an_object(sink=None, **spec):
    source = {"broker": "main", "topics": ["orders"]}
    return {
        "metadata": {"namespace": "team", "name": "billing"},
        "spec": {"source": source, "sink": sink or {"url": "https://a.example.com/"}, **spec},
    }


def a_secret(labels=None, **data):
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    return {"metadata": {"labels": labels or {SECRET_LABEL: "subscription"}}, "data": encoded}


def texts(**known):
    return SecretTexts(known)


def refused(step):
    with pytest.raises(NotAccepted) as found:
        step()
    return found.value.outcome


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ({"service": {"name": "b"}}, "http://b.team.svc:80/"),
        ({"service": {"name": "b", "port": 8080, "path": "/hook"}}, "http://b.team.svc:8080/hook"),
        ({"service": {"name": "b", "tls": True}}, "https://b.team.svc:443/"),
        ({"url": "https://a.example.com/x"}, "https://a.example.com/x"),
        ({"broker": "main", "topic": "copies"}, {"broker": "main", "topic": "copies"}),
        ({"pull": {}}, {"pull": {}}),
        ({"secretRef": {"name": "s", "key": "k"}}, {"url": "https://h/$${env:X}", "secret": True}),
    ],
)
def test_the_sink_of_an_object_is_that_of_the_file(sink, expected):
    document = document_of(an_object(sink), texts(s=a_secret(k="https://h/${env:X}")))
    assert (document["id"], document["sink"]) == ("team.billing", expected)


def test_each_reference_becomes_the_text_of_the_secret():
    reference = {"name": "s", "key": "k"}
    known = texts(s=a_secret(k=SIGNING + "\n"))
    item = an_object(
        signing={"secretRef": reference, "previousSecretRef": reference},
        auth={
            "kind": "oauth2",
            "client_id": "c",
            "token_endpoint": "https://t/",
            "secretRef": reference,
        },
        headers={"x-tenant": "eu", "x-key": {"secretRef": reference}},
        request={"preset": "pagerduty", "key": {"secretRef": reference}, "summary": "{type}"},
        onDelete="drain",
    )
    document = document_of(item, known)
    assert document["signing"] == {"secret": SIGNING, "previous_secret": SIGNING}
    assert document["auth"]["client_secret"] == SIGNING
    assert document["headers"] == {"x-tenant": "eu", "x-key": SIGNING}
    assert document["request"]["key"] == {"secret": SIGNING}
    assert "onDelete" not in document
    assert "secretRef" in item["spec"]["signing"], "the object itself stays as it is"
    assert secrets_of(item, 10_000) == {"s"}


@pytest.mark.parametrize("kind", ["bearer", "basic", "api_key"])
def test_every_kind_of_credentials_takes_a_reference(kind):
    user = {"username": "u"} if kind == "basic" else {}
    auth = {"kind": kind, "secretRef": {"name": "s", "key": "k"}, **user}
    found = read_document(document_of(an_object(auth=auth), texts(s=a_secret(k="hunter2"))))
    assert (found.faults, found.subscription.auth.kind) == ((), kind)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, "SecretMissing"),
        ({"s": a_secret(labels={"other": "label"}, k=SIGNING)}, "SecretNotLabelled"),
        ({"s": a_secret(other=SIGNING)}, "SecretMissing"),
        ({"s": {**a_secret(), "data": {"k": "/w=="}}}, "SecretMissing"),
    ],
)
def test_a_secret_that_cannot_be_used_is_named_and_not_shown(known, reason):
    item = an_object(signing={"secretRef": {"name": "s", "key": "k"}})
    outcome = refused(lambda: document_of(item, SecretTexts(known)))
    assert (outcome.reason, outcome.status) == (reason, "False")
    assert SIGNING not in outcome.message
    assert "s" in outcome.message


def demand(item):
    found = read_document(document_of(item, texts()))
    assert not found.faults
    NamespaceRights(RIGHTS).demand(found.subscription, own_service=bool(service_of(item)))


@pytest.mark.parametrize(
    "item",
    [
        an_object(),
        an_object({"service": {"name": "b"}}, reply="answers"),
        an_object({"broker": "main", "topic": "orders.copy"}),
        an_object(dead_letter={"broker": "main", "topic": "paid"}),
        an_object({"pull": {}}),
    ],
)
def test_what_a_namespace_may_name_is_accepted(item):
    demand(item)


@pytest.mark.parametrize(
    ("item", "named"),
    [
        (an_object(source={"broker": "main", "topics": ["orders", "secrets"]}), "topic secrets"),
        (an_object(source={"broker": "other", "topics": ["paid"]}), "topic paid of broker other"),
        (an_object({"broker": "main", "topic": "stock"}), "topic stock"),
        (an_object({"broker": "main", "topic": "{type}"}), "topic {type}"),
        (an_object(dead_letter={"broker": "main", "topic": "stock"}), "topic stock"),
        (an_object({"url": "https://example.org/"}), "host of the sink"),
        (an_object({"url": "https://a.example.com@evil.org/"}), "host of the sink"),
        (an_object({"url": "http://billing.other.svc/"}), "host of the sink"),
        (an_object(reply="orders"), "route orders"),
    ],
)
def test_what_a_namespace_may_not_name_is_refused(item, named):
    outcome = refused(lambda: demand(item))
    assert outcome.reason == "NotAllowed"
    assert named in outcome.message


def test_a_document_is_compared_with_what_the_admin_api_shows():
    wanted = document_of(an_object(timeout="3s"), texts())
    assert is_stored(wanted, wanted) is True
    assert is_stored({**wanted, "timeout": "4s"}, wanted) is False
    signed = {**wanted, "signing": {"secret": SIGNING}}
    assert is_stored({**wanted, "signing": {"secret": HIDDEN}}, signed) is None, "not known"
    slack = {**wanted, "request": {"preset": "slack", "text": "{type}"}}
    shown = {**slack, "sink": {"url": HIDDEN, "secret": True}}
    assert is_stored(shown, slack) is None


def test_a_spec_that_is_nested_too_deeply_is_refused_and_ends_nothing():
    """A tenant can write one, and other tenants share the operator (issue 46)."""
    deep: object = {"secretRef": {"name": "inner", "key": "a"}}
    for _ in range(5000):
        deep = {"a": deep}
    item = an_object(request={"body": deep})
    assert secrets_of(item, 1_000_000) == frozenset(), "it is refused anyway"
    with pytest.raises(NotAccepted, match="nested more than 64 levels"):
        demand_bounded(item["spec"], 1_000_000)


@pytest.mark.parametrize(
    "spec", [{"headers": {"x-key": HIDDEN}}, {"request": {"body": {"key": {"secret": HIDDEN}}}}]
)
def test_the_placeholder_of_a_secret_keeps_no_withdrawn_secret(spec):
    """The admin API would keep the stored secret in its place (issue 46)."""
    outcome = refused(lambda: document_of(an_object(**spec), texts()))
    assert (outcome.reason, "secretRef" in outcome.message) == ("InvalidSpec", True)


def test_every_secret_that_is_missing_is_named():
    """Else each cure would be followed by the next fault (issue 46)."""
    named = {"name": "hook", "key": "a"}
    headers = {"x-key": {"secretRef": {"name": "other", "key": "b"}}}
    item = an_object(signing={"secretRef": named, "previousSecretRef": named}, headers=headers)
    outcome = refused(lambda: document_of(item, texts()))
    assert outcome.reason == "SecretMissing"
    assert [outcome.message.count(f"The Secret {each} ") for each in ("hook", "other")] == [1, 1]


@pytest.mark.parametrize("spec", [{"auth": {"kind": "newer"}}, {"headers": ["x"]}])
def test_what_a_definition_of_another_release_allows_is_a_fault(spec):
    """It would else end each look at the object, which would show no condition (issue 46)."""
    found = read_document(document_of(an_object(**spec), texts()))
    assert [each.at.split("/")[1] for each in found.faults] == [*spec]


def test_a_spec_that_is_refused_for_its_size_is_not_searched():
    """The search of a megabyte takes a second, in which the Lease is not renewed (issue 46)."""
    item = an_object(signing={"secretRef": {"name": "hook", "key": "a"}}, headers={"x-a": "b" * 99})
    assert secrets_of(item, 1000) == {"hook"}
    assert secrets_of(item, 100) == frozenset()
