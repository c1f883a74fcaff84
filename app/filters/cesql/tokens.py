"""Split an expression into words, numbers, texts and signs (CESQL 2.2, 2.3). Decimals are an extension of
Skybridge.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

RESERVED = frozenset(["AND", "OR", "XOR", "NOT", "LIKE", "IN", "EXISTS", "TRUE", "FALSE"])

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<decimal>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
    | (?P<word>[A-Za-z0-9_]+)
    | (?P<text>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
    | (?P<sign><=|>=|<>|!=|[-+*/%=<>(),])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"[ \t\r\n]*")


class ParseError(ValueError):
    """An expression is malformed. The message names the place, the problem and the cure.

    Attributes:
        at: The character where the problem is, counted from 0.
        problem: The place and the problem.
        cure: The remedy.
    """

    def __init__(self, at: int, problem: str, cure: str) -> None:
        self.at = at
        self.problem = f"SQL, character {at + 1}: {problem}"
        self.cure = cure
        super().__init__(f"{self.problem}. {cure}")


class TokenKind(Enum):
    """The kinds of tokens, with their names in messages."""

    NUMBER = "a number"
    DECIMAL = "a decimal"
    NAME = "a name"
    KEYWORD = "a keyword"
    TEXT = "a text in quotes"
    SIGN = "a sign"
    END = "the end"


class Token(NamedTuple):
    """A token of an expression. A keyword is in capitals, and a text is without quotes. Any other token is as
    written."""

    kind: TokenKind
    text: str
    at: int

    @property
    def found(self) -> str:
        """Return the token in the form in which a message names it."""
        if self.kind is TokenKind.END:
            return "the end"
        return repr(self.text) if self.kind is TokenKind.TEXT else self.text


def tokens(text: str) -> list[Token]:
    """Return the tokens of an expression, with an ``END`` token last. Raises ParseError."""
    found: list[Token] = []
    at = 0
    while not found or found[-1].kind is not TokenKind.END:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unknown(text, at)
        group = match.lastgroup or "end"
        found.append(_token(group, match[group], match.start(group)))
        at = match.end()
    return found


def _token(group: str, text: str, at: int) -> Token:
    match group:
        case "decimal":
            return Token(TokenKind.DECIMAL, text, at)
        case "word":
            return _word(text, at)
        case "text":
            return Token(TokenKind.TEXT, unquoted(text), at)
        case "sign":
            return Token(TokenKind.SIGN, text, at)
    return Token(TokenKind.END, "", at)


def _word(text: str, at: int) -> Token:
    if text.isdigit():
        return Token(TokenKind.NUMBER, text, at)
    if text.upper() in RESERVED:
        return Token(TokenKind.KEYWORD, text.upper(), at)
    return Token(TokenKind.NAME, text, at)


def unquoted(text: str) -> str:
    """Return the content of a quoted text. A backslash escapes only the quote itself (CESQL 2.2). All other
    backslashes are kept.
    """
    quote, inner = text[0], text[1:-1]
    return re.sub(r"\\(.)", lambda m: quote if m[1] == quote else m[0], inner, flags=re.DOTALL)


def _unknown(text: str, at: int) -> ParseError:
    space = _SPACE.match(text, at)
    begin = space.end() if space else at
    character = text[begin]
    if character in "'\"":
        return ParseError(
            begin,
            f"a text that begins with {character} does not end",
            f"Close it with {character}; write \\{character} for a quote within it",
        )
    return ParseError(begin, f"{character!r} has no meaning here", _cure_of(character))


def _cure_of(character: str) -> str:
    cures = {
        "!": "Write NOT for the negation, != for unequal",
        "&": "Write AND",
        "|": "Write OR",
        ".": (
            "A decimal has digits on both sides, as 0.5; attribute names have no dots; "
            "data is read with DATA('/a/b')"
        ),
    }
    return cures.get(character, "Write texts in quotes: 'text'")
