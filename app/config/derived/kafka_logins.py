"""The logins of a Kafka listener. They are the producers with ``kafka``, and the users in the old
setting ``sasl.users``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.config.model.kafka_listener import KafkaListener, ListenerSasl, Mechanism
from app.errors import SetupError
from app.model.producer import Producer
from app.model.secret import FileSecret


class KafkaLogins(NamedTuple):
    """The logins of a Kafka listener. ``passwords`` has the password of each user, with the users
    of ``sasl.users`` first. ``mechanisms`` has the login mechanisms, the preferred one first.
    """

    mechanisms: tuple[Mechanism, ...]
    passwords: Mapping[str, FileSecret]


def kafka_logins(listener: KafkaListener, producers: Sequence[Producer]) -> KafkaLogins | None:
    """Return the logins of a listener, or None if its clients need not log in."""
    named = {each.name: each.kafka.password for each in producers if each.kafka is not None}
    if listener.sasl is None and not named:
        return None
    sasl = listener.sasl or ListenerSasl()
    return KafkaLogins(sasl.mechanisms, {**sasl.users, **named})


class ReaderLogin(NamedTuple):
    """The mechanism, user and password with which the pipeline logs in to a Kafka listener."""

    mechanism: Mechanism
    user: str
    password: str


def reader_logins(
    listener: KafkaListener, producers: Sequence[Producer], setting: str
) -> ReaderLogin | None:
    """Return the login with which the pipeline reads a Kafka listener, or None if clients need not
    log in.

    The first user of ``sasl.users`` is preferred, then a producer that may read and write every
    topic, then one that may read every topic.

    Raises:
        SetupError: If no producer may read every topic.
    """
    logins = kafka_logins(listener, producers)
    if logins is None:
        return None
    old = () if listener.sasl is None else listener.sasl.users
    reading = [each for each in producers if each.kafka is not None and "*" in each.kafka.read]
    reading.sort(key=lambda each: each.kafka is not None and "*" not in each.kafka.write)
    for user in (*old, *(each.name for each in reading)):
        return ReaderLogin(logins.mechanisms[0], user, logins.passwords[user].get_secret_value())
    raise SetupError(
        "The pipeline reads this log, but no producer has the right to read every topic.",
        setting=setting,
        cure='Add a producer with kafka: {password: ..., read: ["*"], groups: ["*"]}.',
    )
