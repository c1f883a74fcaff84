"""What the door remembers of a token: not for long, not beyond its end, not too many, and not over a reload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from app.access.caller import EventSender
from app.access.signatures import VerificationKey
from app.access.tokens import SKEW
from app.access.who import ProducerDirectory
from app.gateway import door as door_module
from app.gateway.answers import HttpAnswer, problem_code
from app.gateway.door import TOKEN_CACHE_SECONDS, Authenticator
from app.gateway.issuers import FAILURE_PAUSE, QUESTION_BURST, QUESTION_INTERVAL, Issuers
from app.gateway.request import Pending
from app.model.producer import Producer
from virtual_clock import VirtualClock

ISSUER = "https://id.example"


class House:
    """``verified``: how often a signature was looked at."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wait = 0  # seconds of the last Retry-After
        self._signer = ECKey.generate_key("P-256", {"kid": "1", "use": "sig"})
        self.jwks = folder / "jwks.json"
        self._publish()
        rule = {
            "issuer": ISSUER,
            "audience": "sky",
            "match": {"azp": "warehouse"},
            "jwks": self.jwks,
        }
        self._listed = [Producer.model_validate({"name": "warehouse", "jwt": rule})]
        self.clock = VirtualClock()
        self._issuers = Issuers(self.clock.monotonic)
        self.verified = 0
        verify = VerificationKey.verify

        def counted(key: VerificationKey, token: bytes, now: float) -> Any:
            self.verified += 1
            return verify(key, token, now)

        monkeypatch.setattr(VerificationKey, "verify", counted)
        self.reload()

    def rotate(self, kid: str) -> None:
        """A new key under a new name; the old one is withdrawn."""
        self._signer = ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})
        self._publish()

    def _publish(self) -> None:
        self.jwks.write_text(json.dumps({"keys": [self._signer.as_dict(private=False)]}))

    def reload(self) -> None:
        self.door = Authenticator(
            ProducerDirectory(self._listed), self._issuers.of, self.clock, is_open=False
        )

    def token(self, lasting: float, **claims: Any) -> bytes:
        """``lasting``: seconds from now."""
        held = {"iss": ISSUER, "aud": "sky", "azp": "warehouse", "exp": self.clock.now() + lasting}
        head = {"alg": "ES256", "kid": self._signer.kid}
        return jwt.encode(head, {**held, **claims}, self._signer).encode()

    def forged(self, kid: str) -> bytes:
        """A token of a key that the issuer never had."""
        held = {"iss": ISSUER, "aud": "sky", "azp": "warehouse", "exp": self.clock.now() + 60}
        stranger = ECKey.generate_key("P-256", {"kid": kid})
        return jwt.encode({"alg": "ES256", "kid": kid}, held, stranger).encode()

    async def asked(self, token: bytes) -> str:
        """The name of the caller, or what is wrong."""
        pairs = [(b"authorization", b"Bearer " + token)]
        verdict = self.door.judge(pairs, dict(pairs), (), "")
        if isinstance(verdict, Pending):
            await verdict.asking
            verdict = self.door.judge_again(verdict)
        if isinstance(verdict, HttpAnswer) and verdict.status == 503:
            self.wait = int(dict(verdict.headers)[b"retry-after"])
            return problem_code(verdict)
        if isinstance(verdict, HttpAnswer):
            assert problem_code(verdict) == "not-authenticated"
            return str(json.loads(verdict.body)["faults"][0]["code"])
        assert isinstance(verdict, EventSender)
        return verdict.name


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    return House(tmp_path, monkeypatch)


async def test_a_verified_token_is_remembered_for_five_minutes(house: House) -> None:
    token = house.token(3_600)
    for seconds, times in ((0, 1), (0, 1), (TOKEN_CACHE_SECONDS - 1, 1), (1, 2), (1, 2)):
        await house.clock.advance(seconds)
        assert (await house.asked(token), house.verified) == ("warehouse", times)


async def test_no_token_is_remembered_beyond_its_end(house: House) -> None:
    """Its clock may differ from ours by a minute."""
    token = house.token(10)
    assert await house.asked(token) == "warehouse"
    await house.clock.advance(10 + SKEW - 1)
    assert (await house.asked(token), house.verified) == ("warehouse", 1)
    await house.clock.advance(1)
    assert await house.asked(token) == "expired-token"


async def test_a_reload_verifies_again(house: House) -> None:
    """Its producer may be another one, or none, from then on."""
    token = house.token(3_600)
    await house.asked(token)
    house.reload()
    assert (await house.asked(token), house.verified) == ("warehouse", 2)


async def test_so_many_tokens_are_remembered_and_no_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one goes."""
    monkeypatch.setattr(door_module, "MAX_CACHED_TOKENS", 2)
    tokens = [house.token(3_600, n=number) for number in range(3)]
    for each in tokens:
        await house.asked(each)
    assert len(house.door._tokens) == 2
    await house.asked(tokens[2])
    assert house.verified == 3
    await house.asked(tokens[0])
    assert house.verified == 4


async def test_what_is_refused_is_not_remembered(house: House) -> None:
    token = house.token(3_600, azp="another")
    for times in (1, 2):
        assert (await house.asked(token), house.verified) == ("unknown-credential", times)
    assert house.door._tokens == {}


UNKNOWN, LATER = "unknown-signing-key", "issuer-unavailable"


async def used_up(house: House) -> None:
    """Every question that may be asked now is asked because of forged tokens."""
    assert await house.asked(house.token(600)) == "warehouse"
    found = [await house.asked(house.forged(f"x{number}")) for number in range(QUESTION_BURST)]
    assert found == [*[UNKNOWN] * (QUESTION_BURST - 1), LATER]


async def test_a_new_key_is_never_called_bad_while_no_question_may_be_asked(house: House) -> None:
    """A stranger's tokens have used up the questions, and the issuer changes its key."""
    old = house.token(600)
    await used_up(house)
    house.rotate("2")
    new = house.token(600)
    assert [await house.asked(new) for _ in range(3)] == [LATER] * 3
    assert house.wait == QUESTION_INTERVAL
    assert await house.asked(old) == "warehouse"  # the keys that are known go on
    await house.clock.advance(QUESTION_INTERVAL - 20)
    assert (await house.asked(new), house.wait) == (LATER, 20)
    await house.clock.advance(20)
    assert await house.asked(new) == "warehouse"
    assert await house.asked(old) == LATER  # withdrawn, or not known again yet


async def test_the_question_of_a_strangers_token_finds_the_new_key_too(house: House) -> None:
    await used_up(house)
    house.rotate("2")
    await house.clock.advance(QUESTION_INTERVAL)
    assert await house.asked(house.forged("y")) == UNKNOWN
    assert await house.asked(house.token(600)) == "warehouse"


async def test_one_forged_token_leaves_questions_for_the_new_key(house: House) -> None:
    assert await house.asked(house.token(600)) == "warehouse"
    assert await house.asked(house.forged("x")) == UNKNOWN
    house.rotate("2")
    assert await house.asked(house.token(600)) == "warehouse"


async def test_a_question_that_failed_proves_nothing(house: House) -> None:
    """503, also at once behind it; a while later it is asked again."""
    assert await house.asked(house.token(600)) == "warehouse"
    house.rotate("2")
    good = house.jwks.read_bytes()
    house.jwks.write_text("torn")
    assert await house.asked(house.token(600)) == LATER
    house.jwks.write_bytes(good)
    assert (await house.asked(house.token(600)), house.wait) == (LATER, FAILURE_PAUSE)
    await house.clock.advance(FAILURE_PAUSE)
    assert await house.asked(house.token(600)) == "warehouse"


async def test_a_question_that_began_before_the_token_came_proves_nothing(house: House) -> None:
    """Its answer may be older than the new key."""
    assert await house.asked(house.token(600)) == "warehouse"

    def judged(token: bytes) -> Any:
        pairs = [(b"authorization", b"Bearer " + token)]
        return house.door.judge(pairs, dict(pairs), (), "")

    first = judged(house.forged("x"))
    second = judged(house.forged("y"))
    assert first.asking is second.asking
    await first.asking
    statuses = [house.door.judge_again(each).status for each in (first, second)]  # type: ignore[union-attr]
    assert statuses == [401, 503]
