"""The official SDKs of four languages on the corpus, on what Skybridge writes, and as its senders."""

from __future__ import annotations

import pytest

from opinion_cases import corpus_questions, exchanges
from opinion_install import SDKS
from opinion_list import disagreeing, listed, unlisted, vanished
from opinion_skybridge import Skybridge
from opinion_verdicts import judged, opinions_of

KNOWN = listed()
BUILT_AT_LENGTH = {"go", "java"}  # Go compiles its library too, and Maven fetches for half a minute
every_sdk = pytest.mark.parametrize(
    "sdk",
    [
        pytest.param(sdk, marks=pytest.mark.nightly) if sdk in BUILT_AT_LENGTH else sdk
        for sdk in SDKS
    ],
)


def test_skybridge_agrees_with_the_corpus_and_reads_what_it_writes():
    """The measure for all others: no case of the corpus, and no nasty event, is read otherwise."""
    ours = opinions_of(Skybridge(), frozenset())
    assert not disagreeing(ours)
    assert sum(each.valid for each in ours) > 400
    assert sum(not each.valid for each in ours) > 200


@every_sdk
def test_every_disagreement_is_listed(sdk, verdicts):
    """An SDK that reads or writes otherwise is a risk to somebody's events, until somebody has looked
    at it and said which clause decides.
    """
    assert not unlisted(sdk, verdicts(sdk), KNOWN)


@every_sdk
def test_every_listed_disagreement_still_happens(sdk, verdicts):
    """A list that holds what was mended long ago misleads those who read it."""
    assert not vanished(sdk, verdicts(sdk), KNOWN)


@every_sdk
def test_most_events_go_both_ways(sdk, verdicts):
    """Otherwise the driver would be at fault, not the SDK."""
    for way in ("reads/", "writes/"):
        asked = [
            each for each in verdicts(sdk) if each.case.startswith(way) and each.verdict != "unable"
        ]
        assert len(asked) > 300
        assert sum(not each.verdict for each in asked) > len(asked) / 2


def test_each_class_says_what_decides():
    """A disagreement without a clause is an opinion of ours, and no use to anybody."""
    assert len({each.about for each in KNOWN.classes}) == len(KNOWN.classes)
    for each in KNOWN.classes:
        assert each.clause
        assert each.cause
        assert each.right in ("Skybridge", "open", "the SDKs")
        assert each.sdks
        assert each.sdks.keys() <= SDKS.keys()


def test_questions_are_many_and_told_apart():
    """A pattern of the list names cases by their ids."""
    ids = [each.id for each in (*corpus_questions(), *exchanges())]
    assert len(ids) == len(set(ids))
    assert {each.split("/")[0] for each in ids} >= {"http", "kafka", "json"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"attributes": {"id": "2"}}, "id"),
        ({"attributes": {"extra": "x"}}, "+extra"),
        ({"attributes": {"subject": None}}, "-subject"),
        ({"attributes": {"time": "2024-02-29T12:00:00.1Z"}}, "time"),
        ({"data": {"json": "[12345678901234567891]"}}, "data"),
        ({"data": None}, "data"),
    ],
)
def test_what_differs_is_seen(change, named):
    """A comparison that never finds anything would prove nothing."""
    exchange = next(each for each in exchanges() if each.id == "http-structured-1.0:all-core")
    seen = {
        "attributes": {**exchange.event["attributes"], **change.get("attributes", {})},
        "data": change.get("data", exchange.event["data"]),
    }
    assert judged({"events": [exchange.event]}, [exchange.expected])[0] == ""
    assert judged({"events": [seen]}, [exchange.expected])[:2] == ("differs", named)
