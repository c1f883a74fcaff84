"""What is sent of a record. What marks a replay stands beside the event: its names begin with no ``ce_``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from app.bindings import kafka
from app.bindings.record import Header, Record
from app.bindings.transcode import Writing
from app.event.versions import NEWEST

Form = Literal["recorded", "1.0"]
"""``recorded``: byte for byte. ``1.0``: events of older versions brought up; those of 1.0 byte for byte."""

MARK: Final = "skybridge-replay"
"""Header whose value is the replay's id."""

REDRIVEN: Final = "skybridge-redrive"
"""Header of what ``redrive`` brings back to a topic."""

UPGRADED: Final = Writing(mode="as_received", version=NEWEST)

Write = Callable[[Record], Record]
"""Raises SenderError for a record that cannot be written so."""


def writer(form: Form, mark: str | None, name: str = MARK) -> Write:
    """``mark``: the value of a last header of that name; None: nothing is put to a record."""
    marks: tuple[Header, ...] = () if mark is None else ((name, mark.encode()),)

    def write(record: Record) -> Record:
        made = record if form == "recorded" else upgraded(record)
        return Record(made.key, made.headers + marks, made.body) if marks else made

    return write


def upgraded(record: Record) -> Record:
    decoded = kafka.decode(record)
    if decoded.opaque or decoded.event.version == NEWEST:
        return record
    return kafka.encode(decoded, UPGRADED, record.key)
