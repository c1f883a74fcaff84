"""A request as it arrived at an intake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl

import msgspec

from app.event import json_text
from app.event.json_pointer import compile_lookup
from app.event.value import CloudEvent, DataForm

MOST_FIELDS = 1000  # of a form
FORM = "application/x-www-form-urlencoded"
_CASED = b"ce-x-"  # what follows may be in any case
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading a body of a stranger may raise."""


class IntakeRequest:
    """``headers``: names as ``FIELD_NAMES`` has them, order and repeats kept. ``body``: the bytes that pointers look into.

    ``field``  of a form: the one that may hold a JSON document. Without it a form is an object of its
               fields, of repeated ones the last.
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
        self._is_plain = len(self._named) == len(headers)  # nothing is repeated

    def values(self, name: str) -> list[bytes]:
        """Every header field of that name, which is in lower case."""
        wanted = name.encode()
        if self._is_plain and not wanted.startswith(_CASED):
            found = self._named.get(wanted)
            return [] if found is None else [found]
        return [value for each, value in self.headers if each.lower() == wanted]

    @property
    def content_type(self) -> str | None:
        """None where there is none. What is not UTF-8 keeps its bytes as lone surrogates."""
        found = self.values("content-type")
        return found[-1].decode("utf-8", "surrogateescape") if found else None

    @property
    def is_form(self) -> bool:
        return (self.content_type or "").partition(";")[0].strip().lower() == FORM

    @property
    def document(self) -> CloudEvent:
        """The JSON text of the body as the data of an event, for lookups. Empty where there is none."""
        if self._document is None:
            self._document = CloudEvent({}, self._json(), DataForm.JSON)
        return self._document

    def fields(self) -> dict[str, object] | None:
        """The document, where it is an object."""
        try:
            found = json_text.plain(self._json())
        except UNREADABLE:
            return None
        return found if isinstance(found, dict) else None

    def _json(self) -> bytes:
        if not self.is_form:
            return self.body
        try:
            text = self.body.decode()
            fields = dict(
                parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
            )
        except ValueError:
            return b""
        found = fields.get(self.field)
        return msgspec.json.encode(fields) if found is None else found.encode()


Lookup = Callable[[IntakeRequest], str | None]


def compile_pointer(pointer: str) -> Lookup:
    """The text of a string, which may hold unpaired surrogates, the characters of a number or a boolean; None
    for anything else. ``pointer`` begins with a slash."""
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
