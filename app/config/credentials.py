"""What callers prove themselves with, as it is in force: keys and passwords of producers and users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from app.config.brokers import EmbeddedBroker
from app.config.model import Config
from app.model.secret import FileSecret


def credentials(config: Config) -> Iterator[FileSecret]:
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


def marks(config: Config) -> tuple[tuple[int, int, int] | None, ...]:
    """Of the files that they are in, and of the keys of token issuers: others when a file is another one."""
    files = [each.path for each in credentials(config) if each.path]
    files += [str(e.jwt.jwks) for e in config.producers if e.jwt is not None and e.jwt.jwks]
    return tuple(_mark(Path(each)) for each in files)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
