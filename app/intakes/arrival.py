"""A request as it arrived at an intake, and JSON pointers into its body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl

import msgspec

from app.event import json_text
from app.event.json_pointer import compile_lookup
from app.event.value import CloudEvent, DataForm

MAX_FIELDS = 1000  # form fields that are parsed
FORM = "application/x-www-form-urlencoded"
_CASED = b"ce-x-"  # after this prefix, names keep their case
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""The errors that parsing an untrusted body may raise."""


class IntakeRequest:
    """A request to an intake.

    ``headers`` are the header pairs with names as in ``FIELD_NAMES``, in order, with repeats.
    ``body`` is the body without its content coding. ``field`` names the form field that may hold a
    JSON document. Otherwise a form is read as an object of its fields, in which the last of
    repeated fields counts.
    """

    __slots__ = ("_document", "_is_plain", "_named", "body", "field", "headers")

    def __init__(
        self, headers: Sequence[tuple[bytes, bytes]], body: bytes, *, field: str = ""
    ) -> None:
        self.headers = headers
        self.body = body
        self.field = field
        self._document: CloudEvent | None = None
        self._named = dict(headers)
        self._is_plain = len(self._named) == len(headers)  # no header is repeated

    def values(self, name: str) -> list[bytes]:
        """Return the values of all header fields with this lower-case name."""
        wanted = name.encode()
        if self._is_plain and not wanted.startswith(_CASED):
            found = self._named.get(wanted)
            return [] if found is None else [found]
        return [value for each, value in self.headers if each.lower() == wanted]

    @property
    def content_type(self) -> str | None:
        """Return the content type, or None. Bytes that are not UTF-8 become surrogate escapes."""
        found = self.values("content-type")
        return found[-1].decode("utf-8", "surrogateescape") if found else None

    @property
    def is_form(self) -> bool:
        return (self.content_type or "").partition(";")[0].strip().lower() == FORM

    @property
    def document(self) -> CloudEvent:
        """Return an event whose data is the JSON text of the body, for pointer lookups. A form that
        is unreadable has no data.
        """
        if self._document is None:
            self._document = CloudEvent({}, self._json(), DataForm.JSON)
        return self._document

    def fields(self) -> dict[str, object] | None:
        """Return the body as an object, or None if it is no JSON object."""
        try:
            found = json_text.decode_value(self._json())
        except UNREADABLE:
            return None
        return found if isinstance(found, dict) else None

    def _json(self) -> bytes:
        if not self.is_form:
            return self.body
        try:
            text = self.body.decode()
            fields = dict(
                parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
            )
        except ValueError:
            return b""
        found = fields.get(self.field)
        return msgspec.json.encode(fields) if found is None else found.encode()


Lookup = Callable[[IntakeRequest], str | None]


def compile_pointer(pointer: str) -> Lookup:
    """Return a function that looks up a JSON pointer in a request.

    The function returns a string, a number or a boolean as text, and None for anything else. A
    string may hold unpaired surrogates. ``pointer`` begins with a slash.
    """
    find = compile_lookup(pointer)

    def text(arrival: IntakeRequest) -> str | None:
        found = find(arrival.document)
        if found is None or found[:1] in {b"{", b"[", b"n"}:
            return None
        if not found.startswith(b'"'):
            return found.decode()
        try:
            return json_text.string(found)
        except UNREADABLE:
            return None

    return text
