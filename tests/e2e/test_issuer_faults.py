"""An issuer whose discovery goes wrong: 503, for a token that may be good must not be called bad; nothing hangs."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from app.gateway import issuers
from app.gateway.issuers import DISCOVERY, MAX_ANSWER
from faulty_issuer import FaultyIssuer, IssuerAnswer
from producer_listener import (
    KEY,
    ProducerListener,
    bearer,
    event_attributes,
    producer_house,
    producers,
    request_in_mode,
)

SIGNER = ECKey.generate_key("P-256", {"kid": "1", "use": "sig"})
KEYS = json.dumps({"keys": [SIGNER.as_dict(private=False)]}).encode()
HELD = "Timeout"
Answers = Callable[[FaultyIssuer], dict[str, IssuerAnswer]]


def good(issuer: FaultyIssuer) -> dict[str, IssuerAnswer]:
    return {DISCOVERY: IssuerAnswer(body=issuer.document()), "/jwks": IssuerAnswer(body=KEYS)}


def discovered(**changed: object) -> Answers:
    """With another configuration."""
    return lambda issuer: {**good(issuer), DISCOVERY: IssuerAnswer(body=issuer.document(**changed))}


def discovery(said: IssuerAnswer) -> Answers:
    return lambda issuer: {**good(issuer), "/there": good(issuer)[DISCOVERY], DISCOVERY: said}


def keys(said: IssuerAnswer) -> Answers:
    return lambda issuer: {**good(issuer), "/there": IssuerAnswer(body=KEYS), "/jwks": said}


FAULTS: dict[str, tuple[Answers, str]] = {
    "redirect": (discovery(IssuerAnswer(302, location="/there")), "answers 302"),
    "redirect of the keys": (keys(IssuerAnswer(307, location="/there")), "answers 307"),
    "away": (discovery(IssuerAnswer(503)), "answers 503"),
    "oversized": (discovery(IssuerAnswer(body=b" " * (MAX_ANSWER + 1))), "answers more than"),
    "oversized keys": (keys(IssuerAnswer(body=b" " * (MAX_ANSWER + 1))), "answers more than"),
    "other issuer": (discovered(issuer="https://evil.example"), "names another issuer"),
    "issuer with a slash more": (discovered(issuer="http://127.0.0.1/"), "names another issuer"),
    "no issuer": (discovered(issuer=None), "names another issuer"),
    "no JSON": (discovery(IssuerAnswer(body=b"<html>")), "is no JSON object"),
    "no object": (discovery(IssuerAnswer(body=b"[]")), "is no JSON object"),
    "no UTF-8": (discovery(IssuerAnswer(body=b'{"a": "\xff"}')), "is no JSON object"),
    "nested": (discovery(IssuerAnswer(body=b"[" * 200_000)), "is no JSON object"),
    "nothing": (discovery(IssuerAnswer()), "is no JSON object"),
    "keys are no text": (discovered(jwks_uri=1), "names no https address of keys"),
    "keys in a file": (discovered(jwks_uri="file:///etc/passwd"), "names no https address of keys"),
    "keys are no JSON": (keys(IssuerAnswer(body=b"<html>")), "is not a JWK Set"),
    "keys are a list": (keys(IssuerAnswer(body=b"[1]")), "is not a JWK Set"),
    "held": (discovery(IssuerAnswer(held=True)), HELD),
    "keys held": (keys(IssuerAnswer(held=True)), HELD),
    "never ends": (discovery(IssuerAnswer(body=b"{", short=True)), HELD),
}


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyIssuer]:
    """A slow machine is no fault: what is to be held sets a short time itself."""
    monkeypatch.setattr(issuers, "ANSWER_TIMEOUT", 60.0)
    with FaultyIssuer() as serving:
        yield serving


@pytest.fixture
async def house(issuer: FaultyIssuer) -> AsyncIterator[ProducerListener]:
    async with producer_house(producers(issuer.address)) as house:
        yield house


def by_token(issuer: FaultyIssuer, kid: str = "1") -> bytes:
    """A good one."""
    claims = {"iss": issuer.address, "aud": "skybridge", "azp": "warehouse", "exp": 1 << 39}
    head = {"alg": "ES256", "kid": kid}
    token = jws.serialize_compact(head, json.dumps(claims), SIGNER, algorithms=["ES256"])
    return request_in_mode("binary", event_attributes(), "/events", bearer(token))


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_discovery_is_503_and_heals(
    house: ProducerListener,
    issuer: FaultyIssuer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    """The log says why. Keys of others are taken meanwhile, and the issuer is not asked again at once."""
    answers, why = FAULTS[fault]
    issuer.answers = answers(issuer)
    with caplog.at_level(logging.WARNING, "app"), monkeypatch.context() as patch:
        if why == HELD:
            patch.setattr(issuers, "ANSWER_TIMEOUT", 0.3)
        answer = await house.ask(by_token(issuer))
    assert answer.status == 503
    assert json.loads(answer.body)["type"] == "urn:skybridge:problem:issuer-unavailable"
    assert "retry-after" in answer.headers
    (said,) = [record.getMessage() for record in caplog.records]
    assert why in said
    assert "/there" not in issuer.asked
    asked = len(issuer.asked)
    assert (await house.ask(by_token(issuer))).status == 503
    assert (
        await house.ask(request_in_mode("binary", event_attributes(), "/events", bearer(KEY)))
    ).status == 202
    assert len(issuer.asked) == asked
    issuer.answers = good(issuer)
    a_minute_passes(house)
    assert (await house.ask(by_token(issuer))).status == 202


@pytest.mark.parametrize("fault", ["redirect", "other issuer", "no JSON"])
async def test_keys_that_are_known_outlast_a_fault(
    house: ProducerListener, issuer: FaultyIssuer, fault: str
) -> None:
    """Good tokens go on; one of a key that is not known may be good: 503, and 401 once the issuer has answered."""
    issuer.answers = good(issuer)
    assert (await house.ask(by_token(issuer))).status == 202
    issuer.answers = FAULTS[fault][0](issuer)
    for _ in range(2):
        answer = await house.ask(by_token(issuer, kid="2"))
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
    assert (await house.ask(by_token(issuer))).status == 202
    issuer.answers = good(issuer)
    a_minute_passes(house)
    assert (await house.ask(by_token(issuer, kid="2"))).status == 401


def a_minute_passes(house: ProducerListener) -> None:
    (known,) = house.issuers._known.values()
    known._asked -= issuers.QUESTION_INTERVAL
