"""A secret of the configuration: its text, and its file if it comes from one.

A secret written as only ``${file:/path}`` may change while the service runs; ``sinks.secrets`` rereads it.
Neither the text nor its repr is ever shown.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import PlainSerializer, PlainValidator, SecretStr, WithJsonSchema

HIDDEN = "**********"


Mark = tuple[int, int, int]
"""The version of a file: time of its last change in ns, inode, and size in bytes. It differs if the file does."""


class FileText(str):
    """The text of a file that is the whole value of a setting.

    Attributes:
        path: The path as written in the setting.
        mark: The version of the file before it was read. None if the file could not be examined.
    """

    __slots__ = ("mark", "path")
    path: str
    mark: Mark | None

    def __new__(cls, text: str, path: str, mark: Mark | None) -> Self:
        made = super().__new__(cls, text)
        made.path = path
        made.mark = mark
        return made


class MixedText(str):
    """A text with the values of references, alone or among other text, such as ``Bearer ${env:KEY}``.

    Attributes:
        pieces: the text in order; the value of each reference is a ``FileSecret``.
    """

    __slots__ = ("pieces",)
    pieces: tuple[str | FileSecret, ...]

    def __new__(cls, pieces: tuple[str | FileSecret, ...]) -> Self:
        """Join the pieces to one text, which settings read like any other text."""
        texts = [each if isinstance(each, str) else each.get_secret_value() for each in pieces]
        made = super().__new__(cls, "".join(texts))
        made.pieces = pieces
        return made


class FileSecret(SecretStr):
    """A secret, possibly from a file. Two secrets of the same file are equal, because its users reread the
    content.

    Attributes:
        path: The file to reread, or "" if the secret is not from a file.
        mark: The version of that file.
    """

    def __init__(self, text: str, path: str = "", mark: Mark | None = None) -> None:
        super().__init__(text)
        self.path = path
        self.mark = mark

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FileSecret) and (self.path or other.path):
            return self.path == other.path
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash(self.path) if self.path else super().__hash__()


_CONTROLS = {*map(chr, range(0x20)), "\x7f"} - {"\t"}


def is_sendable(text: str) -> bool:
    """Return True if a header can have this value (RFC 9110 5.5)."""
    return _CONTROLS.isdisjoint(text)


def _secret(value: object) -> FileSecret:
    if isinstance(value, FileSecret):
        return value
    if not isinstance(value, str):
        raise ValueError("The value is not text. Cure: Write the value in quotes.")  # noqa: TRY004 - pydantic takes ValueError
    if not value:
        raise ValueError("The secret is empty. Cure: Set the secret, or remove the setting.")
    if not is_sendable(value):
        raise ValueError(
            "The value has a line end or another control character, which no HTTP header can have. "
            "Cure: Remove that character."
        )
    if isinstance(value, FileText):
        return FileSecret(str(value), value.path, value.mark)
    return FileSecret(value)


def _token(value: object) -> FileSecret:
    """Return a token without surrounding white space, which comes from its file or variable and cannot be in a
    header.
    """
    if isinstance(value, FileText):
        return _secret(FileText(value.strip(), value.path, value.mark))
    return _secret(value.strip() if isinstance(value, str) else value)


_HIDDEN = PlainSerializer(lambda _: HIDDEN, return_type=str)
_SCHEMA = WithJsonSchema({"type": "string", "format": "password", "minLength": 1})

Secret = Annotated[FileSecret, PlainValidator(_secret), _HIDDEN, _SCHEMA]
Token = Annotated[FileSecret, PlainValidator(_token), _HIDDEN, _SCHEMA]
"""The token of a caller, as a header carries it."""
