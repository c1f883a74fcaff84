"""One template for one place of a request, with the escaping of that place.

The escaping keeps a value inside its place: a JSON string, a segment of a path, a parameter, a line of a header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote

from app.bindings.forwarding import is_field_value
from app.errors import SetupError
from app.event.json_text import NOT_JSON, encode_value, string
from app.event.templates import parse
from app.model.outlet import Missing, SecretText, SecretValue
from app.model.secret import FileSecret
from app.outlets.values import CURE, Find, ShapingEvent, Unshapeable, compile_value

MOST_PLACEHOLDERS = 64

Reveal = Callable[[FileSecret], str]
"""A function that returns the text to write for a secret: the secret itself, or asterisks in a request that is
shown."""
Markup = Callable[[str], str]
"""A function that escapes a text in the markup of a publisher, such as Slack's ``&lt;``."""
Text = str | SecretValue | SecretText
Render = Callable[[ShapingEvent], str]
"""Return the escaped text of a place. Raises ValueAbsent if the event lacks a value, and Unshapeable."""
RenderJson = Callable[[ShapingEvent], bytes]
"""Return JSON for a place. Raises ValueAbsent if the event lacks a value, and Unshapeable."""

_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*")
_PATH_CURE = "begin with / and write characters other than A-Z a-z 0-9 -._~!$&'()*+,;=:@ as %XX"
_NO_SEGMENT = frozenset({"", ".", ".."})
_NULL = b"null"


class ValueAbsent(Exception):
    """The error for an event that lacks a value. ``args[0]`` is the setting that needs the value."""


class Secret(str):
    """The revealed text of a secret. Every place of a request escapes it like a value."""

    __slots__ = ()


class Optional(NamedTuple):
    """A member of a preset's document that is left out if the event lacks its value."""

    text: str


class Value(NamedTuple):
    """A compiled placeholder.

    Attributes:
        text: the placeholder in the template.
        setting: the setting that has the template.
        find: finds the value in an event.
        pointer: the JSON Pointer at which the event must have a value. Empty for a placeholder of another kind or
            with a default.
    """

    text: str
    setting: str
    find: Find
    pointer: str = ""

    def json(self) -> RenderJson:
        """Return a function that returns the value as JSON. The function raises ValueAbsent."""
        find, setting = self.find, self.setting

        def json(event: ShapingEvent) -> bytes:
            value = find(event)
            if value is None:
                raise ValueAbsent(setting)
            return value

        return json

    def plain(self, event: ShapingEvent) -> str:
        """Return the value as text: a string as it means, any other value as it is written. Raises ValueAbsent for null."""
        value = self.find(event)
        if value is None or value == _NULL:
            raise ValueAbsent(self.setting)
        try:
            return string(value) if value.startswith(b'"') else value.decode()
        except NOT_JSON:
            raise Unshapeable(f"{self.text} is not UTF-8.", self.setting) from None

    def inside(self) -> RenderJson:
        """Return a function that returns the value as a part of a JSON string."""
        find, plain = self.find, self.plain

        def inside(event: ShapingEvent) -> bytes:
            value = find(event)
            if value is not None and value.startswith(b'"'):
                return value[1:-1]
            return encode_value(plain(event))[1:-1]

        return inside


Part = str | Secret | Value


class Compiler:
    """Compile the templates of one request.

    Args:
        reveal: what to write for a secret.
        missing: what happens where the event lacks a value.
    """

    def __init__(self, reveal: Reveal, missing: Missing = "dead_letter") -> None:
        self._reveal = reveal
        self.omits = missing == "omit"
        self.values: list[Value] = []
        """All placeholders of the request, in order."""

    def json_text(
        self, text: Text, setting: str, markup: Markup | None = None
    ) -> list[bytes | RenderJson]:
        """Compile a string of a JSON document into its parts, constant or made of the event.

        A string that is one placeholder becomes the value itself, with its type, unless ``markup`` escapes it.
        """
        parts = self._parts(text, setting)
        if (constant := _constant(parts)) is not None:
            return [encode_value(constant)]
        if markup is None and len(parts) == 1 and isinstance(parts[0], Value):
            return [parts[0].json()]
        return [b'"', *[_inside(part, markup) for part in parts], b'"']

    def text(self, text: Text, setting: str, escape: Callable[[str], str] = str) -> str | Render:
        """Compile a text. Values are written by ``escape``, so that they stay in their place. Return a string if
        nothing depends on the event.

        Literal text is escaped too: the author of a template writes plain text.
        """
        parts = self._parts(text, setting)
        if (constant := _constant(parts)) is not None:
            return escape(constant)
        return lambda event: escape(
            _encodable(
                "".join([part if isinstance(part, str) else part.plain(event) for part in parts]),
                setting,
            )
        )

    def query(self, text: Text, setting: str) -> str | Render:
        """Compile the value of a parameter of a query."""
        return self.text(text, setting, lambda value: quote(value, safe=""))

    def form(self, text: Text, setting: str) -> str | Render:
        """Compile the value of a field of a form."""
        return self.text(text, setting, quote_plus)

    def header(self, text: Text, setting: str) -> str | Render:
        """Compile the value of a header, in UTF-8 (RFC 9110 5.5).

        The result raises Unshapeable for a value with a control character.
        """

        def checked(value: str) -> str:
            value = value.strip(" \t")
            if is_field_value(value):
                return value
            detail = f"{setting} would hold a control character, which no header can."
            raise Unshapeable(detail, setting)

        try:
            return self.text(text, setting, checked)
        except Unshapeable:
            cure = "leave out control characters"
            raise SetupError("cannot be a header", setting=setting, cure=cure) from None

    def path(self, text: Text, setting: str) -> str | Render:
        """Compile a path. Values are escaped; literal text is written as it is.

        The result raises Unshapeable for a segment that a value makes empty, ``.`` or ``..``: the path would name
        another resource.
        """
        parts = self._parts(text, setting)
        bare = "".join([part if type(part) is str else "x" for part in parts])
        if not _PATH.fullmatch(bare):
            raise SetupError("is not a path", setting=setting, cure=_PATH_CURE)
        if any(unquote(segment) in {".", ".."} for segment in bare.split("/")):
            raise SetupError("has a dot segment", setting=setting, cure="write the path itself")
        segments = [_segment(each, setting) for each in _segments(parts)]
        constants = [each for each in segments if isinstance(each, str)]
        if len(constants) == len(segments):
            return "/".join(constants)
        return lambda event: "/".join(
            [each if isinstance(each, str) else each(event) for each in segments]
        )

    def _parts(self, text: Text, setting: str) -> list[Part]:
        if isinstance(text, SecretValue):
            return [Secret(self._reveal(text.secret))]
        parts: list[Part] = []
        for piece in (text,) if isinstance(text, str) else text.pieces:
            if isinstance(piece, FileSecret):
                parts.append(Secret(self._reveal(piece)))
                continue
            for part in parse(piece, setting, CURE):
                if isinstance(part, str):
                    parts.append(part)
                else:
                    required = part.kind == "pointer" and part.default is None
                    pointer = part.name if required else ""
                    value = Value(part.text, setting, compile_value(part, setting), pointer)
                    self.values.append(value)
                    parts.append(value)
        if len(self.values) > MOST_PLACEHOLDERS:
            cure = "insert {$data}, or let a service of your own shape the request"
            problem = f"is beyond the {MOST_PLACEHOLDERS} placeholders that a request may have"
            raise SetupError(problem, setting=setting, cure=cure)
        return parts


def _constant(parts: Sequence[Part]) -> str | None:
    """Return the text of a template without placeholders. Return None if there are placeholders."""
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else None


def _inside(part: Part, markup: Markup | None) -> bytes | RenderJson:
    if isinstance(part, str):
        return encode_value(str(part))[1:-1]
    if markup is None:
        return part.inside()
    return lambda event: encode_value(markup(part.plain(event)))[1:-1]


def _encodable(text: str, setting: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unshapeable(f"{setting} would hold half a character.", setting) from None
    return text


def _segments(parts: Sequence[Part]) -> list[list[Part]]:
    """Split the parts of a path at the slashes of its literal text."""
    segments: list[list[Part]] = [[]]
    for part in parts:
        if type(part) is not str:
            segments[-1].append(part)
            continue
        first, *others = part.split("/")
        segments[-1].append(first)
        segments += [[other] for other in others]
    return segments


def _segment(parts: Sequence[Part], setting: str) -> str | Render:
    if all(type(part) is str for part in parts):
        return "".join(map(str, parts))

    def render(event: ShapingEvent) -> str:
        segment = "".join([_coded(part, event, setting) for part in parts])
        if unquote(segment) in _NO_SEGMENT:
            detail = f"{setting} would have a segment that is empty, . or .., which names another resource."
            raise Unshapeable(detail, setting)
        return segment

    return render


def _coded(part: Part, event: ShapingEvent, setting: str) -> str:
    if isinstance(part, Value):
        return quote(_encodable(part.plain(event), setting), safe="")
    return quote(part, safe="") if isinstance(part, Secret) else part
