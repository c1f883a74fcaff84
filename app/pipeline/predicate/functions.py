"""The built-in functions of CloudEvents SQL (3.5) in Spark: the same texts, code point for code point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from app.filters.cesql.functions import WHITE_SPACE
from app.filters.cesql.functions import find as find_function
from app.filters.cesql.nodes import Call
from app.pipeline.predicate.parts import Part, boolean, failure, integer, made, text

_Maker = Callable[[list[Part]], Part]


def call(node: Call, arguments: list[Part]) -> Part:
    """CESQL 3.5: a function that is not there is an error, and its type is Boolean."""
    if find_function(node.name, len(arguments)) is None:
        return failure(bool)
    return MAKERS[node.name](arguments)


def _abs(arguments: list[Part]) -> Part:
    (one,) = arguments
    return made(int, F.abs(integer(one).cast("bigint")).try_cast("int"), one)


def _bool(arguments: list[Part]) -> Part:
    (one,) = arguments
    return made(bool, boolean(one), one, total=one.total and one.type in {int, bool})


def _int(arguments: list[Part]) -> Part:
    (one,) = arguments
    return made(int, integer(one), one, total=one.total and one.type in {int, bool})


def _of_text(kind: type[str | int], of: Callable[[Column], Column]) -> _Maker:
    def make(arguments: list[Part]) -> Part:
        (one,) = arguments
        return made(kind, of(text(one)), one, total=one.total)

    return make


def _concat(arguments: list[Part]) -> Part:
    total = all(each.total for each in arguments)
    return made(str, F.concat(*map(text, arguments)), *arguments, total=total)


def _concat_ws(arguments: list[Part]) -> Part:
    """Spark's leaves out what is null: an error must not be left out."""
    delimiter, *texts = map(text, arguments)
    whole = F.concat(delimiter, *texts).isNotNull()
    joined = F.when(whole, F.call_function("concat_ws", delimiter, *texts))
    return made(str, joined, *arguments, times=2, total=all(each.total for each in arguments))


def _left(arguments: list[Part]) -> Part:
    return _end(arguments, F.left)


def _right(arguments: list[Part]) -> Part:
    return _end(arguments, F.right)


def _end(arguments: list[Part], of: Callable[[Column, Column], Column]) -> Part:
    value, count = text(arguments[0]), integer(arguments[1])
    return made(str, F.when(count >= 0, of(value, count)), *arguments, times=2)


def _substring(arguments: list[Part]) -> Part:
    """A position beyond the text is an error, and 0 gives nothing."""
    value, position = text(arguments[0]), integer(arguments[1])
    count = integer(arguments[2]) if len(arguments) > 2 else F.lit(2**31 - 1)  # noqa: PLR2004
    within = F.abs(position.cast("bigint")) <= F.length(value)
    taken = F.when(position == 0, F.lit("")).otherwise(F.substring(value, position, count))
    return made(str, F.when(within & (count >= 0), taken), *arguments, times=3)


NEWER_CAPITALS: Final = "\u1c89\ua7cb\ua7cc\ua7da\ua7dc" + "".join(
    map(chr, range(0x10D50, 0x10D66))
)
NEWER_SMALLS: Final = "\u0264\u019b\u1c8a\ua7cd\ua7db" + "".join(map(chr, range(0x10D70, 0x10D86)))
"""Letters that gained another case in Unicode 15 and 16. Spark knows these pairs; Python, which the gateway
asks, may know an older Unicode."""

_HIDDEN: Final = "".join(map(chr, range(0xFDD0, 0xFDF0)))  # no attribute has them (core 1.3)


def _cased(convert: Callable[[str], str], of: Callable[[Column], Column], newer: str) -> _Maker:
    """What this Python leaves as it is, is hidden from Spark meanwhile."""
    kept = "".join(letter for letter in newer if convert(letter) == letter)
    hidden = _HIDDEN[: len(kept)]

    def case(value: Column) -> Column:
        if not kept:
            return of(value)
        return F.translate(of(F.translate(value, kept, hidden)), hidden, kept)

    return _of_text(str, case)


MAKERS: Final[Mapping[str, _Maker]] = {
    "ABS": _abs,
    "BOOL": _bool,
    "CONCAT": _concat,
    "CONCAT_WS": _concat_ws,
    "INT": _int,
    "LEFT": _left,
    "LENGTH": _of_text(int, F.length),
    "LOWER": _cased(str.lower, F.lower, NEWER_CAPITALS),
    "RIGHT": _right,
    "STRING": _of_text(str, lambda value: value),
    "SUBSTRING": _substring,
    "TRIM": _of_text(str, lambda value: F.btrim(value, F.lit(WHITE_SPACE))),
    "UPPER": _cased(str.upper, F.upper, NEWER_SMALLS),
}
