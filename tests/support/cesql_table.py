"""Read the project's own table of CloudEvents SQL cases, ``tests/corpus/cesql``, as Python values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from app.event.value import AttributeType, CloudEvent, DataForm
from app.filters.cesql.expression import Expression
from app.filters.cesql.tokens import ParseError
from app.filters.cesql.values import Value

FOLDER = Path(__file__).parent.parent / "corpus" / "cesql"
EVENT = {
    "specversion": "1.0",
    "id": "A1",
    "source": "/shop",
    "type": "com.example.order.created",
    "subject": "blue",
}
"""The attributes of the event of every case. A case's own ``event`` adds to them."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case of the table: an expression, its event and the expected result. The README of the
    folder has the fields.
    """

    expression: str
    clause: str
    value: str | int | bool | None = None
    decimal: str | None = None
    errors: tuple[str, ...] = ()
    event: Mapping[str, str | int | bool] = {}
    data: str | None = None

    def __str__(self) -> str:
        beside = f" {json.dumps(self.event)}" if self.event else ""
        of_data = f" of {self.data}" if self.data else ""
        return f"{self.expression}{beside}{of_data}"

    @property
    def outcome(self) -> Outcome:
        value = self.value if self.decimal is None else Decimal(self.decimal)
        return Outcome(value, self.errors)


class Outcome(msgspec.Struct, frozen=True):
    """The result of an expression: a value and the kinds of its errors. The value is None if
    parsing failed.
    """

    value: Value | None
    errors: tuple[str, ...]

    def __eq__(self, other: object) -> bool:
        """Return True if value, type of value and errors are equal. Unlike in Python, true does
        not equal 1.
        """
        return isinstance(other, Outcome) and (
            (self.value.__class__, self.value, self.errors)
            == (other.value.__class__, other.value, other.errors)
        )

    def __hash__(self) -> int:
        return hash((self.value.__class__, self.value, self.errors))


def table() -> dict[str, list[Case]]:
    """Return the cases of each file of the table by the name of the file."""
    return {
        path.stem: msgspec.json.decode(path.read_bytes(), type=list[Case])
        for path in sorted(FOLDER.glob("*.json"))
    }


def event_of(added: Mapping[str, Value], data: str | None = None) -> CloudEvent:
    """Return an event with these attributes. JSON booleans and integers become attributes of these
    types.
    """
    kinds = {bool: AttributeType.BOOLEAN, int: AttributeType.INTEGER}
    attributes = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in added.items()
    }
    return CloudEvent(
        {**EVENT, **attributes},
        data=None if data is None else data.encode(),
        data_form=DataForm.OPAQUE if data is None else DataForm.JSON,
        types={
            name: kinds[value.__class__]
            for name, value in added.items()
            if value.__class__ in kinds
        },
    )


def ours(expression: str, event: CloudEvent) -> Outcome:
    try:
        result = Expression(expression).evaluate(event)
    except ParseError:
        return Outcome(None, ("parse",))
    return Outcome(result.value, tuple(error.kind for error in result.errors))


def plain(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return all attributes of the event of a case as JSON values, for engines of other projects."""
    return {**EVENT, **extra}
