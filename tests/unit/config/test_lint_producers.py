"""Producers: each is known by something, one credential is of one producer, and nothing is promised in vain."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, OctKey

Lint = Callable[..., list[str]]
KEY, OTHER = "a-key-of-the-producer", "another-key-of-somebody"
ROUTES = "routes: [{name: orders, to: {broker: log, topic: t}, key: {mapper: none}}]\n"
SERVER = "server: {events: {access: producers}}\n"
JWT = "jwt: {issuer: 'https://id.example', audience: sky, match: {azp: %s}}"


def findings(lint_text: Lint, producers: str, server: str = SERVER, rest: str = "") -> list[str]:
    text = f"{ROUTES}{server}{rest}producers: [{producers}]\n"
    return [each.partition(" Cure")[0] for each in lint_text(text)]


@pytest.mark.parametrize(
    "producer",
    [
        f"{{name: a, keys: [{KEY}, {OTHER}]}}",
        f"{{name: a, keys: [{KEY}], header: X-Api-Key, may: {{routes: [orders, 'o*']}}}}",
        f"{{name: a, keys: [{KEY}]}}, {{name: b, keys: [{KEY}], header: x-key}}",  # of two headers
        f"{{name: a, {JWT % 'a'}}}, {{name: b, {JWT % 'b'}}}",
        f"{{name: a, keys: [{KEY}], quota: {{events: 10/m, burst: 1000}}}}",
    ],
)
def test_what_is_right_is_not_warned_of(lint_text: Lint, producer: str) -> None:
    """Every kind of credential, alone and beside others."""
    assert findings(lint_text, producer) == []


@pytest.mark.parametrize(
    ("producers", "told"),
    [
        (f"{{name: a, keys: [{KEY}]}}, {{name: b}}", "producers[1]: has no credential"),
        ("{name: a, keys: [short]}", "producers[0].keys[0]: has fewer than 20 characters and can be guessed"),
        ("{name: a, keys: ['a key with white space']}", "producers[0].keys[0]: has characters that no header can carry"),
        ("{name: a, keys: ['ein-schlüssel-mit-umlaut']}", "producers[0].keys[0]: has characters that no header can carry"),
        (f"{{name: a, keys: [{KEY}]}}, {{name: b, keys: [{OTHER}, {KEY}]}}", "producers[1].keys[1]: is also of producer a"),
        (f"{{name: a, keys: [{KEY}, {KEY}]}}", "producers[0].keys[1]: is also of producer a"),
        (f"{{name: a, keys: [{KEY}]}}, {{name: a, keys: [{OTHER}]}}", "producers[1].name: 'a' is taken by producers[0]"),
        (f"{{name: a, keys: [{KEY}], header: content-type}}", "producers[0].header: has another meaning"),
        (f"{{name: a, keys: [{KEY}], header: ce-key}}", "producers[0].header: has another meaning"),
        (f"{{name: a, header: x-key, {JWT % 'a'}}}", "producers[0].header: is of no use without keys"),
        (f"{{name: a, keys: [{KEY}], may: {{routes: [order]}}}}", "producers[0].may.routes[0]: matches no route: 'order'"),
        (f"{{name: a, keys: [{KEY}], may: {{routes: ['x*']}}}}", "producers[0].may.routes[0]: matches no route: 'x*'"),
        (f"{{name: a, keys: [{KEY}], quota: {{events: 10/s, burst: 999}}}}", "producers[0].quota.burst: is below limits.max_batch, 1000: a batch of that size could never be accepted"),
        (f"{{name: a, {JWT % 'a'}}}, {{name: b, {JWT % 'a'}}}", "producers[1].jwt.match: a token can match this and producer a"),
        (f"{{name: a, {JWT % 'a'}}}, {{name: b, {(JWT % 'b').replace('azp', 'sub')}}}", "producers[1].jwt.match: a token can match this and producer a"),
        (f"{{name: a, {(JWT % 'a').replace('https', 'http')}}}", "producers[0].jwt.issuer: its keys would come over plain http, where anybody on the way can put in others"),
        ("{name: a, certificate: {san: 'spiffe://a/b'}}", "producers[0].certificate: no client is asked for a certificate"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(lint_text: Lint, producers: str, told: str) -> None:
    """Each with the setting; no key is repeated."""
    found = findings(lint_text, producers)
    assert found == [f"error {told}"]


@pytest.mark.parametrize(
    ("producer", "told"),
    [
        (f"{{name: a, keys: [{KEY}, {OTHER}, third-key-of-the-producer]}}", "keys"),
        (f"{{name: a, {(JWT % 'a').replace('{azp: a}', '{}')}}}", "jwt.match: is empty"),
        (f"{{name: a, keys: [{KEY}], may: {{sources: []}}}}", "may.sources: is empty"),
        (f"{{name: a, keys: [{KEY}], may: {{sources: ['/a*/b']}}}}", "may.sources[0]: has a * before its end"),
        (f"{{name: a, keys: [{KEY}], quota: {{events: fast, burst: 1000}}}}", "quota.events: is not a rate"),
    ],
)  # fmt: skip
def test_what_the_model_refuses_is_named_too(lint_text: Lint, producer: str, told: str) -> None:
    """With the setting, and never with the key."""
    with pytest.raises(Exception, match=r"producers\[0\]") as error:
        findings(lint_text, producer)
    assert told in str(error.value)
    assert KEY not in str(error.value)


def test_access_is_said_where_it_matters(lint_text: Lint) -> None:
    """Producers behind an open door bind nobody; off loopback keys want TLS; strangers have no quota here."""
    producer = f"{{name: a, keys: [{KEY}]}}"
    (warning,) = findings(lint_text, producer, "")
    assert warning.startswith("warning server.events.access: is open: a client that leaves")
    off = "server: {events: {access: producers, host: 0.0.0.0}}\n"
    assert findings(lint_text, producer, off) == [
        "warning server.events.tls: keys and tokens of producers cross the network in clear"
    ]
    both = "server: {events: {access: producers, address_quota: {events: 1/s, burst: 1000}}}\n"
    (error,) = findings(lint_text, producer, both)
    assert error.startswith("error server.events.address_quota: is for open access")


def test_a_header_with_keys_is_not_stored_beside_events(lint_text: Lint) -> None:
    """What is forwarded is read by every subscriber."""
    server = "server: {events: {access: producers, forward_headers: [traceparent, x-key]}}\n"
    found = findings(lint_text, f"{{name: a, keys: [{KEY}], header: X-Key}}", server)
    carries = "carries keys of producers, which must not be stored beside events"
    assert found == [f"error server.events.forward_headers[1]: {carries}"]


def test_a_file_of_keys_can_be_read_and_has_some(lint_text: Lint, tmp_path: Path) -> None:
    """Told by ``check``, not by the first sender."""
    file = tmp_path / "jwks.json"
    rule = (JWT % "a").replace("}}", f"}}, jwks: {file}}}")

    def told(content: str | None) -> list[str]:
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_text(content)
        return findings(lint_text, f"{{name: a, {rule}}}")

    good, secret = ECKey.generate_key("P-256"), OctKey.generate_key(256)
    assert told(json.dumps({"keys": [good.as_dict(private=False)]})) == []
    at = "error producers[0].jwt.jwks: "
    assert told(None) == [f"{at}cannot be read: No such file or directory"]
    assert told("[]") == [f"{at}is not a JWK Set"]
    assert told(json.dumps({"keys": [secret.as_dict()]})) == [f"{at}has no key for signatures"]
