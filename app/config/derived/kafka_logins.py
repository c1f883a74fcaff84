"""The logins of a Kafka listener: producers with ``kafka``, and users of the old form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.config.model.kafka_listener import KafkaListener, ListenerSasl, Mechanism
from app.errors import SetupError
from app.model.producer import Producer
from app.model.secret import FileSecret


class KafkaLogins(NamedTuple):
    """``passwords`` by user, the users of ``sasl.users`` first; ``mechanisms`` in the order of preference."""

    mechanisms: tuple[Mechanism, ...]
    passwords: Mapping[str, FileSecret]


def kafka_logins(listener: KafkaListener, producers: Sequence[Producer]) -> KafkaLogins | None:
    """None where clients need not log in."""
    named = {each.name: each.kafka.password for each in producers if each.kafka is not None}
    if listener.sasl is None and not named:
        return None
    sasl = listener.sasl or ListenerSasl()
    return KafkaLogins(sasl.mechanisms, {**sasl.users, **named})


class Login(NamedTuple):
    mechanism: Mechanism
    user: str
    password: str


def reader_logins(
    listener: KafkaListener, producers: Sequence[Producer], setting: str
) -> Login | None:
    """What the pipeline logs in with: the first user of the old form, or the first producer that may read
    every topic, and write every one if there is such a producer; None where clients need not log in. Raises SetupError where nobody may read all."""
    logins = kafka_logins(listener, producers)
    if logins is None:
        return None
    old = () if listener.sasl is None else listener.sasl.users
    reading = [each for each in producers if each.kafka is not None and "*" in each.kafka.read]
    reading.sort(key=lambda each: each.kafka is not None and "*" not in each.kafka.write)
    for user in (*old, *(each.name for each in reading)):
        return Login(logins.mechanisms[0], user, logins.passwords[user].get_secret_value())
    raise SetupError(
        "the pipeline reads this log, and no producer may read all of it",
        setting=setting,
        cure='add a producer with kafka: {password: ..., read: ["*"], groups: ["*"]}',
    )
