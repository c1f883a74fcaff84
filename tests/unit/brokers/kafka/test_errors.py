"""What the client's errors mean, to the caller and to the producer that met them."""

from __future__ import annotations

import pytest
from aiokafka import errors as kafka

from app.brokers.kafka.errors import Abandoned, Next, judge, translate
from app.errors import BrokerRefused, BrokerUnavailable, PublishUnknown


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (kafka.OutOfOrderSequenceNumber(), Next.AGAIN),
        (kafka.ProducerFenced(), Next.AGAIN),
        (kafka.InvalidProducerEpoch(), Next.AGAIN),
        (kafka.UnknownProducerId(), Next.AGAIN),
        (kafka.KafkaError("Unexpected error during batch delivery"), Next.AGAIN),
        (Abandoned(), Next.AGAIN),
        (kafka.MessageSizeTooLargeError(), Next.NARROW),
        (kafka.UnknownError(), Next.NARROW),
        (kafka.TopicAuthorizationFailedError("t"), Next.ANSWER),
        (kafka.InvalidTopicError("t"), Next.ANSWER),
    ],
)
def test_each_failure_of_a_batch_has_its_verdict(error: Exception, verdict: Next) -> None:
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


def test_a_bug_is_not_explained_away() -> None:
    """What is no broker's doing must surface."""
    assert translate(KeyError("x"), "main") is None


def test_what_was_abandoned_is_not_retried_by_the_client() -> None:
    """Rule 9 hangs on it: aiokafka retries whatever says that it may be."""
    assert not Abandoned().retriable
