"""Which of the records in flight a publish that closed its channel was about.

The broker names the exchange, or the size, and never the message; everything else in flight fails with it
though nothing is wrong with it (reliability 5.2).
"""

from __future__ import annotations

from app.brokers.rabbitmq.errors import largest_body, missing_exchange, refused_exchange, translate
from app.brokers.rabbitmq.targets import Targets
from app.brokers.rabbitmq.unconfirmed import Entry
from app.errors import BrokerError, BrokerUnavailable, PublishUnknown


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
        return Culprits(unknown, exchange=missing)
    if refused is not None:
        for name, lanes in list(targets.known.items()):
            if lanes.target.exchange == refused:
                targets.refuse(name, meaning)
        return Culprits(meaning, exchange=refused)
    if bound is not None:
        return Culprits(meaning, larger_than=bound)
    return Culprits(PublishUnknown(str(meaning), broker=broker), everything=True)


class Culprits:
    """Which of the records of a closed channel meet which fate."""

    def __init__(
        self,
        error: BrokerError,
        *,
        exchange: str | None = None,
        larger_than: int | None = None,
        everything: bool = False,
    ) -> None:
        self._error = error
        self._exchange = exchange
        self._larger_than = larger_than
        self._everything = everything

    def __call__(self, entry: Entry) -> BrokerError | None:
        _, _, record, lanes, _ = entry
        bound = self._larger_than
        if (
            self._everything
            or (self._exchange is not None and lanes.target.exchange == self._exchange)
            or (bound is not None and len(record.body or b"") > bound)
        ):
            return self._error
        return None
