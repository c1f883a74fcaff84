"""JSON as regular expressions of Java: what a document and its data must look like to be clear. Pure.

Strict where Spark's own reader is lenient (RFC 8259: no single quotes, NaN, trailing text, leading zeros),
and deterministic: every byte is looked at about once, and depth is bounded.
"""

from __future__ import annotations

from typing import Final

from app.event.versions import EXTENSIONS, VERSIONS
from app.pipeline.decode.patterns import ANY, INTEGER, any_of

DEPTH: Final = 6
"""Arrays and objects within each other in data. The pattern doubles with each; deeper data is in doubt."""

SPACE: Final = r"[ \t\r\n]*+"

_CONTROLS = "".join(rf"\x{code:02x}" for code in range(0x20))
_ESCAPE = (  # pairs of surrogates only: a lone one is no text
    r'\\(?:["\\/bfnrt]|u(?:(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
STRING: Final = rf'"(?:[^"\\\ufffd{_CONTROLS}]+|{_ESCAPE})*+"'
"""Any, but with U+FFFD, which bad UTF-8 becomes."""

_NUMBER = r"-?+(?:0|[1-9][0-9]{0,200}+)(?:\.[0-9]{1,200}+)?+(?:[eE][+-]?+[0-9]{1,3}+)?+(?![0-9])"
_SCALAR = f"{STRING}|{_NUMBER}|true|false|null"


def value(depth: int = DEPTH) -> str:
    """A JSON value with at most so many arrays and objects within each other."""
    if depth == 0:
        return f"(?:{_SCALAR})"
    inner = value(depth - 1)
    members = rf"(?:{STRING}{SPACE}:{SPACE}{inner}{SPACE}(?:,{SPACE}(?=\")|(?=\}})))*+"
    elements = rf"(?:{inner}{SPACE}(?:,{SPACE}(?!\])|(?=\])))*+"
    return rf"(?:{_SCALAR}|\{{{SPACE}{members}\}}|\[{SPACE}{elements}\])"


VALUE: Final = rf"\A{SPACE}({value()})(?={SPACE}[,}}])"
"""The value of ``data`` at the start of what follows its colon, as group 1."""

BAG: Final = EXTENSIONS.removesuffix("/")
_TEXTS_ONLY = any_of(
    {name for version in VERSIONS.values() for name in version.rules} | {"subject"}
)
_NEXT = rf'{SPACE}(?:,{SPACE}(?=")|(?=\}}))'
_NAME = "[A-Za-z0-9]++"
_TYPED = f"(?:true|false|{INTEGER})"
_TEXT = rf'"(?:{ANY}|{_ESCAPE})*+"'
_IS_TYPED = rf'(?!{_TEXTS_ONLY}"){_NAME}"{SPACE}:{SPACE}{_TYPED}'
_MEMBER = rf'"(?!data")(?:{_NAME}"{SPACE}:{SPACE}{_TEXT}|{_IS_TYPED})'
_ENTRY = rf'"(?!data")(?:{_NAME}"{SPACE}:{SPACE}"{ANY}*+"|{_IS_TYPED})'
_NESTED = rf'"{BAG}"{SPACE}:{SPACE}\{{{SPACE}(?=")(?:{_ENTRY}{_NEXT})*+\}}'
_HOLE = r'"data(?:_base64)?+":""'

ENVELOPE: Final = rf"\A{SPACE}\{{{SPACE}(?:(?:{_MEMBER}|{_NESTED}|{_HOLE}){_NEXT})*+\}}{SPACE}\z"
"""A document with ``""`` for its data: members of plain names, whose values are texts, booleans, small
integers, and the ``extensions`` of 0.1, whose texts have no escapes. Escapes may hide what no attribute
may hold: that is looked at when they are read.
"""
