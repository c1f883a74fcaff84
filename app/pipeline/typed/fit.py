"""Convert the data of events to columns, and find the values that do not fit their columns.

msgspec reads each document by the model of the schema. A document that it refuses is judged value by
value, by the JSON grammar and the kinds alone. So a document fits or does not, whichever way is
taken: ``tests/unit/pipeline/typed`` compares both with Python's own JSON.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from functools import cache
from math import isfinite
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Raw

from app.errors import Fault
from app.event import json_text
from app.event.validate import clip, shorten
from app.pipeline.kinds import Exact, Items, Kind, Leaf, LeafName, Members, Properties
from app.pipeline.typed.arrays import Unfit, array_of, plain_text, struct_of
from app.pipeline.typed.types import LEAVES, NULL, attribute, is_text, model_of

UNFIT: Final = "data-does-not-fit"
"""The code of a value that its column cannot hold, and the rule of its row in ``quarantine``."""

MOST: Final = 50
"""The most faults of one event that are listed."""

LONGEST_NAME: Final = 256
"""The most characters of a name in a JSON Pointer."""

_HUGE: Final = 64
"""The largest exponent of ten of a number that is looked at digit by digit. No column holds more."""

_INTEGERS: Final = {"int": 1 << 31, "long": 1 << 63}
_TIMES: Final = frozenset({"date", "instant"})


class Fitted(NamedTuple):
    """Converted data.

    Attributes:
        data: The columns of the documents that fit, in their order.
        rows: The number of each of these documents.
        faults: The faults of all other documents, by their number.
    """

    data: pa.StructArray
    rows: list[int]
    faults: dict[int, list[Fault]]


def fit(documents: Sequence[bytes | None], record: Properties, wanted: pa.StructType) -> Fitted:
    """Convert JSON documents to columns of the type ``wanted``. None is a document that is missing."""
    with _no_collection():
        values, rows, faults = _read(documents, record)
        try:
            return Fitted(struct_of(record, values, wanted), rows, faults)
        except Exception:  # noqa: BLE001 - a value fits JSON's type, but not the column
            return _judged(documents, record, wanted, rows, faults)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the search for reference cycles inside the context. It would look through all documents
    again and again, and they have none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _read(
    documents: Sequence[bytes | None], record: Properties
) -> tuple[list[Any], list[int], dict[int, list[Fault]]]:
    """Return the models of the documents that have one, their numbers, and the faults of the others."""
    values, rows, faults = [], [], dict[int, list[Fault]]()
    decode = _decoder(record)
    for n, document in enumerate(documents):
        try:
            value = decode(document)
        except Exception:  # noqa: BLE001 - the reason is found below
            value, found = judge(document, record)
            if value is None:
                faults[n] = found
                continue
        values.append(value)
        rows.append(n)
    return values, rows, faults


def _judged(
    documents: Sequence[bytes | None],
    record: Properties,
    wanted: pa.StructType,
    rows: Sequence[int],
    faults: dict[int, list[Fault]],
) -> Fitted:
    """Convert documents of which at least one has a value that its column cannot hold."""
    values, kept = [], []
    for n in rows:
        value, found = judge(documents[n], record)
        if value is not None:
            try:
                struct_of(record, [value], wanted)
            except Exception as bug:  # noqa: BLE001 - a row must not end the archive
                value, found = None, [_unstored(bug)]
        if value is None:
            faults[n] = found
        else:
            values.append(value)
            kept.append(n)
    return Fitted(struct_of(record, values, wanted), kept, faults)


@cache
def _decoder(record: Properties) -> Any:
    return msgspec.json.Decoder(model_of(record)).decode


def judge(document: bytes | None, record: Properties) -> tuple[msgspec.Struct | None, list[Fault]]:
    """Return the model of one document, or None and its faults."""
    if not document:
        return None, [Fault("missing-data", "The event has no data.", "/data")]
    judging = _Judging()
    try:
        value = judging.value(record, Raw(json_text.single_value(document)), "/data")
    except json_text.NOT_JSON as error:
        why = json_text.reason(document, error)
        return None, [Fault("data-not-json", f"The data is not JSON: {why}.", "/data")]
    except Exception as bug:  # noqa: BLE001 - a row must not end the archive
        return None, [_unstored(bug)]
    if value is None and not judging.faults:
        judging.refuse("/data", "an object", NULL)
    return (None, judging.faults) if judging.faults else (value, [])


def _unstored(bug: Exception) -> Fault:
    return Fault(UNFIT, f"The data cannot be stored: {clip(repr(bug))}.", "/data")


class _Judging:
    """The reading of one document, which collects its faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def refuse(self, at: str, wanted: str, value: Raw) -> None:
        if len(self.faults) < MOST:
            shown = clip(bytes(value)[:256].decode("utf-8", "replace"))
            self.faults.append(Fault(UNFIT, f"The column needs {wanted}, not {shown}.", at))

    def value(self, kind: Kind, raw: Raw, at: str) -> Any:
        """Return a value as a model has it; None, and a fault, if it does not fit."""
        text = bytes(raw)
        if text == b"null":
            return NULL if is_text(kind) else None
        match kind:
            case Leaf(name=name):
                return self._leaf(name, raw, text, at)
            case Exact():
                return self._exact(kind, raw, text, at)
            case Properties():
                return self._record(kind, raw, at)
            case Items(item=item):
                if not text.startswith(b"["):
                    return self.refuse(at, "a list", raw)
                return [
                    self.value(item, each, f"{at}/{n}")
                    for n, each in enumerate(json_text.items(raw))
                ]
            case Members(value=inner):
                return self._members(inner, raw, at)

    def _record(self, kind: Properties, raw: Raw, at: str) -> Any:
        if not bytes(raw).startswith(b"{"):
            return self.refuse(at, "an object", raw)
        there = json_text.members(raw)
        found = {
            attribute(n): self.value(field.kind, there[field.name], _inner(at, field.name))
            for n, field in enumerate(kind.fields)
            if field.name in there
        }
        return model_of(kind)(**found)

    def _members(self, kind: Kind, raw: Raw, at: str) -> Any:
        if not bytes(raw).startswith(b"{"):
            return self.refuse(at, "an object", raw)
        there = json_text.members(raw)
        for name in there:
            if _is_torn(name):
                self.refuse(at, "names of whole characters", raw)
                return None
        return {name: self.value(kind, each, _inner(at, name)) for name, each in there.items()}

    def _leaf(self, name: LeafName, raw: Raw, text: bytes, at: str) -> Any:
        found = raw if name == "json" else _leaf(name, text)
        return self.refuse(at, LEAVES[name].words, raw) if found is None else found

    def _exact(self, kind: Exact, raw: Raw, text: bytes, at: str) -> Any:
        """Return a number as plain text, without an exponent and zeros at the end."""
        found = _number(text)
        if found is not None:
            plain = f"{found:f}"
            plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
            if re.search(plain_text(kind).replace(r"\z", r"\Z"), plain):
                return Raw(plain.encode())
        words = f"a number of {kind.precision} digits, {kind.scale} of them after the point"
        self.refuse(at, words, raw)
        return NULL


def _leaf(name: LeafName, text: bytes) -> Any:
    """Return the value of a leaf; None if the text does not fit."""
    if name == "boolean":
        return {b"true": True, b"false": False}.get(text)
    if name == "double":
        number = float(text) if _is_number(text) else float("nan")
        return number if isfinite(number) else None
    if name in _INTEGERS:
        return _whole(text, _INTEGERS[name])
    if not text.startswith(b'"'):
        return None
    found = json_text.string(text)
    if _is_torn(found):
        return None
    if name in _TIMES:
        try:
            array_of(Leaf(name), [found], LEAVES[name].arrow)
        except (Unfit, pa.ArrowInvalid):
            return None
    return found


def _is_number(text: bytes) -> bool:
    return text[:1] in b"-0123456789"


def _number(text: bytes) -> Decimal | None:
    """Return a JSON number; None for another value, and for a number of very many digits."""
    if not _is_number(text) or len(text) > json_text.DIGITS:
        return None
    if not text.lower().partition(b"e")[0].strip(b"-0."):
        return Decimal(0)
    try:
        found = Decimal(text.decode())
    except InvalidOperation:  # an exponent of very many digits
        return None
    far = found.adjusted() > _HUGE or found.adjusted() < -_HUGE
    return None if far else found


def _whole(text: bytes, limit: int) -> int | None:
    found = _number(text)
    if found is None or found != found.to_integral_value():
        return None
    number = int(found)
    return number if -limit <= number < limit else None


def _is_torn(text: str) -> bool:
    """Return True if a text has an unpaired surrogate, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _inner(at: str, name: str) -> str:
    """Return the JSON Pointer (RFC 6901) to a member. Only a very long name is shortened."""
    step = name if len(name) <= LONGEST_NAME else shorten(name)
    return f"{at}/{step.replace('~', '~0').replace('/', '~1')}"
