"""Map a request to the attributes of an event by templates, such as
``com.example.{pointer:/kind}``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from app.errors import Fault, SenderError, SetupError
from app.event.templates import POINTER, Placeholder, parse
from app.event.types import is_timestamp
from app.event.validate import faults_of, is_plainly_valid
from app.intakes.arrival import IntakeRequest, compile_pointer

Attributes = dict[str, str]
Mapper = Callable[[IntakeRequest, float], Attributes]
"""A function that returns the attributes for a request and the time now, in seconds since the
epoch. It raises Unmappable.
"""

Alternatives = Sequence[str]
"""The templates of one attribute. The first one that can be filled counts. An empty template leaves
the attribute out.
"""

TextFinder = Callable[[IntakeRequest], str]
"""A function that returns a text of a request. It raises MissingValue."""

_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_CURE = "write {header:NAME} or {pointer:/json/pointer}; literal braces are {{ and }}"
_SECONDS = re.compile(r"\d{1,11}(?:\.\d{1,9})?")


class Unmappable(SenderError):
    """The error for a request that cannot become an event: 422. It lists everything that is missing
    or invalid.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        title = "No event can be made of this request"
        super().__init__(title, status=422, code="unmappable", faults=faults)


class MissingValue(Exception):
    """The error for values that a request does not have.

    ``absences`` has two texts for each value: what is missing, and the place where it should be.
    """

    def __init__(self, *absences: tuple[str, str]) -> None:
        super().__init__(*absences)
        self.absences = absences

    def faults(self, attribute: str) -> list[Fault]:
        """Return the faults for the attribute that needs these values."""
        return [Fault("missing-value", f"{attribute}: {what}.", at) for what, at in self.absences]


NONE_MISSING: Mapping[str, MissingValue] = MappingProxyType({})


class Template:
    """A compiled template. Raise SetupError, which names ``setting``, if the text is no valid
    template.
    """

    def __init__(self, text: str, setting: str = "") -> None:
        self._parts: list[str | TextFinder] = [
            part if isinstance(part, str) else _finder(part, setting)
            for part in parse(text, setting, _CURE)
        ]

    @property
    def is_constant(self) -> bool:
        """Return True if the template contains no placeholder."""
        return all(isinstance(part, str) for part in self._parts)

    def text(self, arrival: IntakeRequest) -> str:
        """Return the template filled with values of the request. Raise MissingValue with all
        missing values.
        """
        if len(self._parts) == 1:
            (only,) = self._parts
            return only if isinstance(only, str) else only(arrival)
        found: list[str] = []
        absences: list[tuple[str, str]] = []
        for part in self._parts:
            try:
                found.append(part if isinstance(part, str) else part(arrival))
            except MissingValue as missing:
                absences += missing.absences
        if absences:
            raise MissingValue(*absences)
        return "".join(found)


def _finder(placeholder: Placeholder, setting: str) -> TextFinder:
    find = _found(placeholder, setting)
    default = placeholder.default
    if default is None:
        return find

    def find_or_default(arrival: IntakeRequest) -> str:
        try:
            return find(arrival)
        except MissingValue:
            return default

    return find_or_default


def _found(placeholder: Placeholder, setting: str) -> TextFinder:
    match placeholder.kind, placeholder.name:
        case "header", name if _HEADER.fullmatch(name):
            return _header(name.lower())
        case "pointer", pointer if POINTER.fullmatch(pointer):
            return _pointer(pointer)
    raise SetupError(f"{placeholder.text} is no placeholder", setting=setting, cure=_CURE)


def _header(name: str) -> TextFinder:
    return lambda arrival: header_text(arrival, name)


def header_text(arrival: IntakeRequest, name: str) -> str:
    """Return the value of a header. Raise MissingValue if it is missing, repeated or not UTF-8."""
    values, at = arrival.values(name), f"header {name}"
    if len(values) != 1:
        raise MissingValue((f"{at} is {'repeated' if values else 'missing'}", at))
    try:
        return values[0].decode()
    except UnicodeDecodeError:
        raise MissingValue((f"{at} is not UTF-8", at)) from None


def _pointer(pointer: str) -> TextFinder:
    lookup = compile_pointer(pointer)

    def find(arrival: IntakeRequest) -> str:
        found = lookup(arrival)
        if found is None:
            raise MissingValue((f"the body has no text, number or boolean at {pointer}", pointer))
        return found

    return find


def compile_mapping(templates: Mapping[str, Alternatives], setting: str = "event") -> Mapper:
    """Return a mapper that fills the templates of all attributes.

    Raise SetupError for an invalid template. Raise SetupError, too, if all requests would get the
    same id.
    """
    compiled = {
        name: [Template(each, f"{setting}.{name}") for each in alternatives]
        for name, alternatives in templates.items()
    }
    if any(each.is_constant for each in compiled["id"]):
        cure = "name what differs from event to event, such as {header:x-request-id}"
        raise SetupError("is the same for every event", setting=f"{setting}.id", cure=cure)

    def mapper(arrival: IntakeRequest, _now: float) -> Attributes:
        attributes: Attributes = {"specversion": "1.0"}
        absent: dict[str, MissingValue] = {}
        for name, alternatives in compiled.items():
            try:
                text = _first(alternatives, arrival, name)
            except MissingValue as missing:
                absent[name] = missing
            else:
                if text or len(alternatives) == 1:
                    attributes[name] = text
        return complete(attributes, arrival, absent)

    return mapper


def _first(alternatives: Sequence[Template], arrival: IntakeRequest, name: str) -> str:
    """Return the text of the first template that can be filled. Of several templates for a time,
    return the first text that is a valid time.

    Raise the MissingValue of the first template if none can be filled.
    """
    causes: list[MissingValue] = []
    for template in alternatives:
        try:
            text = template.text(arrival)
        except MissingValue as missing:
            causes.append(missing)
            continue
        if name == "time":
            text = as_time(text)
            if text and len(alternatives) > 1 and not is_time(text):
                continue
        return text
    raise causes[0]


def complete(
    attributes: Attributes,
    arrival: IntakeRequest,
    absent: Mapping[str, MissingValue] = NONE_MISSING,
) -> Attributes:
    """Add the content type of the request to the attributes, and return them if they are valid.

    Raise Unmappable for the values in ``absent``, by attribute, and for attributes that CloudEvents
    does not allow.
    """
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
    """Return seconds since the epoch as RFC 3339 text; return any other text unchanged."""
    if _SECONDS.fullmatch(text) is None:
        return text
    whole, _, fraction = text.partition(".")
    try:
        at = _second(whole)
    except (ValueError, OverflowError, OSError):
        return text
    return f"{at}.{fraction}Z" if fraction else f"{at}Z"


@lru_cache(maxsize=64)  # many events have the same second
def _second(since_the_epoch: str) -> str:
    return dt.datetime.fromtimestamp(int(since_the_epoch), dt.UTC).replace(tzinfo=None).isoformat()


def is_time(text: str) -> bool:
    """Return True if the text is an RFC 3339 time."""
    return is_timestamp(text) is not None
