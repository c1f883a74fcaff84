"""From a credential to its producer, and from an event to what it may."""

from __future__ import annotations

import pytest

from app.access.caller import SPAN, EventMeter, EventSender
from app.access.quota import Quota
from app.access.rights import Rights, compile_patterns
from app.access.who import ProducerDirectory, claim_matches, digest_of, san_of, sans_of
from app.model.producer import May, Producer


def made(*listed: dict[str, object]) -> ProducerDirectory:
    return ProducerDirectory([Producer.model_validate(each) for each in listed])


@pytest.mark.parametrize(
    ("patterns", "text", "matches"),
    [
        (("/a",), "/a", True),
        (("/a",), "/a/b", False),
        (("/a/*",), "/a/", True),
        (("/a/*",), "/a", False),
        (("/a/*",), "/a/b/c", True),
        (("*",), "", True),
        (("/x", "/a*"), "/ab", True),
        (("/x", "/a*"), "/x", True),
        (("/x", "/a*"), "/xy", False),
        (("/A",), "/a", False),
    ],
)
def test_a_star_stands_for_any_characters(patterns: tuple[str, ...], text: str, matches: bool):
    assert compile_patterns(patterns)(text) is matches


@pytest.mark.parametrize(
    ("text", "san"),
    [
        ("spiffe://example/a", ("URI", "spiffe://example/a")),
        ("urn:x/y", ("URI", "urn:x/y")),
        ("Shop.Example", ("DNS", "shop.example")),
        ("a@shop.example", ("email", "a@shop.example")),
        ("10.0.0.1", ("IP Address", "10.0.0.1")),
        ("2001:DB8::1", ("IP Address", "2001:db8::1")),
    ],
)
def test_the_kind_of_a_name_follows_from_its_form(text: str, san: tuple[str, str]):
    """A name of one kind is never taken for one of another."""
    assert san_of(text) == san
    shown = {"subjectAltName": ((san[0], text),)}
    assert sans_of(shown) == (san,)


@pytest.mark.parametrize(
    ("claim", "value", "found"),
    [
        ("a", "a", True), (["b", "a"], "a", True), ("ab", "a", False), (None, "a", False),
        (True, True, True), (1, True, False), (True, 1, False), (1, 1, True), ("1", 1, False),
        ({"a": 1}, "a", False), ([["a"]], "a", False),
    ],
)  # fmt: skip
def test_a_claim_is_the_value_or_a_list_with_it(
    claim: object, value: str | int | bool, found: bool
):
    assert claim_matches(claim, value) is found


def test_a_key_counts_in_its_own_header_alone():
    producers = made(
        {"name": "a", "keys": ["k" * 20]}, {"name": "b", "keys": ["k" * 20], "header": "X-K"}
    )
    digest = digest_of(b"k" * 20)
    assert producers.bearers[digest_of(b"Bearer " + b"k" * 20)].name == "a"
    assert producers.by_key(b"x-k", digest).name == "b"  # type: ignore[union-attr]
    assert producers.by_key(b"x-other", digest) is None
    assert "k" * 20 not in repr(vars(producers))


def test_a_reload_keeps_what_was_used_and_counted():
    """The burst is not there again for whoever reloads."""
    quota = {"events": "10/s", "burst": 10}
    before = made({"name": "a", "keys": ["k" * 20], "quota": quota})
    before.callers["a"].take(10, 100.0)
    listed = [{"name": name, "keys": [key * 20], "quota": quota} for name, key in ("ak", "bl")]
    after = ProducerDirectory([Producer.model_validate(each) for each in listed], before.callers)
    after.take_effect(100.0)
    assert after.callers["a"].tally.events == 10
    assert after.callers["a"].allowance.remaining(100.0) == 0  # type: ignore[union-attr]


def test_rights_name_every_fault():
    rights = Rights("shop", May(routes=("orders",), sources=("/shop/*",), types=("a",)))
    refusal = rights.refusal({"source": "/x", "type": "b"}, "rest")
    assert refusal is not None
    assert [fault.code for fault in refusal.faults] == [
        "source-not-allowed", "type-not-allowed", "route-not-allowed",
    ]  # fmt: skip
    assert rights.refusal({"source": "/shop/1", "type": "a"}, None) is None
    assert rights.faults_of_route("orders") == []
    assert not Rights("free", May()).limited


def test_the_rate_is_of_about_the_last_minute():
    tally = EventMeter()
    for second in range(120):
        tally.add(5, 1_000.0 + second)
    assert tally.rate(1_120.0) == pytest.approx(5.0, rel=0.05)
    assert tally.rate(1_120.0 + 3 * SPAN) == 0.0
    assert (tally.events, tally.last) == (600, 1_119.0)


def test_the_rate_of_the_first_minute_is_since_the_first_event():
    """The page of producers showed 13 events a second of a producer that had sent 28 for half a minute."""
    tally = EventMeter()
    for second in range(30):
        tally.add(28, 1_010.0 + second)
    assert tally.rate(1_040.0) == pytest.approx(28.0, rel=0.05)
    once = EventMeter()
    once.add(1, 1_010.0)
    assert once.rate(1_010.0) == 1.0


def test_an_unknown_caller_has_no_quota_unless_it_is_given_one():
    caller = EventSender("", Rights("", May()))
    caller.take(1 << 30, 0.0)
    assert EventSender("", Rights("", May()), Quota(1.0, 1)).allowance is not None
