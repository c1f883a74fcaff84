"""Make foreign text safe for a terminal and for one line of a log.

A name that a client chose may contain dangerous characters. A line end forges a log line, and an
escape code controls a terminal. A bidi control shows text in another order, and a character without
width hides a difference.
"""

from __future__ import annotations

import json
import re

_UNSAFE = (
    r"\x00-\x1f\x7f-\x9f"  # controls, among them NEL and CSI
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi controls
    r"\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f"  # no width, except the joiners of scripts and emoji
    r"\u2028\u2029"  # separators of lines and paragraphs
    r"\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible marks and tags
    r"\ud800-\udfff"  # halves of characters, which no output can encode
)
_CHARACTERS = re.compile(f"[{_UNSAFE}]")
_CHARACTERS_OF_LINES = re.compile(f"(?![\n\t])[{_UNSAFE}]")


def printable(text: str) -> str:
    r"""Return the text on one line, each unsafe character as its JSON escape (``\n``, ``\u001b``).

    A JSON document keeps its meaning, if it is on one line.
    """
    return _CHARACTERS.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Return the text as ``printable`` does, but keep line feeds and tabs."""
    return _CHARACTERS_OF_LINES.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    text = json.dumps(match[0])[1:-1]
    return text if text.startswith("\\") else f"\\u{ord(match[0]):04x}"  # DEL, which JSON allows
