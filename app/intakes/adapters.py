"""Rules of the CloudEvents project's adapters: which field of a payload names which attribute.

https://github.com/cloudevents/spec/tree/main/cloudevents/adapters
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from app.errors import Fault
from app.event.memo import Memo
from app.intakes.arrival import IntakeRequest
from app.intakes.mapping import (
    Attributes,
    Find,
    Mapper,
    Missing,
    Unmappable,
    as_time,
    complete,
    is_time,
)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


_STEPS = Memo(_steps)


class PayloadPaths(NamedTuple):
    """Where in a payload each attribute is found; dotted paths, the first that holds a value wins.

    ``name``    the word behind the prefix of all types; ``detail``: fields whose values follow it.
    ``source``  the first that holds a text.
    ``time``    empty where the adapter says "current time".
    """

    name: str
    detail: tuple[str, ...] = ("action",)
    source: tuple[str, ...] = ()
    subject: tuple[str, ...] = ()
    time: tuple[str, ...] = ()


def texts(fields: Any, paths: Iterable[str]) -> Iterator[str]:
    """Of the fields that hold a text or a whole number."""
    for path in paths:
        value = at(fields, path)
        if (isinstance(value, str) and value) or type(value) is int:
            yield str(value)


def first(fields: Any, paths: Iterable[str]) -> str:
    """Empty for none."""
    return next(texts(fields, paths), "")


def time_of(fields: Any, paths: Iterable[str]) -> str:
    """RFC 3339, also of seconds since the epoch; empty for neither."""
    return next(filter(is_time, map(as_time, texts(fields, paths))), "")


def at(fields: Any, path: str) -> Any:
    """None where nothing is."""
    for step in _STEPS[path]:
        if not isinstance(fields, dict):
            return None
        fields = fields.get(step)
    return fields


def attributes_of(
    rule: PayloadPaths, fields: Any, id_: str, type_: str, source: str, received: str, project: str
) -> Attributes:
    """``received``: RFC 3339 text, its time where the adapter says "current time". ``project``: path of the
    field whose value is the partition key: order is kept per project."""
    found = {"specversion": "1.0", "id": id_, "type": type_}
    found["time"] = time_of(fields, rule.time) or received
    several = {
        "source": source,
        "subject": first(fields, rule.subject),
        "partitionkey": first(fields, (project,)),
    }
    return found | {name: text for name, text in several.items() if text}


Adapt = Callable[[str, str, Any, str], Attributes]
"""From the kind of event, its id, the payload and the time now (RFC 3339) to attributes."""


def compile_adapter(
    adapt: Adapt, kind: Find, identity: Find, elsewhere: Find | None = None
) -> Mapper:
    """``elsewhere``: the source of what ``adapt`` finds none for."""

    def mapper(arrival: IntakeRequest, now: float) -> Attributes:
        fields = arrival.fields()
        if fields is None:
            raise Unmappable([Fault("missing-value", "The body holds no JSON object.", "body")])
        absent: dict[str, Missing] = {}
        name = _sought("type", kind, arrival, absent)
        made = adapt(name, _sought("id", identity, arrival, absent), fields, as_time(str(int(now))))
        if "source" not in made and elsewhere is not None:
            made["source"] = _sought("source", elsewhere, arrival, absent)
        for attribute in absent:
            del made[attribute]
        return complete(made, arrival, absent)

    return mapper


def _sought(attribute: str, find: Find, arrival: IntakeRequest, absent: dict[str, Missing]) -> str:
    try:
        return find(arrival)
    except Missing as missing:
        absent[attribute] = missing
        return ""
