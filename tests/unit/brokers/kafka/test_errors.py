"""What the client's errors mean, to the caller and to the producer that met them."""

from __future__ import annotations

import pytest
from aiokafka import errors as kafka

from app.brokers.kafka.errors import (
    CODES,
    Abandoned,
    FailureAction,
    KafkaRefusal,
    explain,
    judge,
    refusal_of,
    translate,
)
from app.errors import BrokerRefused, BrokerUnavailable, PublishUnknown, UnclearRefusal


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (kafka.OutOfOrderSequenceNumber(), FailureAction.AGAIN),
        (kafka.ProducerFenced(), FailureAction.AGAIN),
        (kafka.InvalidProducerEpoch(), FailureAction.AGAIN),
        (kafka.UnknownProducerId(), FailureAction.AGAIN),
        (kafka.KafkaError("Unexpected error during batch delivery"), FailureAction.AGAIN),
        (Abandoned(), FailureAction.AGAIN),
        (kafka.MessageSizeTooLargeError(), FailureAction.NARROW),
        (kafka.UnknownError(), FailureAction.NARROW),
        (kafka.TopicAuthorizationFailedError("t"), FailureAction.ANSWER),
        (kafka.InvalidTopicError("t"), FailureAction.ANSWER),
        (kafka.CorruptRecordException(), FailureAction.NARROW),
        (kafka.PolicyViolationError(), FailureAction.NARROW),
    ],
)
def test_each_failure_of_a_batch_has_its_verdict(error: Exception, verdict: FailureAction) -> None:
    """Reliability 5.1: a wedged producer is replaced, a culprit is looked for, the rest is told."""
    assert judge(error) is verdict


@pytest.mark.parametrize(
    ("error", "meaning", "kind"),
    [
        (kafka.MessageSizeTooLargeError(), BrokerRefused, "record-too-large"),
        (kafka.TopicAuthorizationFailedError("t"), BrokerRefused, "not-authorised"),
        (kafka.GroupAuthorizationFailedError("g"), BrokerRefused, "not-authorised"),
        (kafka.UnknownTopicOrPartitionError("t"), BrokerRefused, "unknown-topic"),
        (kafka.RequestTimedOutError(), PublishUnknown, None),
        (kafka.NotLeaderForPartitionError(), BrokerUnavailable, None),
        (kafka.NotEnoughReplicasError(), BrokerUnavailable, None),
        (ConnectionRefusedError(), BrokerUnavailable, None),
        (TimeoutError(), BrokerUnavailable, None),
    ],
)
def test_each_error_is_explained(error: Exception, meaning: type, kind: str | None) -> None:
    """A caller acts on the class and the kind, never on aiokafka's names."""
    explained = translate(error, "main")
    assert type(explained) is meaning
    assert explained is not None
    assert explained.broker == "main"
    assert getattr(explained, "kind", None) == kind
    assert str(explained).count(type(error).__name__) == 1


@pytest.mark.parametrize(
    ("code", "meaning", "kind"),
    [
        (3, BrokerRefused, "unknown-topic"),
        (7, PublishUnknown, None),
        (10, BrokerRefused, "record-too-large"),
        (18, BrokerRefused, "record-too-large"),
        (19, BrokerUnavailable, None),
        (29, BrokerRefused, "not-authorised"),
        (32, BrokerRefused, "rejected"),
        (42, BrokerRefused, "other"),
        (44, BrokerRefused, "rejected"),
        (56, BrokerUnavailable, None),
        (74, BrokerUnavailable, None),
        (76, BrokerRefused, "other"),
        (87, BrokerRefused, "rejected"),
        (89, BrokerUnavailable, None),
        (-1, UnclearRefusal, None),
        (2, UnclearRefusal, None),
        (131, UnclearRefusal, None),
    ],
)
def test_each_code_of_produce_is_refused_retried_or_open(
    code: int, meaning: type, kind: str | None
) -> None:
    """The client makes "UnknownError" of each code that it does not know, 87 (INVALID_RECORD) among them."""
    error = kafka.for_code(code)()
    refusal = refusal_of(error, KafkaRefusal(code))
    assert refusal == KafkaRefusal(code)
    explained = explain(refusal, "main", "orders")
    assert type(explained) is meaning
    assert getattr(explained, "kind", None) == kind
    assert "topic orders" in str(explained)
    assert explained.broker == "main"
    if meaning is BrokerRefused:
        assert "Cure: " in str(explained)


@pytest.mark.parametrize("code", [code for code, row in CODES.items() if row.kind and code != 87])
def test_each_refusal_has_a_cause_of_its_own(code: int) -> None:
    told = str(explain(KafkaRefusal(code), "main", "orders"))
    assert CODES[code].name in told
    assert "compacted" not in told


def test_an_answer_of_an_earlier_batch_is_not_taken_for_this_one() -> None:
    assert refusal_of(kafka.NotLeaderForPartitionError(), KafkaRefusal(87)) == KafkaRefusal(6)
    assert refusal_of(Abandoned(), KafkaRefusal(87)) is None
    assert refusal_of(ConnectionRefusedError(111, "refused"), KafkaRefusal(111)) is None


@pytest.mark.parametrize("key", [None, b"k"])
def test_a_rejected_record_is_told_its_likely_cause_or_the_words_of_the_broker(
    key: bytes | None,
) -> None:
    guessed = str(explain(KafkaRefusal(87), "main", "orders", key))
    assert ("compacted" in guessed) is (key is None)
    said = str(explain(KafkaRefusal(87, words="batch"), "main", "orders", key, "x" * 1_000))
    assert said.count("x") == 300
    assert "batch" not in said


def test_a_policy_that_forbids_a_topic_refuses_no_record() -> None:
    """A question, such as for a new topic, may be answered with the code of a record."""
    explained = translate(kafka.PolicyViolationError("no"), "main")
    assert isinstance(explained, BrokerRefused)
    assert not explained.of_record


def test_a_bug_is_not_explained_away() -> None:
    """What is no broker's doing must surface."""
    assert translate(KeyError("x"), "main") is None


def test_what_was_abandoned_is_not_retried_by_the_client() -> None:
    """Rule 9 hangs on it: aiokafka retries whatever says that it may be."""
    assert not Abandoned().retriable
