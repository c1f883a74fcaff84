"""What a configuration may get wrong about signatures, credentials and the handshake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.load.finding import Finding
from app.config.load.loader import Loaded

Lint = Callable[..., list[str]]

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLdMw"
BEFORE = (
    "routes: [{name: r, to: {broker: log, topic: t}, key: {mapper: attribute, attribute: id}}]\n"
)


def one(settings: str, *, sink: str = "https://example.org/", rest: str = "") -> str:
    source = "source: {broker: log, topics: [t]}"
    return f"{BEFORE}{rest}\nsubscriptions: [{{id: s, {source}, sink: '{sink}', {settings}}}]\n"


@pytest.mark.parametrize(
    "settings",
    [
        f"signing: {{secret: {KEY}}}",
        f"signing: {{secret: {KEY}, previous_secret: {KEY}}}, content_mode: structured",
        f"signing: {{secret: {KEY}}}, request: {{body: {{order: '{{id}}'}}}}",
        "auth: {kind: bearer, token: t}",
        "auth: {kind: basic, username: u, password: p}",
        "auth: {kind: api_key, secret: k}, handshake: 'off'",
        "auth: {kind: oauth2, token_endpoint: 'https://id.example/t', client_id: i, client_secret: s}",
        "strict_webhook: true, request_rate: 600",
    ],
)
def test_sound_settings_have_no_findings(lint_text: Lint, settings: str) -> None:
    assert lint_text(one(settings)) == []


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (
            one("strict_webhook: true", sink="http://127.0.0.1/", rest="webhooks: {allow_private: [127.0.0.0/8]}"),
            "error subscriptions[0].sink: The URL does not begin with https://, which strict_webhook requires",
        ),
        (
            one(f"signing: {{secret: {KEY}}}, content_mode: binary"),
            "warning subscriptions[0].content_mode: The content mode puts attributes into headers, but the signature covers only the body. A proxy could change the attributes",
        ),
        (
            one("handshake: require"),
            "warning subscriptions[0].handshake: The handshake asks targets to accept the origin 'skybridge'",
        ),
        (
            one("handshake: 'off', request_rate: 5"),
            "warning subscriptions[0].request_rate: The setting request_rate has no effect, because the handshake is off",
        ),
        (one("tls: {ca: /nowhere/ca.pem}"), "error subscriptions[0].tls.ca: The file does not exist on this machine"),
        (
            one("tls: {}", sink="http://127.0.0.1/", rest="webhooks: {allow_private: [127.0.0.0/8]}"),
            "warning subscriptions[0].tls: The section tls has no effect, because the URL begins with http://",
        ),
        (
            one("auth: {kind: oauth2, token_endpoint: 'https://10.0.0.1/t', client_id: i, client_secret: s}"),
            "error subscriptions[0].auth.token_endpoint: The URL has a private address that webhooks.allow_private does not list",
        ),
        (
            one("handshake: ask", rest="webhooks: {callback: 'http://bridge.example'}"),
            "error webhooks.callback: The callback URL does not begin with https://",
        ),
        (
            one("handshake: ask", rest="webhooks: {callback: 'https://bridge.example/x?y=1'}"),
            "warning webhooks.callback: The callback URL has a query or a fragment",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told(lint_text: Lint, text: str, begins: str) -> None:
    (found,) = lint_text(text)
    assert found.startswith(begins)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("signing: {secret: canary-1}", "signing.secret: The key does not begin with whsec_"),
        ("signing: {secret: whsec_canary}", "signing.secret: The text of the key after the prefix whsec_ is not base64"),
        ("signing: {secret: whsec_Y2FuYXJ5}", "signing.secret: The key has 6 bytes"),
        ('auth: {kind: bearer, token: "canary\\n"}', "auth.token: The value has a line end or another control character, which no HTTP header can have"),
        ("auth: {kind: api_key, header: ce-id, secret: canary}", "auth.header: The header ce-id already has another meaning"),
        ("auth: {kind: basic, username: 'a:b', password: canary}", "auth.username: The value has the wrong form"),
        ("tls: {cert: c.pem}", "tls: The settings cert and key work only together"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_work_is_refused_and_no_secret_repeated(
    refusal: Callable[..., list[object]], settings: str, told: str
) -> None:
    """S12: whoever reads the finding may not be the one who may read the secret."""
    found = [str(each) for each in refusal(one(settings), minimal=True)]
    assert any(told in each for each in found), found
    assert not any("canary" in each for each in found)


def test_a_topic_takes_none_of_it(refusal: Callable[..., list[object]]) -> None:
    text = BEFORE + (
        "subscriptions: [{id: s, source: {broker: log, topics: [t]}, sink: {broker: log, topic: u},"
        " handshake: require}]\n"
    )
    (found,) = refusal(text, minimal=True)
    assert "handshake is only for webhooks" in str(found)


def test_a_secret_of_a_file_knows_its_file_and_shows_nothing(
    load_text: Callable[..., Loaded], tmp_path: Path
) -> None:
    """It is read again when the file changes; neither repr nor JSON hold it (S12)."""
    (tmp_path / "token").write_text("canary-2\n")
    loaded = load_text(
        one(f"auth: {{kind: bearer, token: '${{file:{tmp_path}/token}}'}}"), minimal=True
    )
    auth = loaded.config.subscriptions[0].auth
    assert auth is not None
    assert (auth.token.get_secret_value(), auth.token.path) == ("canary-2", f"{tmp_path}/token")
    assert "canary-2" not in repr(loaded.config) + loaded.config.model_dump_json()


def test_signed_subscriptions_write_documents_unless_they_say_otherwise(
    load_text: Callable[..., Loaded],
) -> None:
    """The signature covers the body alone (design: choices)."""
    signed = load_text(one(f"signing: {{secret: {KEY}}}"), minimal=True)
    assert signed.config.subscriptions[0].content_mode == "structured"
    binary = load_text(one(f"signing: {{secret: {KEY}}}, content_mode: binary"), minimal=True)
    assert binary.config.subscriptions[0].content_mode == "binary"


@pytest.mark.parametrize("proxy", ["http://canary:99999", "https://", "http://[canary", "canary"])
def test_a_proxy_that_is_none_is_refused_before_it_is_asked(
    refusal: Callable[..., list[Finding]], proxy: str
) -> None:
    """It was found out by the first event, which became a dead letter, as did all that followed."""
    (found,) = refusal(f"webhooks: {{proxy: '{proxy}'}}\n", minimal=True)
    assert found.setting == "webhooks.proxy"
    assert "canary" not in str(found)


def test_an_attempt_without_any_time_is_refused(refusal: Callable[..., list[Finding]]) -> None:
    """Every attempt would time out."""
    hook = "{id: s, source: {broker: log, topics: [t]}, sink: 'https://x.example/', timeout: 0s}"
    (found,) = refusal(f"subscriptions: [{hook}]\n", minimal=True)
    assert found.setting == "subscriptions[0].timeout"
