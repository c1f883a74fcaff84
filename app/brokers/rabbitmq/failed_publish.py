"""Find the record in flight that made the broker close a channel.

The broker names the exchange or the size, and never the record. All other records in flight fail too,
although they are valid.
"""

from __future__ import annotations

from collections.abc import Callable

from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.errors import (
    error_text,
    largest_body,
    missing_exchange,
    refused_exchange,
    translate,
)
from app.brokers.rabbitmq.targets import RabbitTargets
from app.brokers.rabbitmq.unconfirmed import Entry
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown

Culprits = Callable[[Entry], BrokerError | None]
"""A function that returns the error of a record in flight on a closed channel, or None if the record is not at fault."""


def rejects_a_record(error: BaseException) -> bool:
    """Return True if the broker closed the channel because of the content of a record that it does not
    name.

    An example is a header "CC" that is not a list.
    """
    return isinstance(error, amqp.ChannelPreconditionFailed) and largest_body(error) is None


def rejected(error: BaseException, broker: str, entry: Entry) -> BrokerRefused:
    """Return the error for a record that closed its channel while it was the only one in flight."""
    text = (
        f"RabbitMQ {broker} rejected a record for {entry[0].topic}: {error_text(error)}. Cure: change or leave out"
        " the header that RabbitMQ names"
    )
    return BrokerRefused(text, kind="rejected", broker=broker)


def find_culprits(error: BaseException, broker: str, targets: RabbitTargets) -> Culprits:
    """Return a function that finds the records at fault, from the broker's message.

    Topics that are missing or forbidden are removed from ``targets``.
    """
    meaning = translate(error, broker) or BrokerUnavailable(repr(error), broker=broker)
    missing, refused, bound = (
        missing_exchange(error),
        refused_exchange(error),
        largest_body(error),
    )
    if missing is not None:
        targets.forget(missing)
        unknown = PublishUnknown(str(meaning), broker=broker)  # earlier records may be stored
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
