"""Count the normative words (RFC 2119) in each section of a specification.

The program prints the tables of ``tests/docs/normative_words.toml``, so that a reader can count the
documents again::

    python tests/support/normative_words.py 000 kafka-protocol-binding.md core spec.md
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

_WORD = re.compile(r"(?<![\w-])(?:MUST|REQUIRED|SHALL|SHOULD|RECOMMENDED)(?:\s+NOT)?\b")
_MARKED = re.compile(r"#+ (?:(?P<number>\d[\d.]*) )?(?P<title>.+)")
_NUMBERED = re.compile(r"(?P<number>\d+(?:\.\d+)*)\.? [A-Z].{0,60}")
_BARE = re.compile(r"[A-Za-z][A-Za-z ]{1,40}")
_KEY_WORDS = re.compile(r"The key words.*?RFC ?2119[^.]*\.(?:html\)\.)?", re.DOTALL)
_STRONG = ("MUST", "REQUIRED", "SHALL")


def words_of(text: str) -> list[str]:
    """Return the normative words of a text in order. ``MUST NOT`` counts as one."""
    return [" ".join(word.split()) for word in _WORD.findall(text)]


def is_strong(word: str) -> bool:
    return word.startswith(_STRONG)


def counted(document: str) -> dict[str, Counter[bool]]:
    """Return for each section the count of MUST words (key True) and of SHOULD words (key False)."""
    found: dict[str, Counter[bool]] = {}
    section = "0"
    lines = _KEY_WORDS.sub("", document).splitlines()
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        section, is_title = _section(section, before, line, after)
        if not is_title:
            for word in words_of(line):
                found.setdefault(section, Counter())[is_strong(word)] += 1
    return found


def _section(section: str, before: str, line: str, after: str) -> tuple[str, bool]:
    title = _MARKED.fullmatch(line) or _NUMBERED.fullmatch(line)
    if title is not None:
        number = title["number"]
        return number.strip(".") if number else _slug(title["title"]), True
    if not before.strip() and not after.strip() and _BARE.fullmatch(line):
        return _slug(line), True
    return section, False


def _slug(title: str) -> str:
    return title.strip().lower().replace(" ", "-")


def main(arguments: list[str]) -> None:
    for name, path in zip(arguments[::2], arguments[1::2], strict=True):
        print(f'\n["{name}"]')
        for section, words in counted(Path(path).read_text()).items():
            print(f'"{section}" = {{ must = {words[True]}, should = {words[False]} }}')


if __name__ == "__main__":
    main(sys.argv[1:])
