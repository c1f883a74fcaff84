"""Checks that every reader returns valid events, or refuses them by the sender's fault, whatever arrives."""

from __future__ import annotations

from collections.abc import Callable

from app.bindings.record import Decoded
from app.bindings.table import BINDINGS
from app.bindings.transcode import PLAIN, EncodeOptions
from app.errors import SenderError
from app.event.validate import faults_of

KINDS = ("kafka", "rabbitmq", "pulsar")
AS_DOCUMENT = EncodeOptions(mode="structured")


def answered(read: Callable[[], list[Decoded]]) -> None:
    """Assert that the reader returns valid events, which every binding can write, or a fault that can be printed."""
    try:
        found = read()
    except SenderError as error:
        refused_with(error)
        return
    for decoded in found:
        assert decoded.opaque or faults_of(decoded.event.attributes, str) == []
        for kind in KINDS:
            written(decoded, kind, PLAIN)
        written(decoded, "kafka", AS_DOCUMENT)


def written(decoded: Decoded, kind: str, writing: EncodeOptions) -> None:
    """Write an event as a record, which the binding may refuse."""
    try:
        BINDINGS[kind].encode(decoded, writing, None)
    except SenderError as error:  # for example, the name is too long for AMQP
        refused_with(error)


def refused_with(error: SenderError) -> None:
    """Assert that an error names faults of the sender, with texts that can be printed."""
    assert 400 <= error.status < 500
    assert str(error).encode()
    for fault in error.faults:
        assert fault.rule
        assert fault.detail.encode()
        assert fault.at.isprintable()
