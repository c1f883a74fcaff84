"""What the errors of Kafka and of its client mean, to the caller and to the publisher."""

from __future__ import annotations

import pytest
from aiokafka import errors as kafka

from app.brokers.kafka.errors import (
    CODES,
    FailureAction,
    KafkaRefusal,
    explain,
    judge,
    refusal_of,
    translate,
)
from app.errors import BrokerRefused, BrokerUnavailable, PublishUnknown, UnclearRefusal


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (6, FailureAction.RESEND),  # NOT_LEADER_OR_FOLLOWER
        (7, FailureAction.RESEND),  # REQUEST_TIMED_OUT
        (20, FailureAction.RESEND),  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        (45, FailureAction.AGAIN),  # OUT_OF_ORDER_SEQUENCE_NUMBER
        (47, FailureAction.AGAIN),  # INVALID_PRODUCER_EPOCH
        (59, FailureAction.AGAIN),  # UNKNOWN_PRODUCER_ID
        (90, FailureAction.AGAIN),  # PRODUCER_FENCED
        (10, FailureAction.NARROW),  # MESSAGE_TOO_LARGE
        (2, FailureAction.NARROW),  # CORRUPT_MESSAGE
        (-1, FailureAction.NARROW),  # UNKNOWN_SERVER_ERROR
        (44, FailureAction.NARROW),  # POLICY_VIOLATION
        (29, FailureAction.ANSWER),  # TOPIC_AUTHORIZATION_FAILED
        (17, FailureAction.ANSWER),  # INVALID_TOPIC_EXCEPTION
    ],
)
def test_each_code_for_a_wire_batch_has_its_verdict(code: int, verdict: FailureAction) -> None:
    """Reliability 5.1: a producer id of no use is replaced, a culprit is looked for, the rest fail."""
    assert judge(KafkaRefusal(code)) is verdict


def test_what_aiokafka_would_send_again_is_sent_again() -> None:
    """Its list of temporary errors is that of Kafka's own clients."""
    temporary = {
        each.errno
        for each in vars(kafka).values()
        if isinstance(each, type) and issubclass(each, kafka.BrokerResponseError) and each.retriable
    }
    assert {code for code, row in CODES.items() if row.next is FailureAction.RESEND} == temporary


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
    explained = explain(KafkaRefusal(code), "main", "orders")
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


def test_only_an_answer_of_the_broker_is_a_refusal() -> None:
    assert refusal_of(kafka.NotLeaderForPartitionError()) == KafkaRefusal(6)
    assert refusal_of(kafka.NodeNotReadyError()) is None
    assert refusal_of(ConnectionRefusedError(111, "refused")) is None


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
