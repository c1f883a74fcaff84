"""Check every length and count in a request before ``kio`` reads it.

``kio`` allocates memory for as many elements as a request declares. So four bytes could exhaust the
memory of the process. The check follows the same schema and allocates nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import msgspec

MAX_ELEMENTS = 50_000  # elements of all arrays of one request together
_FIXED = {
    "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4,
    "uint32": 4, "timedelta_i32": 4, "int64": 8, "float64": 8, "uint64": 8, "timedelta_i64": 8,
    "datetime_i64": 8, "uuid": 16,
}  # fmt: skip


class WrongLength(ValueError):
    """The error for a request with a wrong length or count."""


class Skip(msgspec.Struct, frozen=True):
    """A step of the length check that skips ``size`` bytes."""

    size: int


class Bytes(msgspec.Struct, frozen=True):
    """A step of the length check that skips a length and as many bytes. The length has ``width``
    bytes; 0 means the compact form."""

    width: int


class Array(msgspec.Struct, frozen=True):
    """A step of the length check for an array. Each element is checked by the steps ``of``."""

    of: tuple[Step, ...]
    compact: bool
    nullable: bool


class Nullable(msgspec.Struct, frozen=True):
    """A step of the length check for a structure after a byte that shows whether it is present
    (KIP-893)."""

    of: tuple[Step, ...]


class Tags(msgspec.Struct, frozen=True):
    """A step of the length check for tagged fields, with the steps of the known tags."""

    known: Mapping[int, tuple[Step, ...]]


Step = Skip | Bytes | Array | Nullable | Tags


@lru_cache(maxsize=1024)
def steps_of(schema: Any) -> tuple[Step, ...]:
    """Return the steps that check a request of this class."""
    flexible: bool = schema.__flexible__
    steps: list[Step] = []
    known: dict[int, tuple[Step, ...]] = {}
    for field in fields(schema):
        tag = field.metadata.get("tag")
        if tag is None:
            steps += _field(field, flexible, tagged=False)
        else:
            known[int(tag)] = tuple(_field(field, flexible, tagged=True))
    if flexible:
        steps.append(Tags(known))
    return _merge_fixed_sizes(steps)


def _field(field: Field[Any], flexible: bool, *, tagged: bool) -> list[Step]:
    """Return the steps that check one field, by the type of the field: a primitive, a message, a
    tuple of either, or an optional value."""
    kind: Any = field.type
    nullable = get_origin(kind) is UnionType
    if nullable:
        (kind,) = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) is tuple:
        of = get_args(kind)[0]
        inner = steps_of(of) if _is_message(of) else (_primitive(field, flexible),)
        return [Array(inner, flexible, nullable)]
    if _is_message(kind):
        inner = steps_of(kind)
        return [Nullable(inner)] if nullable and not tagged else list(inner)
    return [_primitive(field, flexible)]


def _is_message(kind: Any) -> bool:
    return is_dataclass(kind)


def _primitive(field: Field[Any], flexible: bool) -> Step:
    name: str = field.metadata["kafka_type"]
    if name in _FIXED:
        return Skip(_FIXED[name])
    if flexible:
        return Bytes(0)
    return Bytes(2 if name == "string" else 4)


def _merge_fixed_sizes(steps: list[Step]) -> tuple[Step, ...]:
    """Merge neighbouring steps of fixed size into one."""
    merged: list[Step] = []
    for step in steps:
        if isinstance(step, Skip) and merged and isinstance(merged[-1], Skip):
            merged[-1] = Skip(merged[-1].size + step.size)
        else:
            merged.append(step)
    return tuple(merged)


class LengthCheck:
    """Checks the lengths of one request from offset ``at`` on."""

    def __init__(self, frame: bytes, at: int) -> None:
        self._frame = frame
        self._elements_left = MAX_ELEMENTS
        self.at = at

    def check(self, steps: tuple[Step, ...]) -> None:
        """Follow the steps. Raise WrongLength if a length or count is wrong."""
        for step in steps:
            match step:
                case Skip():
                    self._skip(step.size)
                case Bytes():
                    self._bytes(step.width)
                case Array():
                    self._array(step)
                case Tags():
                    self._tags(step.known)
                case Nullable():
                    if self._number(1) > 0:
                        self.check(step.of)

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._frame):
            raise WrongLength("the request ends within a field")

    def _bytes(self, width: int) -> None:
        size = self._number(width) if width else self._varint() - 1
        if size < -1:
            raise WrongLength(f"a length of {size}")
        self._skip(max(0, size))

    def _array(self, array: Array) -> None:
        count = self._varint() - 1 if array.compact else self._number(4)
        least = -1 if array.nullable else 0
        if not least <= count <= min(self._elements_left, len(self._frame) - self.at):
            raise WrongLength(f"{count} elements")
        self._elements_left -= max(0, count)
        if len(array.of) == 1 and isinstance(array.of[0], Skip):
            self._skip(max(0, count) * array.of[0].size)
            return
        for _ in range(count):
            self.check(array.of)

    def _tags(self, known: Mapping[int, tuple[Step, ...]]) -> None:
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            end = self.at + size
            if tag not in known:
                raise WrongLength(f"tag {tag} is not known")
            self.check(known[tag])
            if self.at != end:
                raise WrongLength(f"the length of tag {tag} is wrong")

    def _number(self, width: int) -> int:
        at = self.at
        self._skip(width)
        return int.from_bytes(self._frame[at : self.at], "big", signed=True)

    def _varint(self) -> int:
        frame, at = self._frame, self.at
        value = shift = 0
        while at < len(frame) and shift < 35:  # noqa: PLR2004 - five groups of seven bits
            byte = frame[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the top bit means that more follow
                self.at = at
                return value
            shift += 7
        raise WrongLength("a number does not end")
