"""What pydantic found, said for a person: where it was written, what is wrong, what to do.

A value is repeated only where it was written in the file itself, stands in no secret setting and
under no name that we do not know: a misspelt ``password`` must not appear in a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.config.load.document import Document
from app.config.load.finding import Finding, Path, did_you_mean, written
from app.config.model.config import MIN_BODY, MIN_HEADERS, Config
from app.config.model.kafka_listener import ADDRESS

_CLIP = 60
_SECRET = (
    "password",
    "token",
    "secret",
    "credential",
    "proxy",
    "dsn",
    "encryption",
    "users",
    "keys",
)
_HOLDS_SECRETS = (
    "auth",
    "headers",
    "signing",
    "sasl",
    "security",
    "verify",
)  # text in their place may be one
_OF_SECRETS = (
    "headers",
    "properties",
    "conf",
)  # mappings whose values are secrets, whatever their names
_MAPPINGS = frozenset({"model_type", "model_attributes_type", "dict_type"})
_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$": "a name has letters, digits, dot, dash and underscore",
    r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$": "letters, digits, dash and underscore, at most 63",
    r"^[a-z0-9]+$": "an attribute name has only a-z and 0-9",
    r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$": "a DNS name, as in bridge.example.com",
    r"^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)$": "a DNS name, as in shop.example.com, or *",
    r"^[^:\x00-\x1f\x7f]+$": "a user name has no colon and no control character",
    ADDRESS: "host:port, as in 127.0.0.1:19092; an IPv6 address in brackets",
    r"^[A-Za-z0-9][A-Za-z0-9_-]*$": "the name of a header: letters, digits, dash and underscore",
    r"^https?://[^/?#]": "begin with https:// or http://",
}
_FORMS = {
    "bootstrap_servers": "host:port, several joined by commas",
    "addresses": "host:port, several joined by commas",
    "service_url": "pulsar://host:6650 or pulsar+ssl://host:6651, several hosts joined by commas",
    "admin_url": "http://host:8080 or https://host:8443, without a path",
    "namespace": "tenant/namespace",
    "queue": 'write {partition} into it, as in "{topic}.{partition}"',
    "instance_id": "letters, digits, dot, dash and underscore, at most 249",
}


def translate(error: ValidationError, document: Document, hidden: set[Path]) -> Iterator[Finding]:
    """A finding for each error, but for settings that have one already. ``hidden``: paths whose
    value came from a reference or from the environment."""
    known = {finding.setting for finding in document.findings}
    for detail in error.errors(include_url=False):
        path, message, cure = said(detail, document.root, hidden)
        if written(path) not in known:
            yield Finding(
                level="error",
                setting=written(path),
                message=message,
                cure=cure,
                place=document.place(path),
            )


def said(detail: ErrorDetails, root: Any, hidden: set[Path]) -> tuple[Path, str, str]:
    """Where it is in ``root``, what is wrong, and the cure."""
    path = _path(detail, root)
    message, cure = _words(detail, path)
    shown = _shown(detail, path, root, hidden)
    return path, f"{message} (it is {shown})" if shown else message, cure


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


_WORKERS = (
    "is no more",
    "run serve --role gateway several times, with server.events.reuse_port: true",
)


def _words(detail: ErrorDetails, path: Path) -> tuple[str, str]:
    """What is wrong, and the cure."""
    context = detail.get("ctx", {})
    name = str(path[-1]) if path else ""
    match detail["type"]:
        case "extra_forbidden":
            if path == ("server", "workers"):
                return _WORKERS
            return _unknown(name, detail["loc"])
        case "missing":
            return "is missing", f"set {name}"
        case "union_tag_not_found" | "union_tag_invalid":
            return _kind(context)
        case "literal_error":
            known = context["expected"].replace("'", "")
            return "is not one of the choices", f"one of {known}"
        case "string_pattern_mismatch":
            return "has the wrong form", _PATTERNS.get(context["pattern"], _form(name))
        case "greater_than_equal" if context["ge"] in {MIN_BODY, MIN_HEADERS}:
            return f"is below {context['ge']}", "an event of 64 KiB must pass (core: size limits)"
        case _:
            return _plain(detail), ""


def _kind(context: dict[str, Any]) -> tuple[str, str]:
    cure = (
        f"known here: {context.get('expected_tags', 'embedded, kafka, rabbitmq, pulsar')}".replace(
            "'", ""
        )
    )
    if "tag" not in context:
        return "kind is missing", cure
    return "unknown kind", cure


def _plain(detail: ErrorDetails) -> str:
    """``Input should be a valid string`` as ``should be a valid string``."""
    if detail["type"] in {"too_short", "string_too_short"}:
        return "is empty"
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return message.replace("dictionary", "mapping").replace("tuple", "list")


def _form(name: str) -> str:
    return _FORMS.get(name, "a JSON Pointer begins with / and writes ~ as ~0, / as ~1")


def _unknown(name: str, location: tuple[str | int, ...]) -> tuple[str, str]:
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
        yield from (field.alias or name for name, field in getattr(kind, attribute).items())
    for inner in get_args(kind):
        yield from _models(inner, attribute)


def _shown(detail: ErrorDetails, path: Path, root: Any, hidden: set[Path]) -> str:
    """The value as it was written, where that gives nothing away; else empty."""
    value: Any = root
    for step in path:
        value = value.get(step) if isinstance(value, dict) else value[int(step)]
    private = any(word in str(step).lower() for step in path for word in _SECRET)
    private = private or any(step in _HOLDS_SECRETS for step in path[-1:])
    private = private or any(step in _OF_SECRETS for step in path)
    if private or path in hidden or not isinstance(value, str | int | float):
        return ""
    if detail["type"] in {"extra_forbidden", "missing"} or detail["loc"][-1] == "[key]":
        return ""
    if detail["type"] in _MAPPINGS:  # kafka: PASSWORD, where it should be kafka: {password: ...}
        return ""
    if isinstance(value, str) and set("@?") & set(value):
        return ""  # an address with a password or a token in it
    text = str(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= _CLIP else f"{text[:_CLIP]}..."
