"""The rules of the CloudEvents project's adapters: which field of a payload becomes which
attribute.

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
    Mapper,
    MissingValue,
    TextFinder,
    Unmappable,
    as_time,
    complete,
    is_time,
)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


_STEPS = Memo(_steps)


class PayloadPaths(NamedTuple):
    """The fields of a payload from which the attributes of an event are taken.

    A field is a dotted path. Where several paths are given, the first one that has a value counts.

    Attributes:
        name: the word after the common prefix of the event types.
        detail: fields whose values are appended to the event type.
        source: fields for the source.
        subject: fields for the subject.
        time: fields for the time; empty if the adapter demands the current time.
    """

    name: str
    detail: tuple[str, ...] = ("action",)
    source: tuple[str, ...] = ()
    subject: tuple[str, ...] = ()
    time: tuple[str, ...] = ()


def texts_at(fields: Any, paths: Iterable[str]) -> Iterator[str]:
    """Yield the values of the fields at these paths as text. A field without a non-empty text or a
    whole number is skipped."""
    for path in paths:
        value = value_at(fields, path)
        if (isinstance(value, str) and value) or type(value) is int:
            yield str(value)


def first_text(fields: Any, paths: Iterable[str]) -> str:
    """Return the first text or whole number among the fields, or "" if they have none."""
    return next(texts_at(fields, paths), "")


def time_of(fields: Any, paths: Iterable[str]) -> str:
    """Return the first time among the fields as RFC 3339 text, or "". Seconds since the epoch are
    converted.
    """
    return next(filter(is_time, map(as_time, texts_at(fields, paths))), "")


def value_at(fields: Any, path: str) -> Any:
    """Return the value at a dotted path, or None if there is none."""
    for step in _STEPS[path]:
        if not isinstance(fields, dict):
            return None
        fields = fields.get(step)
    return fields


def build_attributes(
    rule: PayloadPaths, fields: Any, id_: str, type_: str, source: str, received: str, project: str
) -> Attributes:
    """Return the attributes of an event from its payload.

    Args:
        rule: the fields of the attributes.
        fields: the payload.
        id_: the id of the event.
        type_: the type of the event.
        source: the source of the event; "" leaves it out.
        received: RFC 3339 text, the time of the event if the payload has none.
        project: path of the field with the partition key, which keeps the order within a project.
    """
    found = {"specversion": "1.0", "id": id_, "type": type_}
    found["time"] = time_of(fields, rule.time) or received
    several = {
        "source": source,
        "subject": first_text(fields, rule.subject),
        "partitionkey": first_text(fields, (project,)),
    }
    return found | {name: text for name, text in several.items() if text}


Adapt = Callable[[str, str, Any, str], Attributes]
"""A function that returns the attributes for a kind of event, its id, its payload, and the time now
(RFC 3339).
"""


def compile_adapter(
    adapt: Adapt, kind: TextFinder, identity: TextFinder, fallback_source: TextFinder | None = None
) -> Mapper:
    """Return a mapper that applies an adapter to requests.

    Args:
        adapt: the adapter.
        kind: finds the kind of event in the request.
        identity: finds the id of the event.
        fallback_source: finds the source, if the adapter finds none.
    """

    def mapper(arrival: IntakeRequest, now: float) -> Attributes:
        fields = arrival.fields()
        if fields is None:
            raise Unmappable([Fault("missing-value", "The body holds no JSON object.", "body")])
        absent: dict[str, MissingValue] = {}
        name = _find("type", kind, arrival, absent)
        made = adapt(name, _find("id", identity, arrival, absent), fields, as_time(str(int(now))))
        if "source" not in made and fallback_source is not None:
            made["source"] = _find("source", fallback_source, arrival, absent)
        for attribute in absent:
            del made[attribute]
        return complete(made, arrival, absent)

    return mapper


def _find(
    attribute: str, find: TextFinder, arrival: IntakeRequest, absent: dict[str, MissingValue]
) -> str:
    try:
        return find(arrival)
    except MissingValue as missing:
        absent[attribute] = missing
        return ""
