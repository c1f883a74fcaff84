"""``POST /in/{name}`` over a socket: exact status and problem, and nothing published that should not be."""

from __future__ import annotations

import base64
import gzip
import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

import publishers
from app.bindings import kafka
from app.bindings.record import Decoded
from app.errors import BrokerUnavailable, PublishUnknown
from intake_bench import INTAKES, IntakeBench
from publishers import KEY, SECRET, Sent
from raw_http import RawAnswer, RawConnection, request
from waiting import until

PUSH = {"ref": "refs/heads/main", "repository": {"url": "https://x/r", "full_name": "o/r"}}
ORDER = {"kind": "paid", "plant": 7, "order": {"id": "A-1"}}
EVT = {
    "id": "evt_1",
    "type": "charge.failed",
    "created": 1686089970,
    "data": {"object": {"id": "ch_1"}},
}
SLACK = {"event_id": "Ev1", "type": "event_callback", "team_id": "T1", "event": {"type": "message"}}
STANDARD = {"type": "contact.created", "data": {}}


def own(body: Any, *proof: tuple[str, str], identity: str = "r-1") -> Sent:
    return Sent(
        (("content-type", "application/json"), ("x-id", identity), *proof), publishers.text(body)
    )


def erp(body: Any, identity: str = "r-1") -> Sent:
    return own(body, ("x-mark", publishers.hexed(SECRET, publishers.text(body))), identity=identity)


LOGIN = "Basic " + base64.b64encode(f"shop:{SECRET}".encode()).decode()
GOOD: dict[str, Callable[[float], Sent]] = {
    "github": lambda _: publishers.github(PUSH),
    "gitlab": lambda _: publishers.gitlab({"object_kind": "push", **PUSH}),
    "stripe": lambda now: publishers.stripe(EVT, now),
    "slack": lambda now: publishers.slack(SLACK, now),
    "shopify": lambda _: publishers.shopify({"id": 1}),
    "standard": lambda now: publishers.standard(STANDARD, now),
    "erp": lambda _: erp(ORDER),
    "key": lambda _: own(ORDER, ("x-api-key", SECRET)),
    "login": lambda _: own(ORDER, ("authorization", LOGIN)),
}
PROOF = {
    "github": "x-hub-signature-256", "gitlab": "x-gitlab-token", "stripe": "stripe-signature",
    "slack": "x-slack-signature", "shopify": "x-shopify-hmac-sha256", "standard": "webhook-signature",
    "erp": "x-mark", "key": "x-api-key", "login": "authorization",
}  # fmt: skip
TIMED = ("stripe", "slack", "standard")
SIGNED_BODY = ("github", "shopify", "erp")
TOKEN = ("gitlab", "key", "login")


def problem(answer: RawAnswer) -> tuple[int, str, list[str]]:
    """Status, code, and the codes of its faults."""
    assert answer.headers["content-type"] == "application/problem+json"
    document = json.loads(answer.body)
    assert document["status"] == answer.status
    return (
        answer.status,
        document["type"].rpartition(":")[2],
        [f["code"] for f in document["faults"]],
    )


def published(house: IntakeBench) -> list[Decoded]:
    return [kafka.decode(record) for each in house.log.submits for record in each.records]


@pytest.mark.parametrize("name", GOOD)
async def test_a_request_of_each_kind_is_published_byte_for_byte(name: str) -> None:
    async with IntakeBench().open() as house:
        sent = GOOD[name](house.clock.now())
        answer = await house.post(name, sent)
        assert (answer.status, answer.body) == (202, b"")
        (event,) = published(house)
        assert event.event.data == sent.body
        assert event.event.datacontenttype == dict(sent.pairs)[b"content-type"].decode()
        assert house.counted() == {(name, "accepted"): 1}
        assert house.counted("events_published") == {("hooks", "log"): 1}


async def test_a_slash_at_the_end_of_its_path_is_the_same_intake() -> None:
    """What a person pastes into a publisher's form may have one."""
    async with IntakeBench().open() as house:
        sent = GOOD["github"](house.clock.now())
        answer = await house.post("github/", sent)
        assert answer.status == 202
        assert len(published(house)) == 1
        got = await house.post("github/", sent, method="GET")
        assert got.status == 405


@pytest.mark.parametrize("name", GOOD)
async def test_a_cut_emoji_and_a_large_number_elsewhere_in_the_body_are_no_matter(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are JSON by its grammar (RFC 8259), and what Node writes of a text that it cut."""
    odd = publishers.text
    monkeypatch.setattr(
        publishers, "text", lambda body: rb'{"x\ud83d":["cut \uD83D",1e400],' + odd(body)[1:]
    )
    async with IntakeBench().open() as house:
        sent = GOOD[name](house.clock.now())
        answer = await house.post(name, sent)
        assert (answer.status, answer.body) == (202, b"")
        (event,) = published(house)
        assert event.event.data == sent.body
        assert b"1e400" in sent.body


async def test_receipts_are_given_where_they_are_asked_for() -> None:
    async with IntakeBench().open() as house:
        sent = GOOD["github"](0).but("Prefer", "return=representation")
        answer = await house.post("github", sent)
        assert answer.status == 200
        (receipt,) = json.loads(answer.body)
        assert (receipt["route"], receipt["topic"], receipt["position"]) == ("hooks", "hooks", "0")


async def test_key_and_trace_go_along() -> None:
    """The route's key mapper sees the event; headers that are kept beside events are kept here too."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with IntakeBench().open() as house:
        await house.post("github", GOOD["github"](0).but("traceparent", trace))
        (submitted,) = house.log.submits
        (record,) = submitted.records
        assert record.key == b"o/r"
        assert ("traceparent", trace.encode()) in record.headers


FORGERIES = [
    (name, case)
    for name in GOOD
    for case in ("wrong", "missing", "body")
    if case != "body" or name not in TOKEN  # nothing signs the body
]


@pytest.mark.parametrize(("name", "case"), FORGERIES)
async def test_what_is_not_verified_is_401(
    name: str, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the answer nor any line of the log repeats what was sent."""
    house = IntakeBench()
    sent = GOOD[name](house.clock.now())
    proof = dict(sent.pairs)[PROOF[name].encode()].decode()
    if case == "body":
        sent = sent._replace(body=sent.body + b"\n")
    else:
        forged = proof[:-9] + "AAAAAAAA" + proof[-1]
        sent = sent.but(PROOF[name], None if case == "missing" else forged)
    async with house.open():
        with caplog.at_level(logging.DEBUG):
            answer = await house.post(name, sent)
        status, code, faults = problem(answer)
        kind = "credential" if name in TOKEN else "signature"
        assert (status, code) == (401, f"{'missing' if case == 'missing' else 'wrong'}-{kind}")
        assert faults == [code]
        assert "realm=" in answer.headers["www-authenticate"]
        assert house.log.submits == []
        assert house.counted() == {(name, code): 1}
        assert house.counted("events_refused") == {(code,): 1}
    for secret in (SECRET, KEY, proof[-30:]):
        assert secret not in caplog.text
        assert secret.encode() not in answer.body


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("off", [-301.0, 301.0])
async def test_an_old_time_and_one_ahead_are_401(name: str, off: float) -> None:
    async with IntakeBench().open() as house:
        answer = await house.post(name, GOOD[name](house.clock.now() + off))
        assert problem(answer)[:2] == (401, "untimely-signature")
        assert house.log.submits == []


@pytest.mark.parametrize("name", [*SIGNED_BODY, *TOKEN])
async def test_a_repetition_is_a_duplicate_and_published_once(name: str) -> None:
    async with IntakeBench().open() as house:
        sent = GOOD[name](0)
        assert (await house.post(name, sent)).status == 202
        again = await house.post(name, sent)
        assert (again.status, again.headers["skybridge-duplicate"], again.body) == (
            202,
            "true",
            b"",
        )
        assert len(house.log.submits) == 1
        assert house.counted() == {(name, "accepted"): 1, (name, "duplicate"): 1}
        await house.clock.advance(300)
        assert "skybridge-duplicate" not in (await house.post(name, sent)).headers
        assert len(house.log.submits) == 2


@pytest.mark.parametrize("fate", [BrokerUnavailable("down"), PublishUnknown("late")])
async def test_what_was_not_stored_may_be_sent_again(fate: Any) -> None:
    house = IntakeBench(at_once=False)
    async with house.open(), await RawConnection.open(house.server.port) as peer:
        sent = GOOD["github"](0)
        posted = request("/in/github", sent.body, headers=sent.headers)
        await peer.send(posted)
        await until(lambda: house.log.submits)
        house.log.settle(0, fate)
        first = await peer.answer()
        assert first.status == 503
        assert "retry-after" in first.headers
        await peer.send(posted)
        await until(lambda: len(house.log.submits) == 2)
        house.log.settle(1)
        assert (await peer.answer()).headers.get("skybridge-duplicate") is None


async def test_a_repetition_waits_for_the_fate_of_the_first() -> None:
    """Two connections, one event."""
    house = IntakeBench(at_once=False)
    sent = GOOD["github"](0)
    posted = request("/in/github", sent.body, headers=sent.headers)
    async with (
        house.open(),
        await RawConnection.open(house.server.port) as one,
        await RawConnection.open(house.server.port) as other,
    ):
        await one.send(posted)
        await until(lambda: house.log.submits)
        await other.send(posted)
        repeats = house.intakes.demand("github").repeats
        await until(lambda: repeats.waiting)
        assert len(house.log.submits) == 1
        house.log.settle(0)
        assert "skybridge-duplicate" not in (await one.answer()).headers
        assert (await other.answer()).headers["skybridge-duplicate"] == "true"
        assert len(house.log.submits) == 1


async def test_what_cannot_be_mapped_is_422_with_every_fault() -> None:
    async with IntakeBench().open() as house:
        body = {"kind": "two\nlines", "plant": None}
        answer = await house.post("erp", erp(body).but("x-id", None))
        status, code, faults = problem(answer)
        assert (status, code) == (422, "unmappable")
        assert sorted(faults) == ["forbidden-character", *["missing-value"] * 3]
        places = {fault["at"] for fault in json.loads(answer.body)["faults"]}
        assert places == {"header x-id", "/plant", "/order/id", "type"}
        assert house.log.submits == []
        assert house.counted() == {("erp", "unmappable"): 1}


async def test_beyond_its_quota_it_is_429() -> None:
    async with IntakeBench().open() as house:
        for number in range(2):
            assert (await house.post("few", publishers.github({**PUSH, "n": number}))).status == 202
        answer = await house.post("few", publishers.github({**PUSH, "n": 2}))
        assert problem(answer)[:2] == (429, "quota-exceeded")
        assert (answer.headers["retry-after"], answer.headers["ratelimit"]) == (
            "1",
            '"events";r=0;t=2',
        )
        assert len(house.log.submits) == 2
        await house.clock.advance(1)
        assert (await house.post("few", publishers.github({**PUSH, "n": 2}))).status == 202


async def test_the_quota_is_not_for_strangers_to_use_up() -> None:
    async with IntakeBench().open() as house:
        for _ in range(5):
            assert (await house.post("few", publishers.github(PUSH, secret="x"))).status == 401
        assert (await house.post("few", publishers.github(PUSH))).status == 202


async def test_slacks_challenge_is_answered_once_it_is_verified() -> None:
    asked = {"token": "t", "challenge": "3eZbrw1aBm2rZgRN", "type": "url_verification"}
    async with IntakeBench().open() as house:
        now = house.clock.now()
        answer = await house.post("slack", publishers.slack(asked, now))
        assert (answer.status, answer.body) == (200, b"3eZbrw1aBm2rZgRN")
        assert answer.headers["content-type"].startswith("text/plain")
        forged = await house.post("slack", publishers.slack(asked, now, secret="x"))
        assert problem(forged)[:2] == (401, "wrong-signature")
        assert house.log.submits == []
        assert house.counted() == {("slack", "challenge"): 1, ("slack", "wrong-signature"): 1}


@pytest.mark.parametrize("name", ["nobody", "github//", "github/more", "%00", "GitHub"])
async def test_an_intake_that_is_not_there_is_404(name: str) -> None:
    """Its name is no label of a metric: strangers choose it."""
    async with IntakeBench().open() as house:
        assert problem(await house.post(name, GOOD["github"](0)))[:2] == (404, "unknown-intake")
        assert house.counted() == {}


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE", "OPTIONS"])
async def test_an_intake_takes_posts_alone(method: str) -> None:
    async with IntakeBench().open() as house:
        answer = await house.post("github", GOOD["github"](0), method=method)
        assert problem(answer)[:2] == (405, "method-not-allowed")
        assert answer.headers["allow"] == "POST"
        assert house.log.submits == []


async def test_without_a_route_the_rules_choose() -> None:
    async with IntakeBench().open() as house:
        assert (await house.post("by-rules", GOOD["github"](0))).status == 202
        assert house.counted("events_published") == {("hooks", "log"): 1}


async def test_a_coded_body_is_verified_as_it_came_and_published_without_its_coding() -> None:
    """Nothing of a stranger's is unpacked."""
    plain = publishers.text(PUSH)
    coded = publishers.github(gzip.compress(plain)).but("Content-Encoding", "gzip")
    bomb = gzip.compress(b"0" * (26 << 20))
    async with IntakeBench().open() as house:
        assert (await house.post("github", coded)).status == 202
        (event,) = published(house)
        assert event.event.data == plain
        strange = publishers.github(bomb, secret="x").but("Content-Encoding", "gzip")
        assert (await house.post("github", strange)).status == 401
        ours = publishers.github(bomb).but("Content-Encoding", "gzip")
        assert problem(await house.post("github", ours))[:2] == (413, "body-too-large")
        other = publishers.github(plain).but("Content-Encoding", "br")
        assert problem(await house.post("github", other))[0] == 415


async def test_the_bounds_of_the_listener_hold_here() -> None:
    async with IntakeBench().open(body=100_000) as house:
        answer = await house.post("shopify", publishers.shopify({"a": "x" * 100_001}))
        assert problem(answer)[:2] == (413, "body-too-large")


async def test_a_body_that_calls_itself_an_event_is_data() -> None:
    """``ce-`` headers are nobody's word here, and a document is the data of the event that carries it."""
    body = json.dumps(
        {"specversion": "1.0", "id": "x", "source": "/x", "type": "x", **ORDER}
    ).encode()
    sent = erp(body).but("content-type", "application/cloudevents+json").but("ce-id", "forged")
    async with IntakeBench().open() as house:
        assert (await house.post("erp", sent)).status == 202
        (decoded,) = published(house)
        assert (decoded.event.id, decoded.event.type) == ("r-1", "com.example.paid")
        assert json.loads(decoded.event.data or b"")["id"] == "x"


async def test_a_form_is_kept_as_it_came() -> None:
    form = urlencode({"command": "/weather", "trigger_id": "13.1", "team_id": "T1"}).encode()
    async with IntakeBench().open() as house:
        assert (await house.post("slack", publishers.slack(form, house.clock.now()))).status == 202
        (decoded,) = published(house)
        assert decoded.event.data == form
        assert decoded.event.datacontenttype == "application/x-www-form-urlencoded"


async def test_requests_of_both_kinds_are_answered_in_their_order() -> None:
    """On one connection."""
    async with IntakeBench().open() as house, await RawConnection.open(house.server.port) as peer:
        bodies = [publishers.github({**PUSH, "n": n}) for n in range(5)]
        sent = [request("/in/github", each.body, headers=each.headers) for each in bodies]
        await peer.send(
            *sent[:2], request("/in/nobody"), *sent[2:], request("/in/github", method="GET")
        )
        assert [each.status for each in await peer.answers(7)] == [
            202,
            202,
            404,
            202,
            202,
            202,
            405,
        ]


async def test_each_intake_tells_what_it_took_and_refused_over_a_reload_too() -> None:
    """A duplicate and a challenge are neither; what never was its request is nobody's."""
    house = IntakeBench()
    good = publishers.github({"n": 1})
    challenge = {"type": "url_verification", "challenge": "x"}
    async with house.open():
        for name, sent in (
            ("github", good),
            ("github", good),  # a duplicate
            ("github", publishers.github({"n": 1}, secret="x")),
            ("erp", publishers.github({"n": 1})),
            ("slack", publishers.slack(challenge, house.clock.now())),
            ("nobody", good),
        ):
            await house.post(name, sent)
        house.reload()
        await house.post("github", publishers.github({"n": 2}))
        told = house.server.resource.intakes.tallies()
    counts = {name: (each.events, each.refused) for name, each in told.items()}
    assert {name: found for name, found in counts.items() if any(found)} == {
        "github": (2, 1),
        "erp": (0, 1),
    }
    assert told["github"].last is not None
    assert told["slack"].last is None


async def test_a_reload_keeps_what_is_remembered_and_takes_new_secrets() -> None:
    renewed = [
        {**each, "secret": "new"}
        for each in INTAKES
        if "preset" in each and each["secret"] == SECRET
    ]
    async with IntakeBench().open() as house:
        assert (await house.post("github", GOOD["github"](0))).status == 202
        house.reload(renewed)
        assert (await house.post("github", GOOD["github"](0))).status == 401
        again = await house.post("github", publishers.github(PUSH, secret="new"))
        assert again.headers["skybridge-duplicate"] == "true"
        assert problem(await house.post("erp", GOOD["erp"](0)))[0] == 404
