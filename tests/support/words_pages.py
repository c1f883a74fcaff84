"""Count the words that style rules forbid in pages: ``words_count`` adds them to those of the code.

A page is Markdown that people write. Pages and regions that a command writes are left out, because their words are in
the code of that command. Fenced blocks, code in backquotes and the addresses of links do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from words_patterns import MOST_WORDS, WORDS, Offence

CHECKOUT = Path(__file__).resolve().parents[2]
GENERATED = {
    "docs/capacity.md",
    "docs/contract.md",
    "docs/figures.md",
    "docs/nightly.md",
    "docs/opinions.md",
    "docs/pipeline-figures.md",
    "docs/soak.md",
}
"""Pages that a command writes as a whole."""
REFERENCE = "docs/reference/"
"""The folder whose pages are all written by ``make docs``."""
OF_CLAUSES = "docs/conformance.md"
"""The page that defines the codes of rules. Only this page may name the codes."""
MOST_SHOWN = 90

_REGION = re.compile(
    r"^<!-- (?P<name>[^\n]+) -->$.*?^<!-- end of (?:(?P=name)|the table) -->$|^<!-- [^\n]* -->$",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^(?P<indent> *)```.*?^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_ADDRESS = re.compile(r"(?<=\])\([^)\s]+\)|(?<=\]: )\S+|<?https?://[^\s)>]+>?|<a id=[^>]*>")
_ROW = re.compile(r"^ *[|<][^\n]*$", re.MULTILINE)
_SENTENCE = re.compile(
    r"(?:[.!?]|[.!?][)\"*_]+)\s+|:\s*\n|\n\s*\n|\n(?=#)|\n\s*(?:[-*]|\d+\.) +", re.MULTILINE
)


def pages() -> list[Path]:
    """Return the pages that people write."""
    found = [
        CHECKOUT / "README.md",
        CHECKOUT / "CHANGELOG.md",
        CHECKOUT / "tests" / "README.md",
        *sorted((CHECKOUT / "docs").rglob("*.md")),
    ]
    paths = {page: page.relative_to(CHECKOUT).as_posix() for page in found}
    return [
        page
        for page, path in paths.items()
        if path not in GENERATED and not path.startswith(REFERENCE)
    ]


@cache
def offences() -> tuple[Offence, ...]:
    """Return the offences of all pages, by page and line."""
    return tuple(
        each
        for page in pages()
        for each in in_page(page.relative_to(CHECKOUT).as_posix(), page.read_text("utf-8"))
    )


def in_page(path: str, text: str) -> Iterator[Offence]:
    """Yield the offences of one page; ``path`` is relative to the checkout."""
    folder = path.rpartition("/")[0] or "."
    prose = plain(text)
    found = [
        (match.start(), match.end(), kind)
        for kind, pattern in WORDS.items()
        if kind != "code" or path != OF_CLAUSES
        for match in pattern.finditer(prose)
    ]
    found += [(start, start, "long") for start in _long_sentences(_ROW.sub(_blank_lines, prose))]
    for start, end, kind in sorted(found):
        begin = start if kind == "long" else max(0, start - 40)
        shown = " ".join(text[begin : max(end + 40, begin + MOST_SHOWN)].split())
        yield Offence(kind, folder, f"{path}:{text.count(chr(10), 0, start) + 1}", shown)


def plain(text: str) -> str:
    """Return the prose of a page. Each character keeps its position: code is replaced by one word, and an address
    by blanks."""
    prose = _FENCE.sub(_blank_lines, _REGION.sub(_blank_lines, text))
    prose = _CODE.sub(_one_word, prose)
    return _ADDRESS.sub(lambda match: " " * len(match[0]), prose)


def _long_sentences(prose: str) -> Iterator[int]:
    """Yield where each sentence of more than MOST_WORDS words begins."""
    begin = 0
    for end in [*_SENTENCE.finditer(prose), None]:
        sentence = prose[begin : end.start() if end else len(prose)]
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > MOST_WORDS:
            yield begin + len(sentence) - len(sentence.lstrip())
        begin = end.end() if end else begin


def _one_word(match: re.Match[str]) -> str:
    return "x" * len(match[0]) if "\n" not in match[0] else _newlines_at_the_end(match[0])


def _newlines_at_the_end(code: str) -> str:
    newlines = code.count("\n")
    return "x" * (len(code) - newlines) + "\n" * newlines


def _blank_lines(match: re.Match[str]) -> str:
    """Return text of the same length and lines that has no words and ends every sentence."""
    return re.sub(r"[^\n]", " ", match[0])
