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
        (f"{{name: a, keys: [{KEY}]}}, {{name: b}}", "producers[1]: The producer has no credential."),
        ("{name: a, keys: [short]}", "producers[0].keys[0]: The key has fewer than 20 characters, so it can be guessed."),
        ("{name: a, keys: ['a key with white space']}", "producers[0].keys[0]: The key has characters that no header can carry."),
        ("{name: a, keys: ['ein-schlüssel-mit-umlaut']}", "producers[0].keys[0]: The key has characters that no header can carry."),
        (f"{{name: a, keys: [{KEY}]}}, {{name: b, keys: [{OTHER}, {KEY}]}}", "producers[1].keys[1]: The credential also belongs to producer a."),
        (f"{{name: a, keys: [{KEY}, {KEY}]}}", "producers[0].keys[1]: The credential also belongs to producer a."),
        (f"{{name: a, keys: [{KEY}]}}, {{name: a, keys: [{OTHER}]}}", "producers[1].name: The name 'a' is already used by producers[0]."),
        (f"{{name: a, keys: [{KEY}], header: content-type}}", "producers[0].header: The header content-type already has another meaning."),
        (f"{{name: a, keys: [{KEY}], header: ce-key}}", "producers[0].header: The header ce-key already has another meaning."),
        (f"{{name: a, header: x-key, {JWT % 'a'}}}", "producers[0].header: The setting header has no effect on a producer without keys."),
        (f"{{name: a, keys: [{KEY}], may: {{routes: [order]}}}}", "producers[0].may.routes[0]: The pattern 'order' matches the name of no route."),
        (f"{{name: a, keys: [{KEY}], may: {{routes: ['x*']}}}}", "producers[0].may.routes[0]: The pattern 'x*' matches the name of no route."),
        (f"{{name: a, keys: [{KEY}], quota: {{events: 10/s, burst: 999}}}}", "producers[0].quota.burst: The burst is below limits.max_batch (1000), so a batch of that size is always refused."),
        (f"{{name: a, {JWT % 'a'}}}, {{name: b, {JWT % 'a'}}}", "producers[1].jwt.match: Some tokens match the claims of this producer and of producer a."),
        (f"{{name: a, {JWT % 'a'}}}, {{name: b, {(JWT % 'b').replace('azp', 'sub')}}}", "producers[1].jwt.match: Some tokens match the claims of this producer and of producer a."),
        (f"{{name: a, {(JWT % 'a').replace('https', 'http')}}}", "producers[0].jwt.issuer: The URL is plain http, so an attacker on the network could replace the keys of the issuer."),
        ("{name: a, certificate: {san: 'spiffe://a/b'}}", "producers[0].certificate: The producer has a certificate, but the events listener demands none."),
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
        (f"{{name: a, {(JWT % 'a').replace('{azp: a}', '{}')}}}", "jwt.match: The value is empty"),
        (f"{{name: a, keys: [{KEY}], may: {{sources: []}}}}", "may.sources: The value is empty"),
        (f"{{name: a, keys: [{KEY}], may: {{sources: ['/a*/b']}}}}", "may.sources[0]: The pattern has a * before its end"),
        (f"{{name: a, keys: [{KEY}], quota: {{events: fast, burst: 1000}}}}", "quota.events: The value is not a rate"),
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
    said = "warning server.events.access: The setting access"
    avoids = "A producer that sends no credential avoids its rights and its quota"
    (warning,) = findings(lint_text, producer, "")
    assert warning.startswith(f"{said} is missing, which means open. {avoids}")
    (warning,) = findings(lint_text, producer, "server: {events: {access: open}}\n")
    assert warning.startswith(f"{said} has the value open. {avoids}")
    off = "server: {events: {access: producers, host: 0.0.0.0}}\n"
    assert findings(lint_text, producer, off) == [
        "warning server.events.tls: The events listener has no TLS, so keys and tokens of producers cross the network unencrypted."
    ]
    both = "server: {events: {access: producers, address_quota: {events: 1/s, burst: 1000}}}\n"
    (error,) = findings(lint_text, producer, both)
    assert error.startswith(
        "error server.events.address_quota: The quota has no effect, because only producers may send"
    )


def test_a_header_with_keys_is_not_stored_beside_events(lint_text: Lint) -> None:
    """What is forwarded is read by every subscriber."""
    server = "server: {events: {access: producers, forward_headers: [traceparent, x-key]}}\n"
    found = findings(lint_text, f"{{name: a, keys: [{KEY}], header: X-Key}}", server)
    carries = "The header carries keys of producers, which must not be stored with events."
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
    assert told(None) == [f"{at}The file cannot be read: No such file or directory."]
    assert told("[]") == [f"{at}The file is not a JWK Set."]
    assert told(json.dumps({"keys": [secret.as_dict()]})) == [
        f"{at}The file has no key for signatures."
    ]
