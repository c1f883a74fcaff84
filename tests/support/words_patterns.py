"""The patterns that ``words_count`` looks for in code and ``words_pages`` in pages."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_WORDS = 25

WORDS = {
    "told": re.compile(r"\b(?:told|said)\b", re.IGNORECASE),
    "nobody": re.compile(r"\b(?:nobody|somebody|whoever)\b", re.IGNORECASE),
    "dialect": re.compile(
        r"\b(?:tells?|telling|says?|saying|stands?|standing|lies|becomes? of|held? against|beside|behind|anew|likewise"
        r"|forsaken?|concerns|ours|whence|fares?)\b",
        re.IGNORECASE,
    ),
    "code": re.compile(
        r"\b(?!S3\b)[GHIJKPRSVW]\d{1,2}\b(?!-)|\b[Rr]ules? \d+|\b(?:reliability|efficiency|security|aesthetics) (?:\d|[A-Z]\d)"
    ),
}


class Offence(NamedTuple):
    """A place to rewrite. ``folder`` is a folder of ``app``, ``tests/support``, or a folder of
    pages."""

    kind: str
    folder: str
    place: str
    text: str
