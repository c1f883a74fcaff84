"""Bodies of shaped requests: JSON documents, forms, plain text, and the data of the event as it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote_plus

from app.event.json_pointer import steps_of
from app.event.json_text import encode_value
from app.event.value import CloudEvent, DataForm
from app.model.outlet import DataBody, FormBody, JsonBody, SecretText, SecretValue, TextBody
from app.outlets.places import Compiler, Markup, Optional, Render, RenderJson, Text, ValueAbsent
from app.outlets.values import ShapingEvent, Unshapeable

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"

Piece = bytes | RenderJson
"""A part of a document: constant, or made of the event."""


class BodyTemplate(NamedTuple):
    """A compiled body.

    Attributes:
        render: returns the bytes. Raises ValueAbsent and Unshapeable.
        content_type: the media type of the bytes; None if the event has it.
    """

    render: RenderJson
    content_type: str | None = JSON

    def type_of(self, event: CloudEvent) -> str:
        """Return the content type of the body made of this event."""
        if self.content_type is not None:
            return self.content_type
        default = JSON if event.data_form is DataForm.JSON else BYTES
        return event.datacontenttype or default


def compile_body(body: object, compiler: Compiler, setting: str) -> BodyTemplate:
    """Compile the setting ``body``. Raises SetupError."""
    match body:
        case FormBody(form=fields):
            return BodyTemplate(_form(fields, compiler, setting), FORM)
        case TextBody(text=text):
            plain = compiler.text(text, f"{setting}.text")
            if isinstance(plain, str):
                constant = plain.encode()
                return BodyTemplate(lambda _event: constant, TEXT)
            return BodyTemplate(lambda event: plain(event).encode(), TEXT)
        case DataBody(data=part) if part.pointer:
            return BodyTemplate(_value_at(part.pointer, setting))
        case DataBody():
            return BodyTemplate(_data, None)
        case JsonBody(json_=document):
            return BodyTemplate(compile_json(document, compiler, setting))
    return BodyTemplate(compile_json(body, compiler, setting))


def compile_json(
    document: object, compiler: Compiler, setting: str, markup: Mapping[str, Markup] | None = None
) -> RenderJson:
    """Compile a JSON document. ``markup`` has the escaping for strings of members, by member name."""
    pieces = _merged(_pieces(document, compiler, setting, markup or {}))

    return lambda event: _demand_utf8(_rendered(pieces, event), setting)


def _rendered(pieces: Sequence[Piece], event: ShapingEvent) -> bytes:
    return b"".join([piece if isinstance(piece, bytes) else piece(event) for piece in pieces])


def _demand_utf8(made: bytes, setting: str) -> bytes:
    """Return ``made`` if it is UTF-8 (RFC 8259 8.1). Raise Unshapeable if not, because values of the data are
    inserted as they came."""
    if not made.isascii():
        try:
            made.decode()
        except UnicodeDecodeError:
            raise Unshapeable(f"{setting} would not be UTF-8.", setting) from None
    return made


class _Member(NamedTuple):
    """A member of an object, or an item of an array. ``name`` is the JSON name of a member with its colon, and
    empty for an item."""

    name: bytes
    pieces: list[Piece]
    may_lack: bool
    """True if this member is left out for an event without its value."""

    def render(self, event: ShapingEvent) -> bytes | None:
        """Return the member; None if it is left out."""
        try:
            return self.name + _rendered(self.pieces, event)
        except ValueAbsent:
            if self.may_lack:
                return None
            raise


def _pieces(
    value: object,
    compiler: Compiler,
    setting: str,
    markup: Mapping[str, Markup],
    escape: Markup | None = None,
) -> Iterator[Piece]:
    def member(name: bytes, inner: object, at: str, inside: Markup | None) -> _Member:
        optional = isinstance(inner, Optional)
        given = inner.text if isinstance(inner, Optional) else inner
        pieces = [*_pieces(given, compiler, at, markup, inside)]
        omits = (optional or compiler.omits) and isinstance(given, str | SecretText)
        return _Member(name, pieces, omits and not all(isinstance(each, bytes) for each in pieces))

    match value:
        case str() | SecretValue() | SecretText():
            yield from compiler.json_text(value, setting, escape)
        case dict():
            members = [
                member(encode_value(name) + b":", inner, f"{setting}.{name}", markup.get(name))
                for name, inner in value.items()
            ]
            yield from _joined(b"{", members, b"}")
        case list() | tuple():
            items = [member(b"", inner, f"{setting}[{n}]", escape) for n, inner in enumerate(value)]
            yield from _joined(b"[", items, b"]")
        case _:
            yield encode_value(value)


def _joined(begin: bytes, members: Sequence[_Member], end: bytes) -> Iterator[Piece]:
    yield begin
    if any(member.may_lack for member in members):
        yield lambda event: b",".join(
            [made for member in members if (made := member.render(event)) is not None]
        )
    else:
        for n, each in enumerate(members):
            yield b"," + each.name if n else each.name
            yield from each.pieces
    yield end


def _merged(pieces: Iterator[Piece]) -> list[Piece]:
    """Join constants that follow one another."""
    merged: list[Piece] = []
    for piece in pieces:
        if merged and isinstance(piece, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def _form(fields: Mapping[str, Text], compiler: Compiler, setting: str) -> RenderJson:
    templates = [
        (quote_plus(name), compiler.form(text, f"{setting}.form.{name}"))
        for name, text in fields.items()
    ]
    return lambda event: "&".join([*pairs(templates, event, omits=compiler.omits)]).encode()


def pairs(
    templates: Sequence[tuple[str, str | Render]],
    event: ShapingEvent,
    *,
    omits: bool,
) -> Iterator[str]:
    """Yield ``name=value`` of each parameter. With ``omits``, a parameter whose value the event lacks is left out."""
    for name, template in templates:
        try:
            yield f"{name}={template if isinstance(template, str) else template(event)}"
        except ValueAbsent:
            if not omits:
                raise


def _value_at(pointer: str, setting: str) -> RenderJson:
    steps = steps_of(pointer)

    def render(event: ShapingEvent) -> bytes:
        found = event.at(steps)
        if found is None:
            raise ValueAbsent(setting)
        return _demand_utf8(found, setting)

    return render


def _data(event: ShapingEvent) -> bytes:
    data = event.event.data
    if data is None:
        raise ValueAbsent("body")
    if event.event.data_form is DataForm.JSON:
        return event.data() or b""
    return data
