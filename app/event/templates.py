"""The template language of the configuration: text with placeholders in braces.

``orders.{type}`` has one placeholder. ``{{`` and ``}}`` are the braces themselves. A placeholder is a name, or a kind
and a name: ``{type}``, ``{header:x-request-id}``, ``{pointer:/order/id}``. A text after `` ?? `` replaces a missing value:
``{subject ?? none}``. Each user of the language defines the kinds that it accepts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from app.errors import SetupError

POINTER = re.compile(r"(/([^~]|~[01])*)+")
"""A JSON Pointer (RFC 6901) to a value inside a document."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_DEFAULT = " ?? "


class Placeholder(NamedTuple):
    """A placeholder of a template.

    Attributes:
        text: the placeholder as its author wrote it, with its braces.
        kind: the word before the colon; empty for a bare name.
        name: the name without kind and default.
        default: the text to use for a missing value; None if the template has none.
    """

    text: str
    kind: str
    name: str
    default: str | None = None

    @property
    def plain(self) -> str:
        """Return the text between the braces, without the default."""
        return f"{self.kind}:{self.name}" if self.kind else self.name


Parts = tuple[str | Placeholder, ...]
"""The parts of a template in their order: placeholders, and literal texts that are not empty."""


def parse(text: str, setting: str = "", cure: str = "") -> Parts:
    """Split a template into literal texts and placeholders.

    Raises:
        SetupError: a brace has no matching brace. The error names ``setting`` and ``cure``.
    """
    parts: list[str | Placeholder] = []
    literal = ""
    end = 0
    for match in _TOKEN.finditer(text):
        literal += text[end : match.start()]
        end = match.end()
        if match[0] in {"{", "}"}:
            raise SetupError(f"stray {match[0]}", setting=setting, cure=cure)
        if match[1] is None:
            literal += match[0][0]
            continue
        if literal:
            parts.append(literal)
            literal = ""
        parts.append(_placeholder(match[0], match[1]))
    literal += text[end:]
    return (*parts, literal) if literal else tuple(parts)


def _placeholder(text: str, inside: str) -> Placeholder:
    plain, mark, default = inside.partition(_DEFAULT)
    kind, colon, name = plain.partition(":")
    return Placeholder(
        text,
        kind if colon else "",
        name if colon else plain,
        default if mark else None,
    )
