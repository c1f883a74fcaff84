"""Hostile requests against intakes and signatures: no 5xx, nothing accepted, memory flat."""

from __future__ import annotations

import base64
import logging
import random

import pytest

import publishers
from corrupted_requests import corrupted_bytes
from hostile_requests import BOUNDS, refuse_all
from intake_bench import INTAKES, IntakeBench
from publishers import KEY, SECRET, SignedRequest
from raw_http import request

NAMES = [each["name"] for each in INTAKES]
BODY = {
    "kind": "paid",
    "plant": 7,
    "order": {"id": "A-1"},
    "object_kind": "push",
    "id": "1",
    "type": "t",
}
CHALLENGE = {"type": "url_verification", "challenge": "x"}
OTHER_KEY = "whsec_" + base64.b64encode(b"a key of thirty-two bytes, stolen").decode()
MARKS = [
    "", "sha256=", "sha256=" + "0" * 64, "v0=" + "f" * 64, "t=1,v1=" + "0" * 64, "v1," + "A" * 43 + "=", "v1,", "v1a,AAAA",
    "=" * 5000, "," * 5000, "v1=" * 1000, "t=1," * 1000, "%00", "Basic OjpA", "Basic !!!", "Bearer ", "sha256=\x0b",
    "sha256=" + "\u0663" * 64, "t=-1,v1=00", "t=1e9,v1=00", "null", "{{", "0" * 64, "v1, v1, v1", " ", "\xff\xfe",
]  # fmt: skip
PROOFS = [
    "x-hub-signature-256", "x-gitlab-token", "stripe-signature", "x-slack-signature", "x-slack-request-timestamp",
    "x-shopify-hmac-sha256", "webhook-signature", "webhook-timestamp", "webhook-id", "x-mark", "x-api-key",
    "authorization",
]  # fmt: skip


def by_strangers(now: float) -> list[SignedRequest]:
    """Whole requests, signed with secrets that are not ours."""
    return [
        publishers.github(BODY, secret="x"),
        publishers.github(BODY, form=True, secret=SECRET[:-1]),
        publishers.gitlab(BODY, token=SECRET + "x"),
        publishers.stripe(BODY, now, "x", "y"),
        publishers.slack(CHALLENGE, now, secret="x"),
        publishers.slack(b"command=%2Fx&trigger_id=1", now, secret="x"),
        publishers.shopify(BODY, secret="x"),
        publishers.standard(BODY, now, key=OTHER_KEY),
    ]


def of_others(now: float) -> list[SignedRequest]:
    """Good signatures, beside another body, or of another time."""
    good = [
        publishers.github(BODY), publishers.stripe(BODY, now), publishers.slack(BODY, now), publishers.shopify(BODY),
        publishers.standard(BODY, now, key=KEY),
    ]  # fmt: skip
    late = [
        publishers.stripe(BODY, now - 400), publishers.slack(CHALLENGE, now + 400),
        publishers.standard(BODY, now - 1e6, key=KEY),
    ]  # fmt: skip
    return [*(each._replace(body=each.body + b" ") for each in good), *late]


def hostile(chance: random.Random, now: float) -> bytes:
    """At a random intake. What bears a good signature is not wounded: it might heal."""
    name = chance.choice([*NAMES, *NAMES, "nobody", "", "%2e%2e", "github/x", "a" * 300])
    kind = chance.randrange(4)
    if kind == 0:
        chosen = chance.choice(of_others(now))
        return request(f"/in/{name}", chosen.body, headers=chosen.headers)
    chosen = chance.choice(by_strangers(now))
    if kind == 1:
        for _ in range(chance.randint(1, 3)):
            chosen = chosen.but(chance.choice(PROOFS), chance.choice(MARKS))
    whole = request(f"/in/{name}", chosen.body, headers=chosen.headers)
    return corrupted_bytes(chance, [whole]) if kind == 2 else whole


@pytest.mark.parametrize(
    ("seed", "cases"),
    [(1, 600), pytest.param(2, 100_000, marks=pytest.mark.nightly)],
)
async def test_hostile_requests_are_never_accepted_and_never_5xx(
    seed: int, cases: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    house = IntakeBench()
    with caplog.at_level(logging.ERROR):
        async with house.open(**BOUNDS):
            port, now = house.server.port, house.clock.now
            statuses = await refuse_all(port, cases, lambda: hostile(chance, now()))
            assert (await house.post("github", publishers.github(BODY))).status == 202
    assert len(house.log.submits) == 1
    assert {400, 401, 404} <= statuses
    assert not [record for record in caplog.records if record.name.startswith("app.")]
    assert {name for name, _ in house.counted()} <= set(NAMES)
    assert sum(len(house.intakes.demand(name).repeats) for name in NAMES) == 1
