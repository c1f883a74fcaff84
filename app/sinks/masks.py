"""Hide credentials in quoted answers, because targets may repeat what they received.

A secret is found whole or in part. It is found plain, escaped (percent, JSON, HTML, also nested),
and in base64, also inside a longer text. An answer that holds a secret is quoted without its
escapes. If only a part of a secret appears, fewer than ``MIN_PART`` characters of it may remain
visible. A part from the middle of a long secret is recognised only if it is longer.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from urllib.parse import quote_plus, unquote

from msgspec.structs import replace

from app.interfaces import SinkAnswer
from app.model.secret import HIDDEN

MAX_QUOTED = 2_000  # bytes of an answer that are quoted at most
MIN_PART = 8  # consecutive characters that identify a part of a secret; fewer of a short one
_BEYOND = 512  # further bytes that are searched, so that a secret at the end is complete
_SHORTEST = 4  # characters of an encoded secret; fewer would match by chance
_PIECES = 16  # parts of a long secret that are searched for
_DEPTH = 3  # levels of nested escapes

_LONG_REFERENCE = re.compile(r"&#([0-9]{9,});?")  # int() refuses one of thousands of digits
_BACKSLASH = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_FOR_URLS = str.maketrans("+/", "-_")


class Mask:
    """A function that replaces the given secrets in a text."""

    def __init__(self, *secrets: str) -> None:
        forms = {form for secret in secrets for form in _forms(secret) if form}
        self._pieces = [piece for form in sorted(forms) for piece in _pieces(form)]

    def combined_with(self, other: Mask) -> Mask:
        """Return a mask for the secrets of both masks."""
        both = Mask()
        both._pieces = [*self._pieces, *other._pieces]
        return both

    def masked_answer(self, answer: SinkAnswer, most: int = MAX_QUOTED) -> SinkAnswer:
        """Return the answer with its body masked and cut to ``most`` bytes. Without secrets or a
        body, return the answer as it is.
        """
        if not answer.body or not self._pieces:
            return answer
        masked = self(answer.body[: most + _BEYOND].decode("utf-8", "replace"))
        return replace(answer, body=masked.encode("utf-8", "replace")[:most])

    def __call__(self, text: str) -> str:
        """Return the text with each secret replaced. Escapes are decoded if a secret was found in
        them.
        """
        plain = text
        for _ in range(_DEPTH):
            plain = _unescaped(plain)
        shown = self._replaced(plain)
        return shown if shown != plain else self._replaced(text)

    def _replaced(self, text: str) -> str:
        for piece, form, at in self._pieces:
            done = 0
            shown: list[str] = []
            while (found := text.find(piece, done)) >= 0:
                before = text[max(done, found - at) : found]
                begin = found - _common_length(reversed(before), reversed(form[:at]))
                shown += (text[done:begin], HIDDEN)
                done = found + _common_length(text[found : found + len(form)], form[at:])
            if shown:
                text = "".join([*shown, text[done:]])
        return text


def _common_length(one: Iterable[str], other: Iterable[str]) -> int:
    """Return the number of leading items that both sequences share."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _pieces(form: str) -> Iterator[tuple[str, str, int]]:
    """Yield parts of a secret's form to search for: from its start, middle and end. Each comes with
    the form and its offset in it.
    """
    size = min(len(form), MIN_PART, max(_SHORTEST, len(form) // 2))
    last = len(form) - size
    for at in {*range(0, last, max(size, len(form) // _PIECES)), last}:
        yield form[at : at + size], form, at


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may appear in a text without escapes."""
    raw = secret.encode()
    for form in (secret, secret.replace(" ", "+"), raw.decode("latin-1")):
        yield form
        yield from _unescaped_levels(form)
    for each in (raw, quote_plus(secret).encode()):
        for form in filter(lambda form: len(form) >= _SHORTEST, _in_base64(each)):
            yield form
            yield form.translate(_FOR_URLS)


def _unescaped_levels(text: str) -> Iterator[str]:
    for _ in range(_DEPTH):
        text = _unescaped(text)
        yield text


def _in_base64(raw: bytes) -> Iterator[str]:
    """Yield the base64 characters of the secret that do not depend on neighbouring bytes, for each
    of three alignments.
    """
    for before in range(3):
        text = base64.b64encode(bytes(before) + raw).decode()
        yield text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]


def _unescaped(text: str) -> str:
    plain = _without_backslashes(unquote(text))
    return html.unescape(_LONG_REFERENCE.sub(_shortened, plain))


def _shortened(reference: re.Match[str]) -> str:
    """Return a numeric HTML reference with at most nine digits. More digits are beyond Unicode in
    any case.
    """
    return f"&#{reference[1].lstrip('0')[:9] or '0'};"


def _without_backslashes(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _BACKSLASH.sub(_unescaped_character, text)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescaped_character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else escape[3]
