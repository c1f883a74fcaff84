"""Hostile credentials: no 5xx but 503 for a key that may be new, nothing accepted, memory flat."""

from __future__ import annotations

import base64
import hmac
import json
import logging
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from corrupted_requests import corrupted_bytes
from hostile_requests import BOUNDS, refuse_all
from producer_listener import (
    HEADER_KEY,
    KEY,
    bearer,
    event_attributes,
    producer_house,
    request_in_mode,
)

ISSUER = "https://id.example"
MODES = ("binary", "structured", "batch")
TARGETS = ["/events", "/events/orders", "/events/nobody", "/events/%2e%2e", "/events/" + "a" * 300]
CLAIMS = {"iss": ISSUER, "aud": "skybridge", "azp": "warehouse", "exp": 1 << 39}
OTHER_CLAIMS: list[dict[str, Any]] = [
    {"exp": 1}, {"exp": None}, {"exp": "x"}, {"exp": 1e308}, {"exp": -1}, {"nbf": 1 << 39}, {"nbf": []}, {"aud": ["x"]},
    {"aud": {}}, {"azp": "shop"}, {"azp": {"warehouse": 1}}, {"azp": None}, {"iss": "https://evil.example"}, {"iss": None},
    {"iss": 1},
]  # fmt: skip
NAMES = [
    "authorization",
    "Authorization",
    "x-api-key",
    "X-API-KEY",
    "proxy-authorization",
    "cookie",
]
WORDS = [
    "", "Bearer", "Bearer ", "bearer \t", "Basic OjpA", "Bearer a.b.c", "Bearer ..", "Bearer " + "." * 3000, "Digest x",
    "Bearer null", "Bearer " + "A" * 3000, "Bearer \xff\xfe", "Bearer e30.e30.", "Bearer W10.W10.W10", "\x7f",
]  # fmt: skip
NEAR = [
    "Bearer " + KEY[:-1], "Bearer " + KEY + "x", "Bearer " + KEY.upper(), "Bearer " + HEADER_KEY, "Basic " + KEY,
    KEY, HEADER_KEY[:-1], HEADER_KEY + "x", f"{HEADER_KEY}, {HEADER_KEY}", f"Bearer {KEY}, Bearer {KEY}",
]  # fmt: skip


class Forger:
    """``wrong``: tokens that could never be good. ``near``: changed in one place."""

    def __init__(self, chance: random.Random, key: ECKey) -> None:
        self._chance = chance
        self._good = good = _signed(CLAIMS, key)
        self._wrong = [
            *(_signed({**CLAIMS, **each}, key) for each in OTHER_CLAIMS),
            _signed(CLAIMS, ECKey.generate_key("P-256")),
            _signed(CLAIMS, key, kid="unknown"),
            _by_public_key(key),
            *(_headed(good, each) for each in ("none", "None", "", "HS256", "RS256", "EdDSA", 1, None, [])),
        ]  # fmt: skip

    def wrong(self) -> str:
        return self._chance.choice(self._wrong)

    def near(self) -> str:
        """Without one character of head or claims, with the signature of another, or with a piece of its own."""
        signed, _, signature = self._good.rpartition(".")
        kind = self._chance.randrange(3)
        if kind == 0:
            place = self._chance.randrange(len(signed))
            return f"{signed[:place]}{signed[place + 1 :]}.{signature}"
        if kind == 1:
            return f"{signed}.{self._wrong[0].rpartition('.')[2]}"
        return f"{signed}.{signature[: self._chance.randrange(len(signature) - 4)]}"


def hostile(chance: random.Random, forger: Forger) -> bytes:
    """What is nearly good is not wounded: it might heal."""
    making = partial(
        request_in_mode, chance.choice(MODES), event_attributes(), chance.choice(TARGETS)
    )
    kind = chance.randrange(6)
    if kind == 0:
        return making([(chance.choice(NAMES), chance.choice(NEAR))])
    if kind == 1:
        return making(bearer(forger.near()))
    if kind == 2:
        return making([*bearer(KEY), *bearer(chance.choice([KEY, forger.wrong()]))])
    words = [*WORDS, *(f"Bearer {forger.wrong()}" for _ in WORDS)]
    fields = [(chance.choice(NAMES), chance.choice(words)) for _ in range(chance.randint(0, 3))]
    return corrupted_bytes(chance, [making(fields)]) if kind == 3 else making(fields)


@pytest.mark.parametrize(
    ("seed", "cases"),
    [(1, 2000), pytest.param(2, 100_000, marks=pytest.mark.nightly)],
)
async def test_hostile_credentials_are_never_accepted_and_never_5xx(
    seed: int, cases: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    key, keys = ECKey.generate_key("P-256", {"kid": "1", "use": "sig"}), tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    jwt = {"issuer": ISSUER, "audience": "skybridge", "match": {"azp": "warehouse"}, "jwks": keys}
    listed = [
        {"name": "shop", "keys": [KEY]},
        {"name": "till", "keys": [HEADER_KEY], "header": "X-Api-Key"},
        {"name": "warehouse", "jwt": jwt},
    ]
    with caplog.at_level(logging.ERROR):
        async with producer_house(listed, **BOUNDS) as house:
            forger = Forger(chance, key)
            statuses = await refuse_all(
                house.server.port, cases, lambda: hostile(chance, forger), also={503}
            )
            counted = house.counters.values()["events_refused"]
            assert counted["issuer-unavailable",] > 0  # an unknown key, and no question left
            assert ("bound-reached",) not in counted
            assert house.log.submits == []
            door = house.server.resource.door
            assert door is not None
            assert door._tokens == {}, "what is not verified is not remembered"
            good = [bearer(KEY), bearer(_signed(CLAIMS, key)), [("x-api-key", HEADER_KEY)]]
            for credential in good:
                raw = request_in_mode("binary", event_attributes(), "/events", credential)
                assert (await house.ask(raw)).status == 202
    assert {400, 401, 404} <= statuses
    assert not [record for record in caplog.records if record.name.startswith("app.")]
    assert house.counters.values()["producer_events"] == dict.fromkeys(
        [("shop",), ("till",), ("warehouse",)], 1
    )


def _signed(claims: Any, key: ECKey, *, kid: str = "1") -> str:
    head = {"alg": "ES256", "kid": kid, "typ": "JWT"}
    return jws.serialize_compact(head, json.dumps(claims), key, algorithms=["ES256"])


def _by_public_key(key: ECKey) -> str:
    """Under HS256, with what everybody knows as the secret."""
    parts = f"{_url({'alg': 'HS256', 'kid': '1'})}.{_url(CLAIMS)}"
    secret = json.dumps(key.as_dict(private=False)).encode()
    mark = hmac.digest(secret, parts.encode(), "sha256")
    return f"{parts}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"


def _headed(good: str, algorithm: Any) -> str:
    """With another algorithm in its head."""
    return ".".join([_url({"alg": algorithm, "kid": "1"}), *good.split(".")[1:]])


def _url(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()
