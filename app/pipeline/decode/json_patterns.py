"""JSON as regular expressions of Java: what a document must look like to be clear. Pure.

Strict where Spark's own reader is lenient, and deterministic: every byte is looked at about once.
"""

from __future__ import annotations

from typing import Final

from app.event.versions import EXTENSIONS, VERSIONS
from app.pipeline.decode.patterns import ANY, INTEGER, NAME, any_of

SPACE: Final = r"[ \t\r\n]*+"

_ESCAPE = (  # pairs of surrogates only: a lone one is no text
    r'\\(?:["\\/bfnrt]|u(?:(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
BAG: Final = EXTENSIONS.removesuffix("/")
_TEXTS_ONLY = any_of(
    {name for version in VERSIONS.values() for name in version.rules} | {"subject"}
)
_NEXT = rf'{SPACE}(?:,{SPACE}(?=")|(?=\}}))'
_TYPED = f"(?:true|false|{INTEGER})"
_TEXT = rf'"(?:{ANY}|{_ESCAPE})*+"'
_IS_TYPED = rf'(?!{_TEXTS_ONLY}"){NAME}"{SPACE}:{SPACE}{_TYPED}'
_MEMBER = rf'"(?!data")(?:{NAME}"{SPACE}:{SPACE}{_TEXT}|{_IS_TYPED})'
_ENTRY = rf'"(?!data")(?:{NAME}"{SPACE}:{SPACE}"{ANY}*+"|{_IS_TYPED})'
_NESTED = rf'"{BAG}"{SPACE}:{SPACE}\{{{SPACE}(?=")(?:{_ENTRY}{_NEXT})*+\}}'
_HOLE = r'"data(?:_base64)?+":""'

UNQUOTED: Final = rf'"{SPACE}:{SPACE}(?=[-0-9tf])'
"""Before a value that is no text, in a plain document."""

TAIL: Final = rf"(?:,{SPACE}(?:{_MEMBER}|{_NESTED}){SPACE})++\z"
"""The members that follow the data, up to the brace of the document."""

ALL_TAIL: Final = rf"\A{TAIL}"

ENVELOPE: Final = rf"\A{SPACE}\{{{SPACE}(?:(?:{_MEMBER}|{_NESTED}|{_HOLE}){_NEXT})*+\}}{SPACE}\z"
"""A document with ``""`` for its data: members of plain names, whose values are texts, booleans, small
integers, and the ``extensions`` of 0.1, whose texts have no escapes. Escapes may hide what no attribute
may hold: that is looked at when they are read.
"""
