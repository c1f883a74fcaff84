"""What pydantic found, said for a person: where it was written, what is wrong, what to do.

A value is repeated only where it was written in the file itself, stands in no secret setting and
under no name that we do not know: whoever misspells ``password`` must not read it in a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.config.document import Document
from app.config.finding import Finding, Path, did_you_mean, written
from app.config.model import MIN_BODY, MIN_HEADERS, Config

_CLIP = 60
_SECRET = ("password", "token", "secret", "credential")
_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$": "a name has letters, digits, dot, dash and underscore",
    r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$": "letters, digits, dash and underscore, at most 63",
    r"^[a-z0-9]+$": "an attribute name has only a-z and 0-9",
    r"^https?://[^/?#]": "begin with https:// or http://",
}
_LATER = {
    "rabbitmq": "a RabbitMQ broker",
    "pulsar": "a Pulsar broker",
    "postgresql": "a PostgreSQL store",
    "signing": "signing",
    "kafka_listener": "the Kafka listener of the embedded log",
}


def explain(error: ValidationError, document: Document, hidden: set[Path]) -> Iterator[Finding]:
    """A finding for each error, but for settings that have one already. ``hidden``: paths whose
    value came from a reference or from the environment."""
    known = {finding.setting for finding in document.findings}
    for detail in error.errors(include_url=False):
        path = _path(detail, document.root)
        if written(path) in known:
            continue
        message, cure = _words(detail, path)
        shown = _shown(detail, path, document.root, hidden)
        yield Finding(
            level="error",
            setting=written(path),
            message=f"{message} (it is {shown})" if shown else message,
            cure=cure,
            place=document.place(path),
        )


def _path(detail: ErrorDetails, root: Any) -> Path:
    """Where it is: the location without the steps that are pydantic's own (tags of unions, a list of one)."""
    path: Path = ()
    here: Any = root
    steps = detail["loc"]
    for n, step in enumerate(steps):
        inside = isinstance(here, dict) and step in here
        if inside or (isinstance(here, list) and isinstance(step, int) and step < len(here)):
            path = (*path, step)
            here = here[step]
        elif n == len(steps) - 1 and detail["type"] == "missing":
            path = (*path, step)
    if detail["type"].startswith("union_tag") and isinstance(here, dict) and "kind" in here:
        path = (*path, "kind")
    return path


def _words(detail: ErrorDetails, path: Path) -> tuple[str, str]:
    """What is wrong, and the cure."""
    context = detail.get("ctx", {})
    name = str(path[-1]) if path else ""
    match detail["type"]:
        case "extra_forbidden":
            return _unknown(name, detail["loc"])
        case "missing":
            return "is missing", f"set {name}"
        case "union_tag_not_found" | "union_tag_invalid":
            return _kind(context)
        case "literal_error":
            return _choice(name, detail["input"], context["expected"].replace("'", ""))
        case "string_pattern_mismatch":
            return "has the wrong form", _PATTERNS.get(context["pattern"], _form(name))
        case "greater_than_equal" if context["ge"] in {MIN_BODY, MIN_HEADERS}:
            return f"is below {context['ge']}", "an event of 64 KiB must pass (core: size limits)"
        case _:
            return _plain(detail), ""


def _choice(name: str, value: object, known: str) -> tuple[str, str]:
    if name == "kind" and str(value) in _LATER:
        return f"{_LATER[str(value)]} is not part of this version", f"known here: {known}"
    return "is not one of the choices", f"one of {known}"


def _kind(context: dict[str, Any]) -> tuple[str, str]:
    cure = f"known here: {context.get('expected_tags', 'embedded, kafka')}".replace("'", "")
    if "tag" not in context:
        return "kind is missing", cure
    later = _LATER.get(str(context["tag"]))
    return (f"{later} is not part of this version" if later else "unknown kind"), cure


def _plain(detail: ErrorDetails) -> str:
    """``Input should be a valid string`` as ``should be a valid string``."""
    if detail["type"] in {"too_short", "string_too_short"}:
        return "is empty"
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return message.replace("dictionary", "mapping").replace("tuple", "list")


def _form(name: str) -> str:
    forms = {"bootstrap_servers": "host:port, several joined by commas"}
    return forms.get(name, "a JSON Pointer begins with / and writes ~ as ~0, / as ~1")


def _unknown(name: str, location: tuple[str | int, ...]) -> tuple[str, str]:
    if name in _LATER:
        return f"{_LATER[name]} is not part of this version", "leave it out"
    return "unknown setting", did_you_mean(name, _siblings(location))


def _siblings(location: tuple[str | int, ...]) -> list[str]:
    """The settings that are known where an unknown one stands: the model, walked along a location."""
    types: list[Any] = [Config]
    for step in location[:-1]:
        types = [inner for kind in types for inner in _inside(kind, step)]
    return [name for kind in types for name in _models(kind, "model_fields")]


def _inside(kind: Any, step: str | int) -> list[Any]:
    """What ``step`` leads to from a type. A tag of a union picks the member that has it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(step))
        if field is not None:
            return [field.annotation]
        tag = kind.model_fields.get("kind")
        fits = tag is None or step in get_args(tag.annotation)
        return [kind] if fits else []
    return [found for inner in get_args(kind) for found in _step(inner, step)]


def _step(inner: Any, step: str | int) -> list[Any]:
    """Through containers and unions: the step itself is an index, a key or a tag of theirs."""
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return _inside(inner, step) or [inner]
    return _inside(inner, step)


def _models(kind: Any, attribute: str) -> Iterator[str]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from getattr(kind, attribute)
    for inner in get_args(kind):
        yield from _models(inner, attribute)


def _shown(detail: ErrorDetails, path: Path, root: Any, hidden: set[Path]) -> str:
    """The value as it was written, where that gives nothing away; else empty."""
    value: Any = root
    for step in path:
        value = value.get(step) if isinstance(value, dict) else value[int(step)]
    private = any(word in str(step).lower() for step in path for word in _SECRET)
    if private or path in hidden or not isinstance(value, str | int | float):
        return ""
    if detail["type"] in {"extra_forbidden", "missing"} or detail["loc"][-1] == "[key]":
        return ""
    text = str(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= _CLIP else f"{text[:_CLIP]}..."
