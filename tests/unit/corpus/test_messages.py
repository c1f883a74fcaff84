"""The bindings of the brokers on the project's own corpus: what is read, refused, written again and
carried on.
"""

from __future__ import annotations

import pytest

from app.bindings.transcode import PLAIN, EncodeOptions
from corpus import cases
from corpus_records import (
    AS_RECEIVED,
    assert_carried,
    assert_documented,
    assert_expected,
    assert_rewritten,
    assert_upgraded,
    is_accepted,
)
from row_checks import check_every

CASES = [case for folder in ("kafka", "pulsar", "rabbitmq") for case in cases(folder)]
TAKEN = [case for case in CASES if is_accepted(case)]
EVENTS = [case for case in CASES if "events" in case.expect]
WRITINGS = pytest.mark.parametrize("writing", [PLAIN, AS_RECEIVED], ids=["binary", "as_received"])


def test_a_message_is_read_as_the_rules_say() -> None:
    """K1-K18, P1-P7, R1-R11, V1-V7: the exact event, faults, refusal or opaque document, with the headers
    beside it.
    """
    check_every(CASES, assert_expected)


@WRITINGS
def test_what_is_written_again_is_the_same_event(writing: EncodeOptions) -> None:
    """An encoder never writes what its own reader takes for another event; foreign headers stay (I3)."""
    check_every(TAKEN, lambda case: assert_rewritten(case, writing))


@WRITINGS
def test_an_event_is_the_same_at_every_other_broker(writing: EncodeOptions) -> None:
    """I2, I3, V4: nothing changes on the way around but what the case declares as lost there."""
    check_every(TAKEN, lambda case: assert_carried(case, writing))


@pytest.mark.parametrize(
    "writing",
    [
        EncodeOptions(strings="json"),
        EncodeOptions(names="ce_"),
        EncodeOptions(names="ce_", strings="json"),
    ],
    ids=["json", "ce_", "ce_json"],
)
def test_every_profile_of_pulsar_is_read_back(writing: EncodeOptions) -> None:
    """P5, P6: the letter of the draft, and Kafka's names, say the same."""
    of_pulsar = [case for case in TAKEN if case.folder == "pulsar"]
    check_every(of_pulsar, lambda case: assert_rewritten(case, writing))


def test_an_event_becomes_a_document_and_is_the_same() -> None:
    """J1-J13, 4.7: a route that writes JSON documents writes this event, or refuses what it cannot read."""
    check_every(TAKEN, assert_documented)


def test_an_event_of_any_version_goes_on_as_1_0() -> None:
    """V7: a route that says specversion 1.0 changes no attribute and no byte of data."""
    check_every(EVENTS, assert_upgraded)
