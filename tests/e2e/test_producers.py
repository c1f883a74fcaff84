"""Who may send what, over a socket: exact status, exact problem, and nothing published that is refused."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from app.gateway.issuers import QUESTION_BURST
from oidc_issuer import OidcIssuer, oidc_issuer
from producer_listener import (
    HEADER_KEY,
    KEY,
    OTHER_KEY,
    SAN,
    Certificates,
    Pairs,
    ProducerListener,
    bearer,
    event_attributes,
    producer_house,
    producers,
    request_in_mode,
)
from raw_http import PeerClosed, RawAnswer, event, request

KINDS = ("key", "previous key", "header", "RS256", "ES256", "EdDSA", "certificate")
MODES = ("binary", "structured", "batch")
WAYS = ("/events", "/events/orders")
FORBIDDEN = "urn:skybridge:problem:not-allowed"
UNKNOWN = "urn:skybridge:problem:not-authenticated"


@pytest.fixture(scope="module")
def issuer() -> Iterator[OidcIssuer]:
    with oidc_issuer() as running:
        yield running


@pytest.fixture
def papers(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
async def house(issuer: OidcIssuer, papers: Certificates) -> AsyncIterator[ProducerListener]:
    async with producer_house(producers(issuer.url), tls=papers.tls) as house:
        house.tls = papers.client()
        yield house


class Sender(NamedTuple):
    """A producer as one of its kind proves itself."""

    name: str
    credential: Pairs
    tls: ssl.SSLContext | None = None


def sender(kind: str, issuer: OidcIssuer, papers: Certificates) -> Sender:
    match kind:
        case "key":
            return Sender("shop", bearer(KEY))
        case "previous key":
            return Sender("shop", bearer(OTHER_KEY))
        case "header":
            return Sender("till", [("x-api-key", HEADER_KEY)])
        case "certificate":
            return Sender("scanner", (), papers.client(SAN))
        case algorithm:
            return Sender("warehouse", bearer(issuer.token(algorithm, azp="warehouse")))


def problem(answer: RawAnswer) -> tuple[str, list[str]]:
    """Its type, and the codes of its faults."""
    assert answer.headers["content-type"] == "application/problem+json"
    document = json.loads(answer.body)
    assert document["status"] == answer.status
    return document["type"], [fault["code"] for fault in document["faults"]]


SENT = [
    (event_attributes(), []),
    (event_attributes(source="/shop/../warehouse/1"), []),  # compared as it is written
    (event_attributes(source="/shopping"), ["source-not-allowed"]),
    (event_attributes(kind="com.example.orders"), ["type-not-allowed"]),
    (event_attributes(source="/a", kind="b"), ["source-not-allowed", "type-not-allowed"]),
]


@pytest.mark.parametrize("target", WAYS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_producer_may_send_what_it_may_and_nothing_else(
    house: ProducerListener,
    issuer: OidcIssuer,
    papers: Certificates,
    kind: str,
    mode: str,
    target: str,
) -> None:
    """The matrix: what is allowed, a forbidden source, type, and both; in each mode, both ways in. A batch
    is refused whole, and each of its faults is named."""
    who = sender(kind, issuer, papers)
    for sent, codes in SENT:
        before = len(house.log.bodies)
        answer = await house.ask(request_in_mode(mode, sent, target, who.credential), who.tls)
        stored = len(house.log.bodies) - before
        if not codes:
            assert (answer.status, stored) == (202, 2 if mode == "batch" else 1)
            continue
        assert (answer.status, stored) == (403, 0)
        assert problem(answer) == (FORBIDDEN, codes)
        for fault in json.loads(answer.body)["faults"]:
            assert f"Producer {who.name} may not" in fault["detail"]
            assert fault.get("index") == (1 if mode == "batch" else None)
    assert {submitted.topic for submitted in house.log.submits} == {"orders"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_route_that_is_not_allowed_is_closed_by_its_name_too(
    house: ProducerListener, issuer: OidcIssuer, papers: Certificates, kind: str, mode: str
) -> None:
    """Whether it exists or not: nobody learns which routes there are."""
    who = sender(kind, issuer, papers)
    codes = ["route-not-allowed"] * (2 if mode == "batch" else 1)
    for target in ("/events/rest", "/events/no-such-route"):
        answer = await house.ask(
            request_in_mode(mode, event_attributes(), target, who.credential), who.tls
        )
        assert (answer.status, problem(answer)) == (403, (FORBIDDEN, codes))
    assert house.log.submits == []


async def test_a_route_that_the_rules_choose_must_be_allowed() -> None:
    """A producer that may send every type comes to routes that it may not use."""
    shop = {"name": "shop", "keys": [KEY], "may": {"routes": ["orders"]}}
    async with producer_house([shop]) as house:
        refused = await house.ask(
            request_in_mode("binary", event_attributes(kind="other"), "/events", bearer(KEY))
        )
        assert (refused.status, problem(refused)) == (403, (FORBIDDEN, ["route-not-allowed"]))
        assert house.log.submits == []


async def test_who_is_limited_does_not_pass_by_the_filters_of_a_route() -> None:
    """``/events/{route}`` asks no filter, but for a producer that may not send everything."""
    limited = {"name": "shop", "keys": [KEY], "may": {"sources": ["/shop/*"]}}
    free = {"name": "free", "keys": [OTHER_KEY]}
    other = event_attributes(kind="other")
    async with producer_house([limited, free]) as house:
        refused = await house.ask(request_in_mode("binary", other, "/events/orders", bearer(KEY)))
        assert (refused.status, problem(refused)[1]) == (422, ["no-route"])
        assert house.log.submits == []
        taken = await house.ask(
            request_in_mode("binary", other, "/events/orders", bearer(OTHER_KEY))
        )
        assert taken.status == 202


async def test_a_document_that_cannot_be_read_needs_every_right() -> None:
    """Its source and type are not known."""
    limited = {"name": "shop", "keys": [KEY], "may": {"sources": ["/shop/*"]}}
    headers = [("content-type", "application/cloudevents+x"), *bearer(KEY)]
    async with producer_house([limited]) as house:
        answer = await house.ask(request("/events", b"?", headers=headers))
        assert (answer.status, problem(answer)) == (403, (FORBIDDEN, ["source-not-allowed"]))


@pytest.mark.parametrize("kind", ["application/cloudevents+x", "application/cloudevents-batch+x"])
async def test_headers_beside_a_document_that_cannot_be_read_prove_nothing(kind: str) -> None:
    """Whoever can read the document may find another source in it."""
    limited = {"name": "shop", "keys": [KEY], "may": {"sources": ["/shop/*"]}}
    beside = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-type", "t"), ("ce-source", "/shop/1")]
    async with producer_house([limited]) as house:
        headers = [("content-type", kind), *beside, *bearer(KEY)]
        answer = await house.ask(request("/events", b"?", headers=headers))
        assert (answer.status, problem(answer)) == (403, (FORBIDDEN, ["source-not-allowed"]))
        assert house.log.stored == 0


# --- wrong credentials


def unsigned(issuer: OidcIssuer, algorithm: str) -> str:
    """The claims of a good token under ``none``, or under HS256 with the public key as the secret."""
    claims = issuer.token(azp="warehouse").split(".")[1]
    header = _url(json.dumps({"alg": algorithm, "typ": "JWT", "kid": "RS256-1"}).encode())
    if algorithm == "none":
        return f"{header}.{claims}."
    secret = json.dumps(issuer.ask("/jwks")["keys"][0]).encode()
    return f"{header}.{claims}.{_url(hmac.digest(secret, f'{header}.{claims}'.encode(), hashlib.sha256))}"


def _url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def swapped(issuer: OidcIssuer) -> str:
    """With the signature of another token."""
    good, other = issuer.token(azp="warehouse"), issuer.token(azp="other")
    return f"{good.rpartition('.')[0]}.{other.rpartition('.')[2]}"


WRONG: dict[str, Any] = {
    "none at all": ("no-credential", lambda _: []),
    "another scheme": ("no-credential", lambda _: [("authorization", f"Basic {KEY}")]),
    "unknown key": ("unknown-credential", lambda _: bearer("x" * 30)),
    "empty key": ("no-credential", lambda _: [("authorization", "Bearer ")]),
    "key of the other header": ("unknown-credential", lambda _: bearer(HEADER_KEY)),
    "key in the other header": ("unknown-credential", lambda _: [("x-api-key", KEY)]),
    "two keys": ("repeated-credential", lambda _: [*bearer("x" * 30), *bearer(KEY)]),
    "two tokens": ("repeated-credential", lambda i: bearer(i.token(azp="warehouse")) * 2),
    "expired": ("expired-token", lambda i: bearer(i.token(azp="warehouse", exp=1_000))),
    "early": ("early-token", lambda i: bearer(i.token(azp="warehouse", nbf=1 << 39))),
    "no end": ("malformed-token", lambda i: bearer(i.token(azp="warehouse", exp=None))),
    "endless": ("malformed-token", lambda i: bearer(i.token(azp="warehouse", exp=10**30))),
    "wrongly signed": ("bad-signature", lambda i: bearer(swapped(i))),
    "alg none": ("token-algorithm", lambda i: bearer(unsigned(i, "none"))),
    "alg HS256": ("token-algorithm", lambda i: bearer(unsigned(i, "HS256"))),
    "other issuer": ("unknown-issuer", lambda i: bearer(i.token(iss="https://evil.example"))),
    "other audience": ("unknown-credential", lambda i: bearer(i.token(azp="warehouse", aud="x"))),
    "other claims": ("unknown-credential", lambda i: bearer(i.token(azp="shop"))),
    "no claims": ("unknown-credential", lambda i: bearer(i.token())),
    "three parts": ("malformed-token", lambda _: bearer("a.b.c")),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", WRONG)
async def test_whoever_is_not_known_is_told_so(
    house: ProducerListener, issuer: OidcIssuer, case: str, mode: str
) -> None:
    """401 with a challenge, on both ways in; nothing of a credential comes back."""
    code, making = WRONG[case]
    credential = making(issuer)
    for target in WAYS:
        answer = await house.ask(request_in_mode(mode, event_attributes(), target, credential))
        assert (answer.status, problem(answer)) == (401, (UNKNOWN, [code]))
        assert answer.headers["www-authenticate"].startswith('Bearer realm="skybridge"')
        for _, value in credential:
            secret = value.removeprefix("Bearer ")
            assert not secret or secret.encode() not in answer.body
    assert house.log.submits == []


async def test_a_client_certificate_of_nobody_is_no_producer(
    house: ProducerListener, papers: Certificates
) -> None:
    """The right authority signed it, and it names no producer, or several."""
    stranger = await house.ask(
        request_in_mode("binary", event_attributes(), "/events"), papers.client("spiffe://x/y")
    )
    assert (stranger.status, problem(stranger)) == (401, (UNKNOWN, ["no-credential"]))
    listed = [{"name": n, "certificate": {"san": f"spiffe://x/{n}"}} for n in ("a", "b")]
    house.apply_producers(listed)
    both = papers.client("spiffe://x/a", "spiffe://x/b")
    several = await house.ask(request_in_mode("binary", event_attributes(), "/events"), both)
    assert (several.status, problem(several)) == (401, (UNKNOWN, ["ambiguous-credential"]))


@pytest.mark.parametrize("fault", ["of another authority", "expired"])
async def test_a_certificate_that_is_not_good_gets_no_connection(
    house: ProducerListener, papers: Certificates, fault: str
) -> None:
    """It is optional to show one, not to show a true one."""
    authority = trustme.CA() if fault == "of another authority" else None
    bad = papers.client(SAN, authority=authority, expired=fault == "expired")
    with pytest.raises((OSError, PeerClosed)):
        await house.ask(request_in_mode("binary", event_attributes(), "/events"), bad)
    assert house.log.submits == []


async def test_the_refusal_comes_before_the_body_and_handshakes_need_no_credential(
    house: ProducerListener,
) -> None:
    """A sender that waits for 100 Continue never sends its body to a door that is shut."""
    peer = await house.connection()
    headers = [("content-length", "10000"), ("expect", "100-continue")]
    await peer.send(request("/events", headers=headers, length=False))
    assert (await peer.answer()).status == 401
    await peer.close()
    options = request("/events", method="OPTIONS", headers=[("webhook-request-origin", "x")])
    assert (await house.ask(options)).status == 200
    for method in ("GET", "POST"):  # a webhook that consents has no key of ours
        assert (await house.ask(request("/handshake/x", method=method))).status == 404


async def test_answers_before_a_refusal_leave_first(house: ProducerListener) -> None:
    """And nothing behind it is taken."""
    peer = await house.connection()
    good = request_in_mode("binary", event_attributes(), "/events", bearer(KEY))
    await peer.send(good, good, request_in_mode("binary", event_attributes(), "/events"), good)
    assert [answer.status for answer in await peer.answers(3)] == [202, 202, 401]
    assert len(house.log.bodies) == 2
    await peer.close()


# --- open doors, reloads


async def test_an_open_door_lets_strangers_in_but_no_wrong_key() -> None:
    """A sender that shows a credential means it."""
    shop = {"name": "shop", "keys": [KEY], "may": {"sources": ["/shop/*"]}}
    async with producer_house([shop], is_open=True) as house:
        for raw, status in (
            (event(1), 202),
            (request_in_mode("binary", event_attributes(), "/events", bearer(KEY)), 202),
            (request_in_mode("binary", event_attributes(source="/x"), "/events", bearer(KEY)), 403),
            (request_in_mode("binary", event_attributes(), "/events", bearer("x" * 30)), 401),
        ):
            assert (await house.ask(raw)).status == status


async def test_a_key_that_is_taken_away_is_refused_from_the_next_request_on() -> None:
    """On connections that are open too, and at once."""
    async with producer_house([{"name": "shop", "keys": [KEY, OTHER_KEY]}]) as house:
        peers = await house.connection(), await house.connection()
        asked = [
            request_in_mode("binary", event_attributes(), "/events", bearer(key))
            for key in (KEY, OTHER_KEY)
        ]

        async def statuses() -> list[int]:
            for peer, raw in zip(peers, asked, strict=True):
                await peer.send(raw)
            return [(await peer.answer()).status for peer in peers]

        assert await statuses() == [202, 202]
        house.apply_producers([{"name": "shop", "keys": [OTHER_KEY]}])
        assert await statuses() == [401, 202]
        for peer in peers:
            await peer.close()


async def test_keys_of_an_issuer_are_rotated_while_events_come_in() -> None:
    """A token under a new key is taken at its first use, and the old ones are refused from then on."""
    with oidc_issuer() as issuer:
        async with producer_house(producers(issuer.url)) as house:
            old = request_in_mode(
                "binary", event_attributes(), "/events", bearer(issuer.token(azp="warehouse"))
            )
            answers = await asyncio.gather(*(house.ask(old) for _ in range(20)))
            assert {answer.status for answer in answers} == {202}
            assert issuer.asked == 1
            issuer.rotate()
            new = request_in_mode(
                "binary", event_attributes(), "/events", bearer(issuer.token(azp="warehouse"))
            )
            answers = await asyncio.gather(*(house.ask(new) for _ in range(20)))
            assert {answer.status for answer in answers} == {202}
            assert issuer.asked == 2
            refused = await house.ask(old)
            assert (refused.status, problem(refused)[1]) == (401, ["unknown-signing-key"])
            assert issuer.asked == 3


async def test_forged_tokens_use_up_the_questions_and_no_good_token_is_called_bad() -> None:
    """Known keys are taken all along; a new key is 503 with Retry-After until the issuer may be asked again."""
    with oidc_issuer() as issuer:
        async with producer_house(producers(issuer.url)) as house:
            known = request_in_mode(
                "binary", event_attributes(), "/events", bearer(issuer.token(azp="warehouse"))
            )
            assert (await house.ask(known)).status == 202
            forged = [
                request_in_mode(
                    "binary",
                    event_attributes(),
                    "/events",
                    bearer(forged_kid(issuer, f"x-{number}")),
                )
                for number in range(20)
            ]
            statuses = [(await house.ask(each)).status for each in forged]
            assert statuses == [401] * (QUESTION_BURST - 1) + [503] * (21 - QUESTION_BURST)
            issuer.rotate()
            new = request_in_mode(
                "binary", event_attributes(), "/events", bearer(issuer.token(azp="warehouse"))
            )
            answer = await house.ask(new)
            assert (answer.status, problem(answer)[0]) == (
                503,
                "urn:skybridge:problem:issuer-unavailable",
            )
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert (await house.ask(known)).status == 202
            assert issuer.asked == QUESTION_BURST


def forged_kid(issuer: OidcIssuer, kid: str) -> str:
    head, claims, signature = issuer.token(azp="warehouse").split(".")
    header = json.loads(base64.urlsafe_b64decode(head + "==="))
    forged = base64.urlsafe_b64encode(json.dumps({**header, "kid": kid}).encode()).decode()
    return ".".join([forged.rstrip("="), claims, signature])


async def test_an_issuer_that_is_away_is_told_as_our_fault() -> None:
    """A good token must not be called wrong: its sender would throw its events away."""
    with oidc_issuer() as issuer:
        url, token = issuer.url, issuer.token(azp="warehouse")
    async with producer_house(producers(url)) as house:
        answer = await house.ask(
            request_in_mode("binary", event_attributes(), "/events", bearer(token))
        )
        assert answer.status == 503
        assert json.loads(answer.body)["type"] == "urn:skybridge:problem:issuer-unavailable"
        assert "retry-after" in answer.headers
