"""Schemas with data for them, and a reading of the data by Python's own JSON: for typed tables.

Each part of a schema is made together with the function that reads its values. Nothing here uses
the code of the pipeline.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from math import isinf
from typing import Any, NamedTuple

Read = Callable[[Any, str], Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PIECES = (
    b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b" ", b"null", b"true", b"1", b"-", b"-0", b".5", b"e3", b"E400",
    b"1e400", b"0E99999999999999999999", b"12345678901234567890", b"2147483648", b"0.001", b"NaN", b"1E-61", b'"\\ud800"', b"\\u0000", b'"x"',
    b'"2026-02-30"', b'"2016-12-31T23:59:60Z"', b'"0000-01-01T00:00:00Z"', b'"a":', b"\xc3\xa9", b"\x01", b"\xef\xbb\xbf",
)  # fmt: skip


class Unfit(Exception):
    """The error for a value that its column cannot hold, with its JSON Pointer."""


class Made(NamedTuple):
    """A part of a schema.

    Attributes:
        schema: The JSON Schema.
        write: Returns the JSON text of a value.
        read: Converts a value, as Python's JSON reads it, to what the column returns.
    """

    schema: dict[str, Any]
    write: Callable[[], str]
    read: Read


class Number(str):
    """The token of a number."""

    __slots__ = ()

    @property
    def exact(self) -> Decimal | None:
        """The number; None if Python cannot look at it digit by digit."""
        if not self.lower().partition("e")[0].strip("-0."):
            return Decimal(0)
        try:
            found = Decimal(self)
        except InvalidOperation:
            return None
        return found if abs(found.adjusted()) < 1_000 else None


class JsonText:
    """The value of a column with JSON text. It equals every text of the same value."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and bool(parsed(other) == self.value)


def parsed(text: str) -> Any:
    """Return a JSON value by Python's own parser, with exact numbers. Raises ValueError."""
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_refuse)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def schema(chance: random.Random) -> Made:
    """Return a schema of an object with some properties of all kinds."""
    return _object(chance, 3)


def _any(chance: random.Random, depth: int) -> Made:
    simple = [_text, _integer, _number, _exact, _boolean, _time, _day, _json]
    nested = [_object, _list, _map] if depth else []
    made: Any = chance.choice([*simple, *nested])
    found: Made = made(chance, depth - 1) if made in nested else made(chance)
    return found


def _nullable(chance: random.Random, made: Made) -> Made:
    kind = made.schema.get("type")
    if isinstance(kind, str) and chance.random() < 0.3:
        return made._replace(
            schema={**made.schema, "type": [kind, "null"]},
            write=lambda: "null" if chance.random() < 0.3 else made.write(),
        )
    return made


def _demand(fits: object, at: str) -> None:
    if not fits:
        raise Unfit(at)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(chance: random.Random) -> Made:
    words = ["", "a", "é", "😀", 'q"', "\\", "\n", "x" * 300, "1", "null", "\x00"]

    def read(value: Any, at: str) -> Any:
        _demand(_is_text(value) and _whole(value), at)
        return value

    return Made(
        {"type": "string"},
        lambda: json.dumps(chance.choice(words), ensure_ascii=chance.random() < 0.5),
        read,
    )


def _integer(chance: random.Random) -> Made:
    small = chance.random() < 0.5
    bits = 31 if small else 63
    bounds = {"minimum": -100, "maximum": 2**31 - 1} if small else {}

    def write() -> str:
        number = chance.choice([0, 1, -1, 7, 2**bits - 1, chance.randrange(10**6)])
        return chance.choice(["{}", "{}", "{}", "{}.0", "{}e0", "{}.000E0"]).format(number)

    def read(value: Any, at: str) -> Any:
        exact = _exact_of(value, at)
        _demand(exact == int(exact) and -(2**bits) <= exact < 2**bits, at)
        return int(exact)

    return Made({"type": "integer", **bounds}, write, read)


def _exact_of(value: Any, at: str) -> Decimal:
    exact = value.exact if isinstance(value, Number) else None
    if exact is None:
        raise Unfit(at)
    return exact


def _number(chance: random.Random) -> Made:
    def read(value: Any, at: str) -> Any:
        _demand(isinstance(value, Number) and not isinf(float(value)), at)
        return float(value)

    def write() -> str:
        return chance.choice(
            ["0.1", "1", "-2.5e-3", "1e300", "123456789012345678901", repr(chance.random())]
        )

    return Made({"type": "number"}, write, read)


def _exact(chance: random.Random) -> Made:
    scale = chance.choice([1, 2, 4])
    bounds = {"minimum": 0, "maximum": 99_999} if chance.random() < 0.5 else {}
    most = 10**5 if bounds else 10 ** (38 - scale)

    def write() -> str:
        number = Decimal(chance.randrange(10 ** (4 + scale))).scaleb(-scale)
        return chance.choice(["{}", "{:f}", "{:E}", "{}00" if scale else "{}"]).format(number)

    def read(value: Any, at: str) -> Any:
        exact = _exact_of(value, at)
        _demand(abs(exact) < most and (not exact or _places(exact.as_tuple()) <= scale), at)
        return exact

    return Made({"type": "number", "multipleOf": 10.0**-scale, **bounds}, write, read)


def _places(number: Any) -> int:
    """Return the number of digits after the point, without zeros at the end."""
    digits, exponent = list(number.digits), int(number.exponent)
    while exponent < 0 and digits and digits[-1] == 0:
        digits.pop()
        exponent += 1
    return max(0, -exponent)


def _boolean(chance: random.Random) -> Made:
    def read(value: Any, at: str) -> Any:
        _demand(isinstance(value, bool), at)
        return value

    return Made({"type": "boolean"}, lambda: chance.choice(["true", "false"]), read)


def _time(chance: random.Random) -> Made:
    ends = ["Z", "z", ".5Z", ".123456Z", ".123456789Z", "+02:00", "-17:30", ".1+00:00"]

    def write() -> str:
        day = f"{chance.randrange(1, 9999):04}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
        return f'"{day}{chance.choice("Tt")}12:34:{chance.randrange(60):02}{chance.choice(ends)}"'

    return Made({"type": "string", "format": "date-time"}, write, _read_time)


def _read_time(value: Any, at: str) -> Any:
    _demand(_is_text(value) and _TIME.fullmatch(value), at)
    shorter = re.sub(r"(\.\d{6})\d+", r"\1", value.upper())
    try:
        found = datetime.fromisoformat(shorter)
        _demand(abs(found.utcoffset() or timedelta()) <= timedelta(hours=18), at)
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unfit(at) from None


def _day(chance: random.Random) -> Made:
    def read(value: Any, at: str) -> Any:
        _demand(_is_text(value) and _DAY.fullmatch(value), at)
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise Unfit(at) from None

    return Made(
        {"type": "string", "format": "date"},
        lambda: (
            f'"{chance.randrange(1, 9999):04}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"'
        ),
        read,
    )


def _json(chance: random.Random) -> Made:
    texts = [
        '{"a": [1, 2.50]}',
        '"x"',
        "1.10",
        "true",
        "[ ]",
        '{"a":1,"a":2}',
        '"\\ud800"',
        "1e400",
    ]
    parts: list[dict[str, Any]] = [{}, {"type": ["string", "integer"]}, {"type": "object"}, {"type": "array"},
                                   {"oneOf": [{"type": "string"}, {"type": "boolean"}]}]  # fmt: skip
    return Made(
        chance.choice(parts), lambda: chance.choice(texts), lambda value, _: JsonText(value)
    )


def _object(chance: random.Random, depth: int) -> Made:
    names = chance.sample(["id", "type", "a b", "é", "value", "x~y", "p/q", "select", "data"], 4)
    inside = {name: _nullable(chance, _any(chance, depth)) for name in names}

    def write() -> str:
        members = [
            f"{json.dumps(name)}: {each.write()}"
            for name, each in inside.items()
            if chance.random() < 0.85
        ]
        members += ['"more": {"z": [1]}'] if chance.random() < 0.3 else []
        chance.shuffle(members)
        return "{" + chance.choice([", ", ",", ",\n "]).join(members) + "}"

    def read(value: Any, at: str) -> Any:
        _demand(isinstance(value, dict), at)
        return {
            name: _inner(each, value.get(name), f"{at}/{_step(name)}")
            for name, each in inside.items()
        }

    properties = {name: each.schema for name, each in inside.items()}
    return Made({"type": "object", "properties": properties}, write, read)


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _inner(made: Made, value: Any, at: str) -> Any:
    return None if value is None else made.read(value, at)


def _list(chance: random.Random, depth: int) -> Made:
    item = _nullable(chance, _any(chance, depth))

    def write() -> str:
        return "[" + ",".join(item.write() for _ in range(chance.randrange(4))) + "]"

    def read(value: Any, at: str) -> Any:
        _demand(isinstance(value, list), at)
        return [_inner(item, each, f"{at}/{n}") for n, each in enumerate(value)]

    return Made({"type": "array", "items": item.schema}, write, read)


def _map(chance: random.Random, depth: int) -> Made:
    inner = _nullable(chance, _any(chance, depth))
    if not inner.schema:
        inner = _boolean(chance)

    def write() -> str:
        pairs = (f'"k{n}": {inner.write()}' for n in range(chance.randrange(4)))
        return "{" + ",".join(pairs) + "}"

    def read(value: Any, at: str) -> Any:
        _demand(isinstance(value, dict), at)
        _demand(all(map(_whole, value)), at)
        return [(name, _inner(inner, each, f"{at}/{_step(name)}")) for name, each in value.items()]

    return Made({"type": "object", "additionalProperties": inner.schema}, write, read)


def mutated(chance: random.Random, text: str) -> str:
    """Return a JSON text with up to three changes that keep it UTF-8."""
    found = bytearray(text.encode())
    for _ in range(chance.choice([1, 1, 2, 3])):
        at, piece = chance.randrange(len(found) + 1), chance.choice(_PIECES)
        how = chance.random()
        if how < 0.4:
            found[at:at] = piece
        elif how < 0.7:
            found[at : at + chance.randrange(1, 6)] = piece
        else:
            del found[at : at + chance.randrange(1, 4)]
    return found.decode("utf-8", "replace")


def readings(made: Made, texts: list[str]) -> Iterator[tuple[dict[str, Any] | None, str]]:
    """Yield what the columns hold for each text, or None and the JSON Pointer of its first fault."""
    for text in texts:
        try:
            yield made.read(parsed(text), "/data"), ""
        except Unfit as fault:
            yield None, str(fault)
        except (ValueError, RecursionError):
            yield None, "/data"
