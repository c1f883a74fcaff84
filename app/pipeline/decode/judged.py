"""Decode one record with ``app.bindings`` into the columns of the lake. This module is pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from app.bindings import kafka
from app.bindings.headers import NotACloudEvent
from app.bindings.record import Decoded, Record
from app.errors import Fault, InvalidEvent, SenderError
from app.event.value import AttributeType
from app.event.versions import NEWEST, VERSIONS

Pairs = list[tuple[str, str]]
"""A map in the form that Arrow takes: pairs of key and value."""

CORE = frozenset(VERSIONS[NEWEST].rules)
"""The attributes with a column of their own, which are always Strings. All others are in
``extensions`` and ``types``.
"""

_STRING = AttributeType.STRING
_BROKEN = "decoder-failed"


class DecodedRow(NamedTuple):
    """A decoded record as the columns ``ATTRIBUTES`` without ``time``, ``DATA``, ``ARRIVAL`` and
    ``VERDICT`` of ``pipeline.tables``, in their order.
    """

    specversion: str | None = None
    id: str | None = None
    source: str | None = None
    type: str | None = None
    subject: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    time_text: str | None = None
    extensions: Pairs | None = None
    types: Pairs | None = None
    data: str | None = None
    data_bytes: bytes | None = None
    data_form: str | None = None
    content_mode: str | None = None
    origin_version: str | None = None
    verdict: str | None = None
    rule: str | None = None
    detail: str | None = None
    faults: list[dict[str, str]] | None = None


VERDICT = DecodedRow._fields[-4:]
"""The columns that state why a record is not a valid event."""


def decode_row(record: Record, decode: Callable[[Record], Decoded] = kafka.decode) -> DecodedRow:
    """Decode a record into its columns; ``verdict`` is None for a valid event.

    The function never raises: an error in the decoder must not end the query. Such a record goes to
    ``quarantine`` and can be redriven later.

    Args:
        record: The record.
        decode: The decoder of the binding by which the record was received.
    """
    try:
        decoded = decode(record)
    except InvalidEvent as invalid:
        return _refused("invalid", invalid.faults[0].code, invalid)
    except NotACloudEvent as foreign:
        return _refused("foreign", foreign.code, foreign)
    except SenderError as unreadable:
        return _refused("unreadable", unreadable.code, unreadable)
    except Exception as bug:  # noqa: BLE001 - an error must not end the query
        return DecodedRow(verdict="unreadable", rule=_BROKEN, detail=_writable(repr(bug)))
    return _unsupported(decoded) if decoded.opaque else _row(decoded)


def _row(decoded: Decoded) -> DecodedRow:
    event = decoded.event
    attributes = event.attributes
    data, data_bytes = _text_or_bytes(event.data)
    kinds = [(name, kind.value) for name, kind in event.types.items() if kind is not _STRING]
    return DecodedRow(
        attributes["specversion"],
        event.id,
        event.source,
        event.type,
        attributes.get("subject"),
        event.datacontenttype,
        attributes.get("dataschema"),
        attributes.get("time"),
        [(name, text) for name, text in attributes.items() if name not in CORE],
        kinds or None,
        data,
        data_bytes,
        event.data_form.value,
        decoded.mode.value,
        event.version,
    )


def _text_or_bytes(data: bytes | None) -> tuple[str | None, bytes | None]:
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, data


def _unsupported(opaque: Decoded) -> DecodedRow:
    """Return the columns of an event in a format that Skybridge passes on unread: the lake has no
    columns for its content.
    """
    detail = f"Skybridge cannot read the format {opaque.media_type}."
    return DecodedRow(verdict="unreadable", rule="unsupported-format", detail=_writable(detail))


def _refused(verdict: str, rule: str, error: SenderError) -> DecodedRow:
    faults = [_fault(fault) for fault in error.faults] or None
    return DecodedRow(verdict=verdict, rule=rule, detail=_writable(str(error)), faults=faults)


def _fault(fault: Fault) -> dict[str, str]:
    named = {"code": fault.code, "detail": fault.detail, "at": fault.at, "rule": fault.rule}
    return {name: _writable(text) for name, text in named.items()}


def _writable(text: str) -> str:
    """Replace lone surrogates, which a sender may have written, because UTF-8 cannot encode them."""
    return text.encode("utf-8", "replace").decode()
