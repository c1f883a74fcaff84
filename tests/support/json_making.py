"""Texts that are JSON, in every spelling that JSON has, and texts that nearly are, by a ``random.Random``."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

SPACES = ("", "", "", " ", "\n", "\t", "\r\n", "  ")
MARK = "7" * 18
"""A number that the pipeline's decoder uses itself."""
_SPELT = r"\u0037" * 18
_NUMBERS = (
    "0", "-0", "7", "-1", "10", "1.10", "0.0", "-0.5e-3", "1E+2", "1e400", "-1e-400", "1" * 19, "9" * 40,
    "9223372036854775808", "123456789012345678901234567890.10", "3.141592653589793238462643", "7" * 17, "7" * 19,
)  # fmt: skip
_PIECES = (
    *"abz 7/.-{}[]:,'", "é", "\u2028", "😀", "\ufffd", "\x7f", "\ufeff", r"\"", r"\\", r"\/", r"\n", r"\b\f\r\t",
    r"\u00e9", r"\u0000", r"\u0041", r"\u0037", r"\u2028", r"\ud83d\ude00", r"\uD83D\uDE00", r"\\ud83d", r"\\u",
)  # fmt: skip
_NEARLY = (
    "NaN", "Infinity", "-Infinity", "nul", "True", "undefined", "01", "-01", "1.", ".5", "+1", "1e", "1e+", "0x10",
    "1_000", "--1", "-", "1.5.2", "''", "'x'", '"', '"\n"', '"\t"', '"\x00"', r'"\x41"', r'"\u12g4"', r'"\u12"',
    '"\\"', r'"\ud800"', r'"\udc00\ud800"', r'"\ud800\u0041"', r'"\uD800x"', "{a:1}", "{'a':1}", "{1:2}", "{,}",
    "{:}", '{"a"}', '{"a":}', '{"a" 1}', '{"a":1,}', '{"a":1;"b":2}', "[,]", "[1,]", "[1 2]", "[", "]", "{", "}",
    "/**/1", "1//", "#1\n1", "\x0b1", "1\x0c", "\ufeff1", "\u00a01", "", " ", "1 2", "{}{}", "[][]", "{},{}",
    '1,"x":2', f"1],[{MARK}", f"1],[{MARK}]]", f'{{}}],[{{"mark":{MARK}}}]] x', f"[1]],[{MARK}", f"]],[[{MARK}",
    f'1],["{_SPELT}"]]', f'1],["{_SPELT}"]] x', f'{{}}],[{{"mark":"{_SPELT}"}}]] x',
)  # fmt: skip
"""No value, or more than one."""
_PUT = (
    *"{}[]:,\"\\/ 017-+.eE'",
    "\x00",
    "\n",
    "\x1f",
    "\x85",
    "é",
    "//",
    "/*x*/",
    "#",
    "],[",
    "u",
    "d8",
    MARK,
)


def value(chance: Random, depth: int = 3) -> str:
    """One JSON value, without white space around it."""
    kind = chance.randrange(8 if depth else 5)
    if kind < 3:
        return chance.choice((*_NUMBERS, "true", "false", "null", str(chance.getrandbits(60))))
    if kind < 5:
        return _string(chance)
    return _list(chance, depth) if kind == 5 else _object(chance, depth)


def deep(chance: Random, levels: int) -> str:
    """Arrays and objects within each other, so many."""
    opened = [chance.choice(("[", '{"a":')) for _ in range(levels)]
    closed = "".join("]" if each == "[" else "}" for each in reversed(opened))
    return "".join(opened) + value(chance, 0) + closed


def nearly(chance: Random) -> str:
    """Something that is no value, alone or where a value should be; or a value that was changed a little, which
    sometimes is one still."""
    how = chance.randrange(6)
    if how == 0:
        return chance.choice(_NEARLY)
    if how == 1:
        return chance.choice(("[{}]", '{{"a":{}}}', '{{"a":[1,{}]}}', " {}")).format(
            chance.choice(_NEARLY)
        )
    if how == 2:
        return value(chance) + chance.choice((*SPACES, ",", "],[", "//", "x")) + value(chance)
    text = value(chance)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        text = _changed(chance, text)
    return text


def _changed(chance: Random, text: str) -> str:
    """A character lost, put in, replaced, doubled, or two of them turned round; or the end cut off."""
    at, put = chance.randrange(len(text) + 1), chance.choice(_PUT)
    before, here, after = text[:at], text[at : at + 1], text[at + 1 :]
    return chance.choice(
        (
            before + after,
            before + put + here + after,
            before + put + after,
            before + here * 2 + after,
            before + after[:1] + here + after[1:],
            before or put,
        )
    )


def spaced(chance: Random, text: str) -> str:
    """With white space around it."""
    return chance.choice(SPACES) + text + chance.choice(SPACES)


def _string(chance: Random) -> str:
    pieces = "".join(chance.choice(_PIECES) for _ in range(chance.randrange(6)))
    return f'"{pieces}"' if chance.random() < 0.8 else json.dumps(pieces)


def _list(chance: Random, depth: int) -> str:
    return f"[{_several(chance, lambda: value(chance, depth - 1))}]"


def _object(chance: Random, depth: int) -> str:
    def member() -> str:
        gap = chance.choice(SPACES)
        return f"{_string(chance)}{gap}:{spaced(chance, value(chance, depth - 1))}"

    return f"{{{_several(chance, member)}}}"


def _several(chance: Random, one: Callable[[], str]) -> str:
    return ",".join(spaced(chance, one()) for _ in range(chance.randrange(4))) or chance.choice(
        SPACES
    )
