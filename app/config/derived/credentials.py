"""What callers prove themselves with, as it is in force: tokens of operators, keys and passwords of producers and users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.model.secret import FileSecret, Mark
from app.tls import mark_of


def credentials(config: Config) -> Iterator[FileSecret]:
    admin = config.server.admin
    named = [text for each in admin.tokens for text in (each.token, each.previous_token)]
    yield from filter(None, (admin.token, *named))
    for producer in config.producers:
        yield from producer.keys
        if producer.kafka is not None:
            yield producer.kafka.password
    for broker in config.brokers.values():
        if isinstance(broker, EmbeddedBroker) and broker.kafka_listener is not None:
            sasl = broker.kafka_listener.sasl
            yield from () if sasl is None else sasl.users.values()


def texts(config: Config) -> tuple[str, ...]:
    """What they are. Two secrets of one file are equal, whatever is in it (``FileSecret``)."""
    return tuple(each.get_secret_value() for each in credentials(config))


Marks = tuple[Mark | None, ...]


def marks(config: Config) -> Marks:
    """Of the files that they are in, of the keys of token issuers, and of the schemas of routes: others when a
    file is another one. Of the disk."""
    return (*map(mark_of, _paths(config)), *map(mark_of, _unread(config)))


def marks_as_read(config: Config) -> Marks:
    """As ``marks``, when the configuration was just read: a credential's mark is from before it was."""
    read = [each.mark for each in credentials(config) if each.path]
    return (*read, *map(mark_of, _unread(config)))


def _paths(config: Config) -> Iterator[str]:
    return (each.path for each in credentials(config) if each.path)


def _unread(config: Config) -> Iterator[Path]:
    """Files that are read only when the configuration is put to use."""
    yield from (e.jwt.jwks for e in config.producers if e.jwt is not None and e.jwt.jwks)
    for route in config.routes:
        if route.data_schema is not None:
            yield from route.data_schema.files
