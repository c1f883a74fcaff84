"""The credentials in a configuration: tokens of operators, keys of producers, passwords of Kafka
users.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from app.config.model.brokers import EmbeddedBroker
from app.config.model.config import Config
from app.model.secret import FileSecret, Mark
from app.tls import mark_of


def credentials(config: Config) -> Iterator[FileSecret]:
    """Yield every credential with which a caller of the service can log in."""
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
    """Return the text of every credential. A reload compares these texts, because two secrets from
    the same file compare equal even if the file changed.
    """
    return tuple(each.get_secret_value() for each in credentials(config))


Marks = tuple[Mark | None, ...]


def marks(config: Config) -> Marks:
    """Return the mark of each file with credentials, issuer keys or schemas, as the file is on the
    disk now. The mark of a file changes when the file changes.
    """
    return (*map(mark_of, _paths(config)), *map(mark_of, _unread(config)))


def marks_as_read(config: Config) -> Marks:
    """Return the marks of the files of a configuration that was just read. The mark of a
    credential's file was taken before the file was read, so a later change is noticed.
    """
    read = [each.mark for each in credentials(config) if each.path]
    return (*read, *map(mark_of, _unread(config)))


def _paths(config: Config) -> Iterator[str]:
    return (each.path for each in credentials(config) if each.path)


def _unread(config: Config) -> Iterator[Path]:
    """Yield the files that are read only when the configuration is applied."""
    yield from (e.jwt.jwks for e in config.producers if e.jwt is not None and e.jwt.jwks)
    for route in config.routes:
        if route.data_schema is not None:
            yield from route.data_schema.files
    yield from (each.data_schema for each in config.pipeline.tables)
