"""From a request to the attributes of an event, by templates: ``com.example.{pointer:/kind}``."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from app.errors import Fault, SenderError, SetupError
from app.event.types import is_timestamp
from app.event.validate import faults_of, is_plainly_valid
from app.intakes.arrival import IntakeRequest, compile_pointer

Attributes = dict[str, str]
Mapper = Callable[[IntakeRequest, float], Attributes]
"""From a request and the time now, in seconds since the epoch, to attributes. Raises Unmappable."""

Alternatives = Sequence[str]
"""Templates of one attribute: the first that can be filled is taken. An empty one leaves it out."""

Find = Callable[[IntakeRequest], str]
"""Raises Missing."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_POINTER = re.compile(r"(/([^~]|~[01])*)+")
_CURE = "write {header:NAME} or {pointer:/json/pointer}; literal braces are {{ and }}"
_SECONDS = re.compile(r"\d{1,11}(?:\.\d{1,9})?")


class Unmappable(SenderError):
    """No event can be made of a request: 422, with everything that is missing or wrong."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        title = "No event can be made of this request"
        super().__init__(title, status=422, code="unmappable", faults=faults)


class Missing(Exception):
    """``absences``: of each value that a request does not have, what is said of it and where it should be."""

    def __init__(self, *absences: tuple[str, str]) -> None:
        super().__init__(*absences)
        self.absences = absences

    def faults(self, attribute: str) -> list[Fault]:
        return [Fault("missing-value", f"{attribute}: {what}.", at) for what, at in self.absences]


NOTHING: Mapping[str, Missing] = MappingProxyType({})


class Template:
    """One compiled template. SetupError names ``setting`` where it is none."""

    def __init__(self, text: str, setting: str = "") -> None:
        self._parts: list[str | Find] = []
        end = 0
        for match in _TOKEN.finditer(text):
            self._parts.append(text[end : match.start()])
            self._parts.append(_part(match, setting))
            end = match.end()
        self._parts.append(text[end:])
        self._parts = [part for part in self._parts if part != ""]

    @property
    def is_constant(self) -> bool:
        return all(isinstance(part, str) for part in self._parts)

    def text(self, arrival: IntakeRequest) -> str:
        """Raises Missing."""
        if len(self._parts) == 1:
            (only,) = self._parts
            return only if isinstance(only, str) else only(arrival)
        found: list[str] = []
        absences: list[tuple[str, str]] = []
        for part in self._parts:
            try:
                found.append(part if isinstance(part, str) else part(arrival))
            except Missing as missing:
                absences += missing.absences
        if absences:
            raise Missing(*absences)
        return "".join(found)


def _part(match: re.Match[str], setting: str) -> str | Find:
    if match[0] in {"{{", "}}"}:
        return match[0][0]
    kind, colon, name = (match[1] or "").partition(":")
    if colon and kind == "header" and _HEADER.fullmatch(name):
        return _header(name.lower())
    if colon and kind == "pointer" and _POINTER.fullmatch(name):
        return _pointer(name)
    raise SetupError(f"{match[0]} names nothing of a request", setting=setting, cure=_CURE)


def _header(name: str) -> Find:
    return lambda arrival: header_text(arrival, name)


def header_text(arrival: IntakeRequest, name: str) -> str:
    """Raises Missing also for a header that is repeated, for nobody knows which one is meant."""
    values, at = arrival.values(name), f"header {name}"
    if len(values) != 1:
        raise Missing((f"{at} is {'repeated' if values else 'missing'}", at))
    try:
        return values[0].decode()
    except UnicodeDecodeError:
        raise Missing((f"{at} is not UTF-8", at)) from None


def _pointer(pointer: str) -> Find:
    lookup = compile_pointer(pointer)

    def find(arrival: IntakeRequest) -> str:
        found = lookup(arrival)
        if found is None:
            raise Missing((f"the body has no text, number or boolean at {pointer}", pointer))
        return found

    return find


def compile_mapping(templates: Mapping[str, Alternatives], setting: str = "event") -> Mapper:
    """SetupError for a template that is none, and for an id that would be the same for every request."""
    compiled = {
        name: [Template(each, f"{setting}.{name}") for each in alternatives]
        for name, alternatives in templates.items()
    }
    if any(each.is_constant for each in compiled["id"]):
        cure = "name what differs from event to event, such as {header:x-request-id}"
        raise SetupError("is the same for every event", setting=f"{setting}.id", cure=cure)

    def mapper(arrival: IntakeRequest, _now: float) -> Attributes:
        attributes: Attributes = {"specversion": "1.0"}
        absent: dict[str, Missing] = {}
        for name, alternatives in compiled.items():
            try:
                text = _first(alternatives, arrival, name)
            except Missing as missing:
                absent[name] = missing
            else:
                if text or len(alternatives) == 1:
                    attributes[name] = text
        return complete(attributes, arrival, absent)

    return mapper


def _first(alternatives: Sequence[Template], arrival: IntakeRequest, name: str) -> str:
    """The first text that can be made; of several times the first that is one. Raises what the first of the
    templates raises where there is none."""
    causes: list[Missing] = []
    for template in alternatives:
        try:
            text = template.text(arrival)
        except Missing as missing:
            causes.append(missing)
            continue
        if name == "time":
            text = as_time(text)
            if text and len(alternatives) > 1 and not is_time(text):
                continue
        return text
    raise causes[0]


def complete(
    attributes: Attributes, arrival: IntakeRequest, absent: Mapping[str, Missing] = NOTHING
) -> Attributes:
    """With the content type of the request. Raises Unmappable for what is absent, by attribute, and for what the
    rules of CloudEvents find."""
    if (content_type := arrival.content_type) is not None:
        attributes["datacontenttype"] = content_type
    if not absent and is_plainly_valid(attributes):
        return attributes
    faults = [fault for name, missing in absent.items() for fault in missing.faults(name)]
    faults += [
        fault
        for fault in faults_of(attributes, lambda name: name)
        if fault.code != "missing-attribute" or fault.at not in absent
    ]
    if faults:
        raise Unmappable(faults)
    return attributes


def as_time(text: str) -> str:
    """Seconds since the epoch as RFC 3339; any other text as it is."""
    if _SECONDS.fullmatch(text) is None:
        return text
    whole, _, fraction = text.partition(".")
    try:
        at = _second(whole)
    except (ValueError, OverflowError, OSError):
        return text
    return f"{at}.{fraction}Z" if fraction else f"{at}Z"


@lru_cache(maxsize=64)  # many events in one second
def _second(since_the_epoch: str) -> str:
    return dt.datetime.fromtimestamp(int(since_the_epoch), dt.UTC).replace(tzinfo=None).isoformat()


def is_time(text: str) -> bool:
    return is_timestamp(text) is not None
