"""Which of the records in flight a publish that closed its channel was about.

The broker names the exchange, or the size, and never the message; everything else in flight fails with it
though nothing is wrong with it (reliability 5.2).
"""

from __future__ import annotations

from collections.abc import Callable

from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.errors import (
    largest_body,
    missing_exchange,
    refused_exchange,
    translate,
    words,
)
from app.brokers.rabbitmq.targets import Targets
from app.brokers.rabbitmq.unconfirmed import Entry
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown

Culprits = Callable[[Entry], BrokerError | None]
"""Which of the records of a closed channel meet which fate."""


def rejects_a_record(error: BaseException) -> bool:
    """Return True if the broker closed the channel for the content of a record that it does not name, such as a
    header ``CC`` that is no list."""
    return isinstance(error, amqp.ChannelPreconditionFailed) and largest_body(error) is None


def rejected(error: BaseException, broker: str, entry: Entry) -> BrokerRefused:
    """Return the fate of a record that closed its channel while it was alone on it."""
    text = (
        f"RabbitMQ {broker} refused a record for {entry[0].topic}: {words(error)}. Cure: change or leave out"
        " the header that it names"
    )
    return BrokerRefused(text, kind="rejected", broker=broker)


def find_culprits(error: BaseException, broker: str, targets: Targets) -> Culprits:
    """Reads the broker's words, and lets ``targets`` know what is gone or refused."""
    meaning = translate(error, broker) or BrokerUnavailable(repr(error), broker=broker)
    missing, refused, bound = (
        missing_exchange(error),
        refused_exchange(error),
        largest_body(error),
    )
    if missing is not None:
        targets.forget(missing)
        unknown = PublishUnknown(str(meaning), broker=broker)  # those before it were stored
        return _culprits(unknown, exchange=missing)
    if refused is not None:
        for name, batchers in list(targets.known.items()):
            if batchers.target.exchange == refused:
                targets.refuse(name, meaning)
        return _culprits(meaning, exchange=refused)
    if bound is not None:
        return _culprits(meaning, larger_than=bound)
    return _culprits(PublishUnknown(str(meaning), broker=broker), everything=True)


def _culprits(
    error: BrokerError,
    *,
    exchange: str | None = None,
    larger_than: int | None = None,
    everything: bool = False,
) -> Culprits:
    def fate(entry: Entry) -> BrokerError | None:
        _, _, record, batchers, _ = entry
        if (
            everything
            or (exchange is not None and batchers.target.exchange == exchange)
            or (larger_than is not None and len(record.body or b"") > larger_than)
        ):
            return error
        return None

    return fate
