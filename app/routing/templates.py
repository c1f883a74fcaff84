"""Templates with attributes in braces, such as ``orders.{type}``. ``{{`` and ``}}`` are literal braces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter

from app.errors import Fault, SenderError, SetupError
from app.event.templates import Parts, Placeholder, parse
from app.event.types import is_name
from app.model.spool import TOPICS as SPOOLS

Template = Callable[[Mapping[str, str]], str]
"""A function from attributes to text. It raises KeyError with the name of an attribute that the event lacks."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")
_CURE = "{attribute} has only a-z and 0-9; write literal braces as {{ and }}"
_LONGEST = 249
_CLIP = 80


class BadTopic(SenderError):
    """The error for an event whose attributes make no valid topic name (400)."""

    def __init__(self, detail: str, attribute: str) -> None:
        fault = Fault("bad-topic", detail, at=attribute)
        super().__init__("No topic can be made for this event", code="bad-topic", faults=[fault])


def placeholders(text: str) -> tuple[str, ...]:
    """Return the attributes that a template reads, in order, with repetitions. A text without placeholders reads
    none.
    """
    return tuple([each.name for each in _placeholders(_parsed(text))])


def demanded(text: str) -> tuple[str, ...]:
    """Return the attributes that every event of a template needs. A placeholder with a default needs none."""
    return tuple([each.name for each in _placeholders(_parsed(text)) if each.default is None])


def _parsed(text: str) -> Parts:
    """Return the parts of a text, or none if it is not a template."""
    try:
        return parse(text)
    except SetupError:
        return ()


def _placeholders(parts: Parts) -> Iterator[Placeholder]:
    return (part for part in parts if not isinstance(part, str))


def compile_template(text: str, *, setting: str = "") -> Template:
    """Return the compiled template. Raises SetupError for braces without an attribute name."""
    parts = parse(text, setting, _CURE)
    for each in _placeholders(parts):
        if each.kind or not is_name(each.name):
            raise SetupError(f"unknown placeholder {each.text}", setting=setting, cure=_CURE)
    form = "".join([part.replace("%", "%%") if isinstance(part, str) else "%s" for part in parts])
    names = tuple([each.name for each in _placeholders(parts)])
    if not names:
        constant = form % ()
        return lambda _attributes: constant
    values = itemgetter(*names)  # with one name a text, with several a tuple
    defaults = {
        each.name: each.default for each in _placeholders(parts) if each.default is not None
    }
    if defaults:
        return lambda attributes: form % values({**defaults, **attributes})
    return lambda attributes: form % values(attributes)


def filled(template: Template, attributes: Mapping[str, str]) -> str:
    """Return the text of a template. Raises BadTopic for an attribute that the event lacks."""
    try:
        return template(attributes)
    except KeyError as missing:
        attribute = str(missing.args[0])
        raise BadTopic(f"Attribute {attribute} is missing.", attribute) from None


def compile_topic(text: str, *, setting: str = "") -> Template:
    """Return a template whose result must be a topic name of Kafka's grammar.

    Raises:
        SetupError: The text can never be a topic name. At run time the template raises BadTopic.
    """
    template = compile_template(text, setting=setting)
    parts = parse(text)
    names = tuple([each.name for each in _placeholders(parts)])
    if not names:
        return _constant_topic(template({}), setting)
    if any(isinstance(part, str) and _ILLEGAL.search(part) for part in parts):
        raise SetupError(
            "holds characters that a topic name must not have",
            setting=setting,
            cure="use a-z A-Z 0-9 . _ -",
        )

    def topic(attributes: Mapping[str, str]) -> str:
        name = filled(template, attributes)
        if is_topic(name):
            return name
        raise _bad_topic(name, attributes, names)

    return topic


def is_topic(name: str) -> bool:
    """Return True for a topic name of Kafka's grammar that is not reserved for spools."""
    return len(name) <= _LONGEST and _fits(name) and not name.startswith(SPOOLS)


def not_a_spool(name: str) -> str:
    """Return a clause for a message about a topic name that is reserved for spools. Return "" for any other name."""
    return f"; {SPOOLS}* is for spools" if name.startswith(SPOOLS) else ""


@lru_cache(maxsize=4096)  # a template makes few names, and repeats them
def _fits(name: str) -> bool:
    return _TOPIC.fullmatch(name) is not None and name not in {".", ".."}


def _constant_topic(name: str, setting: str) -> Template:
    if not is_topic(name):
        raise SetupError(
            "is not a topic name",
            setting=setting,
            cure=f"1 to 249 of a-z A-Z 0-9 . _ -, not . or ..{not_a_spool(name)}",
        )
    return lambda _attributes: name


def _bad_topic(name: str, attributes: Mapping[str, str], names: tuple[str, ...]) -> BadTopic:
    guilty = next((each for each in names if _ILLEGAL.search(attributes.get(each, ""))), names[0])
    clipped = name if len(name) <= _CLIP else f"{name[:_CLIP]}..."
    return BadTopic(
        f"Attribute {guilty} makes the topic name {clipped!r}: a topic name has 1 to 249 of "
        "a-z A-Z 0-9 . _ - and is not . or ..",
        guilty,
    )
