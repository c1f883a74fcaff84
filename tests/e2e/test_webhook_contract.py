"""The whole service against webhooks that demand something: consent, a rate, a credential, a signature."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import trustme

from app.delivery.verifying import verify
from app.interfaces.clock import SystemClock
from app.model.signing_key import read_key
from configuration import subscription
from service import Service
from strict_receiver import StrictReceiver
from waiting import until
from webhook_target import Received, WebhookTarget, status

ORIGIN = "bridge.example.com"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLdMw"
OTHER = "whsec_b29vb29vb29vb29vb29vb29vb29vb29vb29vb29vb28="

Serve = Callable[..., Any]


@pytest.fixture
async def serve(started: Callable[..., Any]) -> Serve:
    """Starts a service with one subscription to a target; further settings as JSON is YAML."""

    async def begin(
        sink: str, webhooks: dict[str, Any] | None = None, within: str = "30s", **settings: Any
    ) -> Service:
        subscribed = subscription(
            "s", sink, **{"handshake": "ask", "retry": {"schedule": ["50ms"] * 5}} | settings
        )
        allowed = ["127.0.0.0/8", "hook.test"]
        return await started(
            {
                "subscriptions": [subscribed],
                "webhooks": {"allow_private": allowed, "origin": ORIGIN} | (webhooks or {}),
                "timeouts": {"drain": "2s", "webhook_handshake": within},
            }
        )

    return begin


@pytest.fixture
async def receivers() -> AsyncIterator[Callable[..., Any]]:
    made = []

    async def make(**settings: Any) -> StrictReceiver:
        receiver = StrictReceiver(**settings)
        made.append(receiver)
        await receiver.target.start()
        return receiver

    yield make
    for receiver in made:
        await receiver.target.stop()


async def send(service: Service, count: int = 1, data: bool = True) -> None:
    for number in range(count):
        await service.send(str(number), '{"a":1}' if data else None)


def status_of(service: Service) -> Any:
    return service.supervisor.status()[0]


async def test_consent_is_asked_for_once_and_the_origin_goes_onto_each_delivery(serve, receivers):
    """W2; OPTIONS to the exact target, before the first event."""
    receiver = await receivers()
    service = await serve(receiver.target.url)
    await send(service, 5)
    await until(lambda: len(receiver.target.received) == 5)
    assert len(receiver.target.asked) == 1
    assert receiver.target.asked[0].path == "/hook"
    assert receiver.breaches == []


async def test_without_consent_ask_goes_on_without_the_origin(serve, receivers):
    """200 with headers of CORS is no consent; the specification lets the sender choose."""
    receiver = await receivers(consents=False)
    service = await serve(receiver.target.url)
    receiver.target.answer = lambda _: status(204)
    await send(service, 3)
    await until(lambda: len(receiver.target.received) == 3)
    assert len(receiver.target.asked) == 1
    assert not any(request.has("webhook-request-origin") for request in receiver.target.received)


@pytest.mark.parametrize(
    "answer",
    [
        status(200, "Allow: POST"),
        status(405),
        status(200, f"WebHook-Allowed-Origin: {ORIGIN}.attacker.example"),
        status(302, "Location: /elsewhere"),
        None,
    ],
    ids=["silent", "405", "prefix", "redirect", "reset"],
)
async def test_required_and_not_granted_waits_and_says_so(serve, receivers, answer):
    """Nothing is sent, nothing is lost, no step of the schedule is taken, and status has the cause."""
    receiver = await receivers()
    receiver.target.consent = lambda _: answer
    service = await serve(receiver.target.url, handshake="require")
    await send(service, 3)
    await until(lambda: "did not consent" in status_of(service).cause)
    assert receiver.target.received == []
    assert status_of(service).state == "paused"
    assert status_of(service).held in range(1, 4)  # what is not held yet waits in the log
    assert await service.letters() == {}


async def test_a_handshake_that_hangs_is_given_up_in_time(serve, receivers):
    """timeouts.webhook_handshake."""
    receiver = await receivers()

    async def never(_: Received) -> bytes | None:
        await asyncio.Event().wait()
        return None

    receiver.target.consent = never
    receiver.target.answer = lambda _: status(204)
    service = await serve(receiver.target.url, within="500ms")
    await send(service)
    await until(lambda: len(receiver.target.received) == 1)


async def test_consent_may_come_later_by_the_callback(serve, receivers):
    """By GET or POST, to an address that cannot be guessed and serves once. What waits is sent at once."""
    receiver = await receivers()
    receiver.target.consent = lambda _: status(200, "Allow: POST")
    service = await serve(
        receiver.target.url, {"callback": "http://127.0.0.1:1/"}, handshake="require"
    )
    await send(service, 2)
    await until(lambda: "did not consent" in status_of(service).cause)
    asked = receiver.target.asked[0].header("webhook-request-callback")
    assert asked.startswith("http://127.0.0.1:1/handshake/")
    key = asked.rpartition("/")[2]
    assert len(key) > 40
    async with httpx.AsyncClient(
        trust_env=False, base_url=service.events_url, timeout=120
    ) as client:
        assert (await client.get("/handshake/guess")).status_code == 404
        assert (await client.put(f"/handshake/{key}")).status_code == 404
        granted = await client.post(f"/handshake/{key}", headers={"webhook-allowed-rate": "6000"})
        assert granted.status_code == 200
        assert (await client.get(f"/handshake/{key}")).status_code == 404
    await until(lambda: len(receiver.target.received) == 2, within=50)  # asked again after 60 s
    assert receiver.breaches == []


async def test_the_rate_that_was_allowed_is_kept(serve, receivers):
    """WebHook-Allowed-Rate; the rest waits, those too that waited for the answer of the handshake."""
    receiver = await receivers(rate=5)
    answer, all_wait = receiver.target.consent, asyncio.Event()

    async def when_all_wait(request: Received) -> bytes | None:
        await all_wait.wait()
        return answer(request)

    receiver.target.consent = when_all_wait
    service = await serve(receiver.target.url, request_rate=600, ordering="none")
    await send(service, 8)
    await until(lambda: status_of(service).in_flight == 8)
    all_wait.set()
    await until(lambda: len(receiver.target.received) == 1)
    assert receiver.target.asked[0].header("webhook-request-rate") == "600"
    await until(lambda: status_of(service).cause == "the rate that the webhook allows")
    assert receiver.breaches == []
    assert len(receiver.target.received) == 1
    # The first one's answer may still be on its way; what is not held yet waits in the log.
    await until(lambda: status_of(service).held in range(1, 8))
    assert await service.letters() == {}


async def test_a_higher_rate_is_used(serve, receivers):
    receiver = await receivers(rate=1_200)
    service = await serve(receiver.target.url, ordering="none")
    await send(service, 40)
    await until(lambda: len(receiver.target.received) == 40)
    times = [request.at for request in receiver.target.received]
    assert times[-1] - times[0] >= 0.9  # 20 at once, then one each 51 ms
    assert receiver.breaches == []


async def test_strict_webhook_sends_what_has_no_data_as_a_document(serve, receivers, tmp_path):
    """W1: https, POST, never headers only."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    receiver = StrictReceiver()
    await receiver.target.start(context)
    service = await serve(
        f"https://localhost:{receiver.target.port}/hook",
        {"allow_private": ["localhost"]},
        strict_webhook=True,
        tls={"ca": str(tmp_path / "ca.pem")},
    )
    await send(service, data=False)
    await until(lambda: len(receiver.target.received) == 1)
    await send(service, data=True)
    await until(lambda: len(receiver.target.received) == 2)
    await receiver.target.stop()
    without, with_data = receiver.target.received
    assert without.header("content-type").startswith("application/cloudevents+json")
    assert with_data.header("ce-id") == "0"
    assert receiver.breaches == []


async def test_requests_are_signed_and_the_signature_is_new_with_each_attempt(serve, receivers):
    """webhook-id stays, so that receivers can tell a repetition; two keys while they change."""
    receiver = await receivers()
    answers = [status(503), status(204)]
    receiver.also = lambda _: answers.pop(0) if answers else None
    service = await serve(receiver.target.url, signing={"secret": SECRET, "previous_secret": OTHER})
    await send(service)
    await until(lambda: len(receiver.target.received) == 2)
    first, second = receiver.target.received
    assert first.header("content-type").startswith("application/cloudevents+json")
    assert first.header("webhook-id") == second.header("webhook-id")
    now = SystemClock().now()
    for request in (first, second):
        headers = [(name, value.decode()) for name, value in request.headers]
        for key in (SECRET, OTHER):
            assert verify(headers, request.body, [read_key(key)], now).valid


async def test_a_secret_in_a_file_is_taken_up_when_it_changes(serve, receivers, tmp_path):
    """Without a restart; and a file that holds no secret changes nothing."""
    file = tmp_path / "token"
    file.write_text("one\n")
    receiver = await receivers(credential="Bearer one")
    service = await serve(
        receiver.target.url, auth={"kind": "bearer", "token": f"${{file:{file}}}"}
    )
    await send(service)
    await until(lambda: len(receiver.target.received) == 1)
    file.write_text("twice\n")
    receiver.credential = "Bearer twice"

    def taken_up() -> bool:
        return receiver.target.received[-1].header("authorization") == "Bearer twice"

    for _ in range(200):
        await send(service)
        if taken_up():
            break
        await asyncio.sleep(0.1)
    assert taken_up()


async def test_a_token_that_was_revoked_is_replaced_at_once(serve, receivers):
    """A 401 drops the cached token, once; the event is not held up, and none is buried."""
    issuer = WebhookTarget()
    await issuer.start()
    tokens = iter(["one", "two", "three"])
    issuer.answer = lambda _: status(
        200, body=json.dumps({"access_token": next(tokens), "expires_in": 600}).encode()
    )
    receiver = await receivers(credential="Bearer one")
    service = await serve(
        receiver.target.url,
        auth={
            "kind": "oauth2",
            "token_endpoint": issuer.url,
            "client_id": "sky",
            "client_secret": "canary-5",
            "scope": "hooks",
            "audience": "billing",
        },
    )
    await send(service, 3)
    await until(lambda: len(receiver.target.received) == 3)
    assert len(issuer.received) == 1
    assert issuer.received[0].body == (
        b"grant_type=client_credentials&scope=hooks&audience=billing"
    )
    receiver.credential = "Bearer two"
    await send(service)
    await until(lambda: len(receiver.target.received) == 5)
    assert receiver.target.received[-1].header("authorization") == "Bearer two"
    assert len(issuer.received) == 2
    assert await service.letters() == {}
    await issuer.stop()


@pytest.mark.parametrize("refusal", [status(401, body=b'{"error":"invalid_client"}'), None])
async def test_a_token_endpoint_at_fault_pauses_and_no_event_pays(
    serve, receivers, monkeypatch, refusal
):
    """Rule 6: refused, or hung up on, more often than the schedule has steps."""
    monkeypatch.setattr("app.sinks.webhook.TOKEN_PAUSE", 0.1)
    issuer, receiver = WebhookTarget(lambda _: refusal), await receivers()
    receiver.target.answer = lambda _: status(204)
    await issuer.start()
    auth = {"kind": "oauth2", "token_endpoint": issuer.url, "client_id": "a", "client_secret": "b"}
    service = await serve(receiver.target.url, auth=auth, handshake="off")
    await send(service)
    await until(lambda: "no token from" in status_of(service).cause)
    assert status_of(service).state == "paused"
    await until(lambda: len(issuer.received) > 8)
    issuer.answer = lambda _: status(200, body=b'{"access_token":"one"}')
    await until(lambda: len(receiver.target.received) == 1)
    assert receiver.target.received[0].header("authorization") == "Bearer one"
    assert await service.letters() == {}
    await issuer.stop()


async def test_mutual_tls_shows_our_certificate(serve, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    ours = authority.issue_cert("skybridge.example")
    ours.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    ours.private_key_pem.write_to_path(tmp_path / "key.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    target = WebhookTarget()
    await target.start(context)
    files = {"ca": "ca.pem", "cert": "cert.pem", "key": "key.pem"}
    service = await serve(
        f"https://localhost:{target.port}/hook",
        {"allow_private": ["localhost"]},
        tls={name: str(tmp_path / file) for name, file in files.items()},
    )
    await send(service)
    await until(lambda: len(target.received) == 1)
    await target.stop()


async def test_a_proxy_is_used_where_one_is_configured(serve, receivers):
    """The whole URL goes to it, and its address is its own affair; the environment has no say."""
    proxy = await receivers()
    proxy.target.answer = lambda _: status(204)
    service = await serve("http://hook.test/x", {"proxy": f"http://127.0.0.1:{proxy.target.port}"})
    await send(service)
    await until(lambda: len(proxy.target.received) == 1)
    assert proxy.target.received[0].path == "http://hook.test/x"


async def test_no_proxy_of_the_environment_is_used(serve, receivers, monkeypatch):
    """Reliability 5.4."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    receiver = await receivers()
    service = await serve(receiver.target.url)
    await send(service)
    await until(lambda: len(receiver.target.received) == 1)


async def test_an_access_token_goes_into_the_url_only_if_asked(serve, receivers):
    """Spec 5.2: then nobody is to store the request, and no log of ours has the URL."""
    receiver = await receivers()
    service = await serve(
        receiver.target.url + "?a=b",
        auth={"kind": "bearer", "token": "canary 6&", "sent_in": "query"},
    )
    await send(service)
    await until(lambda: len(receiver.target.received) == 1)
    (request,) = receiver.target.received
    assert request.path == "/hook?a=b&access_token=canary%206%26"
    assert request.header("cache-control") == "no-store"
    assert not request.has("authorization")
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        shown = (await client.get(f"{service.admin_url}/status")).text
    assert "canary" not in shown
