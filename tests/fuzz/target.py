"""What a fuzz target is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple


class Target(NamedTuple):
    """A parser under test.

    Attributes:
        name: The name on the command line.
        check: Raise an exception if the parser does what it must not do with these bytes.
        seeds: Valid inputs, which the fuzzer changes.
        tokens: Bytes that the fuzzer puts into inputs.
    """

    name: str
    check: Callable[[bytes], None]
    seeds: Sequence[bytes]
    tokens: Sequence[bytes] = ()


def demand(condition: bool) -> None:
    """Raise AssertionError unless the condition holds. For what a check demands of an exception."""
    assert condition


MODULES = {
    "http-head": "http",
    "http-event": "http",
    "json-text": "json",
    "json-event": "json",
    "json-batch": "json",
    "protobuf-event": "formats",
    "avro-event": "formats",
    "amqp-header": "amqp",
    "amqp-frames": "amqp",
    "kafka-request": "kafka",
    "kafka-produced": "kafka",
    "kafka-fetched": "kafka",
    "kafka-answer": "kafka",
    "kafka-login": "kafka",
    "pulsar-answers": "pulsar",
    "cesql": "cesql",
    "yaml": "configuration",
    "templates": "configuration",
    "urls": "configuration",
    "tokens": "tokens",
}
"""The module of each target, without its prefix. A module is imported only for its targets, while the fuzzer watches
the imports."""


def target(name: str) -> Target:
    """Return the target of this name."""
    module = import_module(f"fuzz.targets_{MODULES[name]}")
    return next(each for each in module.TARGETS if each.name == name)
