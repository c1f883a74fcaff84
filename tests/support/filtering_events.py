"""Events, expressions and rows with which tests compare filters over rows with ``app.filters``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from app.event.value import CloudEvent
from app.filters.cesql.nodes import Constant
from app.filters.cesql.printer import node_text
from app.filters.cesql.values import Value
from app.filters.dialects import compile_filters
from app.filters.model import Filter
from cesql_making import random_cases
from cesql_table import Case, event_of, ours, table

_TEXT_COLUMNS = ("specversion", "id", "source", "type", "subject", "datacontenttype", "dataschema")
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _TEXT_COLUMNS),
        ("time_text", pa.string()),
        ("extensions", pa.map_(pa.string(), pa.string())),
        ("types", pa.map_(pa.string(), pa.string())),
        ("data", pa.string()),
        ("data_bytes", pa.binary()),
        ("data_form", pa.string()),
    ]
)
_LETTERS = "abcXYZ019 _%\\.-'\"ä\xdf\u0130\u0131\u03a3\u03c2\u03c3\u212a\u017f\u00a0\u2003\u1c89\ua7cb\u0264\u019b\U00010d50\U00010d70\U0001f600"


def cases() -> list[Case]:
    """Return the cases of the CESQL table whose expressions can be parsed, also if they read the
    data of the event."""
    return [case for rows in table().values() for case in rows if case.errors != ("parse",)]


def expressions(made_by_chance: int, seed: int) -> list[str]:
    """Return the expressions of the table and random expressions. Each is returned alone and
    compared with its value, because a filter alone could not distinguish 3 from 4."""
    found = [*cases(), *random_cases(made_by_chance, seed)]
    return list(
        dict.fromkeys(text for case in found for text in (case.expression, *_comparison_of(case)))
    )


def _comparison_of(case: Case) -> Iterator[str]:
    outcome = ours(case.expression, event_of(case.event, case.data))
    if outcome.value is not None and not outcome.errors:
        yield f"({case.expression}) = {node_text(Constant(outcome.value))}"


def events(made_by_chance: int, seed: int) -> list[CloudEvent]:
    """Return the events of the table, of random expressions, with odd letters, and with data that
    is not JSON or text.
    """
    chance = Random(seed)
    found = [event_of(case.event, case.data) for case in [*cases(), *random_cases(60, seed)]]
    found += [event_of(_odd(chance)) for _ in range(made_by_chance)]
    plain = event_of({})
    typed = replace(plain, attributes={**plain.attributes, "datacontenttype": "application/json"})
    found += [
        replace(one, data=data) for one in (plain, typed) for data in (b"\xff", b'{"a":1}', b"")
    ]
    return list({repr(each): each for each in found}.values())


def _odd(chance: Random) -> dict[str, Value]:
    def text() -> str:
        return "".join(chance.choice(_LETTERS) for _ in range(chance.randint(1, 8)))

    names = ("subject", "text", "digits", "myext", "type")
    odd: dict[str, Value] = {name: text() for name in names if chance.random() < 0.7}
    number = chance.choice([0, 1, -1, 7, 2**31 - 1, -(2**31), chance.randint(-99, 99)])
    return {**odd, "number": number, "flag": chance.random() < 0.5}


def batch(found: Sequence[CloudEvent]) -> pa.RecordBatch:
    """Return the events as a batch with the columns of the pipeline's decoder."""
    return pa.RecordBatch.from_pylist([_row(event) for event in found], _SCHEMA)


def _row(event: CloudEvent) -> dict[str, Any]:
    attributes = dict(event.attributes)
    row: dict[str, Any] = {name: attributes.pop(name, None) for name in _TEXT_COLUMNS}
    row["time_text"] = attributes.pop("time", None)
    row["extensions"] = list(attributes.items())
    row["types"] = [(name, kind.value) for name, kind in event.types.items()] or None
    try:
        row["data"] = None if event.data is None else event.data.decode()
    except UnicodeDecodeError:
        row["data_bytes"] = event.data
    row["data_form"] = event.data_form.value
    return row


def answers(found: Sequence[CloudEvent], filters: Iterable[Filter]) -> list[list[bool]]:
    """Return for each filter whether ``app.filters`` selects each event."""
    wanted = [compile_filters([one]) for one in filters]
    return [[wants(event) for event in found] for wants in wanted]
