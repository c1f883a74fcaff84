"""Keeps our credentials out of what is quoted of an answer: targets echo what they were sent.

A secret is found whole or in part, as it was sent, escaped (percent, JSON, HTML, also one in another), and in
base64, alone or amid something longer. An answer that holds one is quoted without its escapes. Where a secret is
cut, fewer than ``LEFT`` characters of it may stay; of a long one, a part from its middle is known by more.
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

QUOTED = 2_000  # bytes of an answer that anybody quotes
LEFT = 8  # characters in a row by which a part of a secret is known; fewer of a short one
_BEYOND = 512  # bytes behind them that are looked at, so that a secret at the end is seen whole
_SHORTEST = 4  # characters of an encoded secret; fewer could be anything
_PIECES = 16  # of a long secret that are looked for
_DEPTH = 3  # escapes within escapes

_LONG_REFERENCE = re.compile(r"&#([0-9]{9,});?")  # int() refuses one of thousands of digits
_BACKSLASH = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_FOR_URLS = str.maketrans("+/", "-_")


class Mask:
    """``secrets``: what was sent and is not to be told."""

    def __init__(self, *secrets: str) -> None:
        forms = {form for secret in secrets for form in _forms(secret) if form}
        self._pieces = [piece for form in sorted(forms) for piece in _pieces(form)]

    def beside(self, other: Mask) -> Mask:
        both = Mask()
        both._pieces = [*self._pieces, *other._pieces]
        return both

    def on(self, answer: SinkAnswer, most: int = QUOTED) -> SinkAnswer:
        """What may be quoted of it: its body masked, and at most so many bytes of it."""
        if not answer.body or not self._pieces:
            return answer
        said = self(answer.body[: most + _BEYOND].decode("utf-8", "replace"))
        return replace(answer, body=said.encode("utf-8", "replace")[:most])

    def __call__(self, text: str) -> str:
        plain = text
        for _ in range(_DEPTH):
            plain = _unescaped(plain)
        shown = self._covered(plain)
        return shown if shown != plain else self._covered(text)

    def _covered(self, text: str) -> str:
        for piece, form, at in self._pieces:
            done = 0
            shown: list[str] = []
            while (found := text.find(piece, done)) >= 0:
                before = text[max(done, found - at) : found]
                begin = found - _alike(reversed(before), reversed(form[:at]))
                shown += (text[done:begin], HIDDEN)
                done = found + _alike(text[found : found + len(form)], form[at:])
            if shown:
                text = "".join([*shown, text[done:]])
        return text


def _alike(one: Iterable[str], other: Iterable[str]) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _pieces(form: str) -> Iterator[tuple[str, str, int]]:
    """Parts of a form that are looked for, and where in it they are: at its beginning, its end, and between."""
    size = min(len(form), LEFT, max(_SHORTEST, len(form) // 2))
    last = len(form) - size
    for at in {*range(0, last, max(size, len(form) // _PIECES)), last}:
        yield form[at : at + size], form, at


def _forms(secret: str) -> Iterator[str]:
    """What is looked for in a text without escapes."""
    raw = secret.encode()
    for form in (secret, secret.replace(" ", "+"), raw.decode("latin-1")):
        yield form
        yield from _stripped(form)
    for each in (raw, quote_plus(secret).encode()):
        for form in filter(lambda form: len(form) >= _SHORTEST, _in_base64(each)):
            yield form
            yield form.translate(_FOR_URLS)


def _stripped(text: str) -> Iterator[str]:
    for _ in range(_DEPTH):
        text = _unescaped(text)
        yield text


def _in_base64(raw: bytes) -> Iterator[str]:
    """The characters that are the same whatever stands around it, for each place within three bytes."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + raw).decode()
        yield text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]


def _unescaped(text: str) -> str:
    plain = _without_backslashes(unquote(text))
    return html.unescape(_LONG_REFERENCE.sub(_shortened, plain))


def _shortened(reference: re.Match[str]) -> str:
    """The same character; nine digits that begin with none of 0 are beyond Unicode, as more are."""
    return f"&#{reference[1].lstrip('0')[:9] or '0'};"


def _without_backslashes(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _BACKSLASH.sub(_meant, text)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _meant(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else escape[3]
