"""A secret of the configuration: its text, and the file it came from where it came from one.

What is written as nothing but ``${file:/path}`` may change while we run, and is read again by those
who use it (``sinks.secrets``). Neither the text nor its repr is ever shown.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import PlainSerializer, PlainValidator, SecretStr, WithJsonSchema

HIDDEN = "**********"


Mark = tuple[int, int, int]
"""Of a file: another one when the file is another one. Time of its change in ns, inode, size in bytes."""


class FileText(str):
    """The text of a file that a setting consists of. ``path`` as it was written; ``mark`` from before it was
    read, None for a file that could not be looked at."""

    __slots__ = ("mark", "path")
    path: str
    mark: Mark | None

    def __new__(cls, text: str, path: str, mark: Mark | None) -> Self:
        made = super().__new__(cls, text)
        made.path = path
        made.mark = mark
        return made


class FileSecret(SecretStr):
    """``path``: the file to read it from again, "" where it came from none; ``mark``: of that file. The secret of a file is the same
    while the file is: what is in it is for those who read it again."""

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
    """Whether a header can hold it (RFC 9110 5.5)."""
    return _CONTROLS.isdisjoint(text)


def _secret(value: object) -> FileSecret:
    if isinstance(value, FileSecret):
        return value
    if not isinstance(value, str):
        raise ValueError("The value is not text. Cure: Write it in quotes.")  # noqa: TRY004 - pydantic takes ValueError
    if not value:
        raise ValueError("The value is empty. Cure: Set the secret, or remove the setting.")
    if not is_sendable(value):
        raise ValueError(
            "The value has a line end or another control character, which no header can have. "
            "Cure: Remove that character."
        )
    if isinstance(value, FileText):
        return FileSecret(str(value), value.path, value.mark)
    return FileSecret(value)


def _token(value: object) -> FileSecret:
    """White space around one comes from the file or the variable that it was in: no header carries it."""
    if isinstance(value, FileText):
        return _secret(FileText(value.strip(), value.path, value.mark))
    return _secret(value.strip() if isinstance(value, str) else value)


_HIDDEN = PlainSerializer(lambda _: HIDDEN, return_type=str)
_SCHEMA = WithJsonSchema({"type": "string", "format": "password", "minLength": 1})

Secret = Annotated[FileSecret, PlainValidator(_secret), _HIDDEN, _SCHEMA]
Token = Annotated[FileSecret, PlainValidator(_token), _HIDDEN, _SCHEMA]
"""Of a caller, to be found in a header."""
