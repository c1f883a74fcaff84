"""What requests to webhooks bear, and that every request that leaves keeps to the same guard."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from functools import partial

import pytest
import trustme

from app.bindings.http import HttpMessage
from app.features.tokens import GrantedTokens, ask_through
from app.model.secret import FileSecret
from app.model.webhook import OAuth2
from app.sinks.credentials import SecretCredentials, StaticHeaders, basic
from app.sinks.secrets import LiveSecret, WatchedFiles
from app.sinks.signatures import Signatures
from app.sinks.tls import TlsFiles
from app.tls import mark_of
from webhook_target import WebhookTarget, status

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLdMw"
OTHER = "whsec_b29vb29vb29vb29vb29vb29vb29vb29vb29vb29vb28="


@pytest.fixture
def posters(clients):
    """Loopback is reached by those alone that say so."""
    return partial(clients, allow_private=())


class Ticking:
    """A clock that is a second further each time it is looked at."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def granted_by(target, poster, within=30.0):
    settings = OAuth2(
        kind="oauth2", token_endpoint=target.url, client_id="sky", client_secret="canary-9"
    )
    return GrantedTokens(settings, within, ask=ask_through(poster))


async def test_calls_for_tokens_and_consent_keep_to_the_guard(target, posters):
    """Reliability 4.3: not one packet to an address that webhooks may not have."""
    poster = posters()
    with pytest.raises(OSError, match="blocked-address"):
        await granted_by(target, poster)()
    answer, headers = await poster.ask(target.url, HttpMessage.of((), b""), 30.0)
    assert (answer.fault, dict(headers)) == ("blocked-address", {})
    assert target.connections == 0


async def test_a_server_of_tokens_that_stalls_is_given_up(target, posters):
    """timeouts.webhook_token; in words without the secret (S12)."""

    async def never(_):
        await asyncio.Event().wait()

    target.answer = never
    begun = time.monotonic()
    with pytest.raises(OSError, match="timeout") as told:
        await granted_by(target, posters(allow_private=("127.0.0.0/8",)), within=0.3)()
    assert time.monotonic() - begun < 30
    assert "canary" not in str(told.value)


async def test_all_who_want_a_token_wait_for_one_answer_and_share_its_refusal(target, posters):
    """64 lanes ask at once; the server of tokens is asked once."""
    target.answer = lambda _: status(401, body=b'{"error":"invalid_client"}')
    source = granted_by(target, posters(allow_private=("127.0.0.0/8",)))
    told = await asyncio.gather(*(source() for _ in range(64)), return_exceptions=True)
    assert {str(each) for each in told} == {f"no token from {target.url}: 401 invalid_client"}
    assert len(target.received) == 1


async def test_a_redirect_of_a_question_is_not_followed(target, posters):
    """W3 holds for the handshake too."""
    target.consent = lambda _: status(307, "Location: /there")
    poster = posters(allow_private=("127.0.0.0/8",))
    answer, _ = await poster.ask(target.url, HttpMessage.of((), b""), 30.0)
    assert answer.status == 307
    assert len(target.asked) == 1


@pytest.mark.parametrize("url", ["https://10.0.0.1/", "http://plain.example/", "http://127.1/"])
async def test_a_proxy_opens_no_literal_address_and_no_plain_http(target, posters, url):
    """The proxy finds the addresses of names; all else is judged here."""
    poster = posters(proxy=LiveSecret(FileSecret(target.url.removesuffix("/hook"))))
    answer = await poster.post(url, HttpMessage.of((), b""), 30.0)
    assert answer.fault == "blocked-address"
    assert target.connections == 0


async def test_a_proxy_that_refuses_or_is_away_is_no_fault_of_the_webhook(target, posters):
    target.answer = lambda _: status(403)
    url = "http://hook.test/"
    names = {"allow_private": ("hook.test",)}
    away = posters(proxy=LiveSecret(FileSecret("http://user:canary@127.0.0.1:1")), **names)
    answer = await away.post(url, HttpMessage.of((), b""), 30.0)
    assert answer.fault == "proxy"
    assert "canary" not in answer.detail


@pytest.mark.parametrize("url", ["http://canary:99999", "https://canary@", "http://[canary"])
async def test_a_proxy_that_is_none_is_no_fault_of_the_events(target, posters, url):
    """Its file may be replaced by a bad one while events are delivered: they all became dead letters."""
    poster = posters(proxy=LiveSecret(FileSecret(url)), allow_private=("127.0.0.0/8",))
    answer = await poster.post(target.url, HttpMessage.of((), b""), 30.0)
    assert answer.fault == "proxy"
    assert "canary" not in answer.detail


async def test_a_secret_is_read_again_when_its_file_changes(tmp_path, caplog):
    """What cannot be read, is empty or could be no header changes nothing (${file:})."""
    file = tmp_path / "secret"
    file.write_text("one\n")
    secret = LiveSecret(FileSecret("one", str(file)), Ticking())
    for text, expected in (("two\r\n", "two"), ("", "two"), ("a\nb", "two"), ("three", "three")):
        file.write_text(text)
        assert secret() == expected
    file.unlink()
    assert secret() == "three"
    file.write_bytes(b"\xff\xfe")
    with caplog.at_level(logging.ERROR):
        assert secret() == "three"
    assert "its old text stays" in caplog.text


def test_a_secret_that_changed_after_it_was_read_is_read_again(tmp_path):
    """The configuration may be older than the sink that is made of it."""
    file = tmp_path / "token"
    file.write_text("one")
    mark = mark_of(file)
    file.write_text("two, and longer")
    assert LiveSecret(FileSecret("one", str(file), mark), Ticking())() == "two, and longer"


async def test_credentials_follow_their_secret(tmp_path):
    file = tmp_path / "password"
    file.write_text("a")
    shown = SecretCredentials(LiveSecret(FileSecret("a", str(file)), Ticking()), basic("\u00fc"))
    assert (await shown.current()).headers == (("Authorization", "Basic w7w6YQ=="),)
    file.write_text("bb")
    assert (await shown.current()).headers == (("Authorization", "Basic w7w6YmI="),)


async def test_a_key_that_is_none_leaves_the_old_one_in_force(tmp_path, caplog):
    """And the log says so, without the text (S12)."""
    file = tmp_path / "key"
    file.write_text(SECRET)
    signatures = Signatures([LiveSecret(FileSecret(SECRET, str(file)), Ticking())], lambda: 1.0)
    before = signatures._signers
    file.write_text("canary")
    assert signatures._current() == ("canary",)
    with caplog.at_level(logging.ERROR):
        signatures._set_keys(signatures._current())
    assert signatures._signers is before
    assert "old keys" in caplog.text
    assert "canary" not in caplog.text
    file.write_text(OTHER)
    signatures._set_keys(signatures._current())
    assert signatures._signers is not before


async def test_a_certificate_is_taken_up_when_it_changes(tmp_path, posters):
    """For connections made from then on; one that cannot be used is left aside."""
    old, new = trustme.CA(), trustme.CA()
    files = tmp_path / "cert.pem", tmp_path / "key.pem"

    def write(authority):
        ours = authority.issue_cert("skybridge.example")
        ours.cert_chain_pems[0].write_to_path(files[0])
        ours.private_key_pem.write_to_path(files[1])

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    new.issue_cert("localhost").configure_cert(context)
    new.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    new.cert_pem.write_to_path(tmp_path / "ca.pem")
    write(old)
    tls = TlsFiles(tmp_path / "ca.pem", *files)
    tls._watched = WatchedFiles(tls.files, Ticking())
    target = WebhookTarget()
    await target.start(context)
    poster = posters(allow_private=("localhost",), tls=tls)
    url = f"https://localhost:{target.port}/"
    answers = []
    for change in (lambda: None, lambda: files[0].write_text("nothing"), lambda: write(new)):
        change()
        answers.append((await poster.post(url, HttpMessage.of((), b""), 30.0)).status)
    await target.stop()
    assert answers == [None, None, 204]


def static(ticking, **headers):
    secrets = {name.replace("_", "-"): LiveSecret(it, ticking) for name, it in headers.items()}
    return StaticHeaders(secrets)


def test_static_headers_are_written_once_and_again_when_a_file_changes(tmp_path):
    """No work an attempt but a comparison."""
    file = tmp_path / "key"
    file.write_text("first-key-of-ours")
    of_file = FileSecret("first-key-of-ours", str(file), mark_of(file))
    ours = static(Ticking(), x_tenant=FileSecret("eu"), x_key=of_file)
    first = ours.current()
    assert first.headers == (("x-tenant", "eu"), ("x-key", "first-key-of-ours"))
    assert ours.current() is first
    file.write_text("second")
    assert ours.current().headers == (("x-tenant", "eu"), ("x-key", "second"))


def test_answers_are_masked_where_they_quote_what_may_be_a_secret(tmp_path):
    """A value of a file, however short, and any that is long; ``eu`` stands in half of all answers."""
    file = tmp_path / "key"
    file.write_text("k3y")
    ours = static(
        Ticking(),
        x_tenant=FileSecret("eu"),
        x_short=FileSecret("k3y", str(file), mark_of(file)),
        x_long=FileSecret("longer than that"),
    )
    said = ours.current().mask("neutral: k3y, longer than that, eu")
    assert said == "neutral: **********, **********, eu"
