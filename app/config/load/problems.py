"""Translate errors of pydantic into findings. A finding has the location, the problem and the cure.

A message repeats a value only if the value was written in the file itself and is not in a secret
setting. It repeats no value of an unknown setting, because the setting may be a misspelt
``password``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from app.config.load.document import Document
from app.config.load.finding import Finding, Path, did_you_mean, problem_and_cure, written
from app.config.model.brokers import Broker
from app.config.model.config import MIN_BODY, MIN_HEADERS, Config
from app.config.model.kafka_listener import ADDRESS
from app.config.model.store import Store
from app.model.alert import AlertChannel
from app.model.intake import Verify
from app.model.webhook import Auth

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
)  # text instead of these sections may be a secret
_OF_SECRETS = (
    "headers",
    "properties",
    "conf",
)  # mappings whose values are secrets under any name
_SECRET_URLS = (
    ("to", "url"),
    ("sink", "url"),
)  # a channel of an alert, and a sink with secret: true
_MAPPINGS = frozenset({"model_type", "model_attributes_type", "dict_type"})
_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$": "Use letters, digits, dots, dashes and underscores, and begin with a letter or digit.",
    r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$": "Use at most 63 letters, digits, dashes and underscores.",
    r"^[a-z0-9]+$": "Use only a-z and 0-9, as attribute names do.",
    r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$": "Write a DNS name, such as bridge.example.com.",
    r"^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)$": "Write a DNS name, such as shop.example.com, or *.",
    r"^[^:\x00-\x1f\x7f]+$": "Use no colon and no control character.",
    ADDRESS: "Write the value as host:port, such as 127.0.0.1:19092; put an IPv6 address in brackets.",
    r"^[A-Za-z0-9][A-Za-z0-9_-]*$": "Write the name of a header: letters, digits, dashes and underscores.",
    r"^https?://[^/?#]": "Begin the value with https:// or http://.",
}
_NUMBER = ("The value is not a number.", "Write a number, such as 0.5.")
_WHOLE = ("The value is not a whole number.", "Write a whole number, such as 8.")
_SWITCH = ("The value is neither true nor false.", "Write true or false.")
_TEXT = ("The value is not text.", "Write text, in quotes if it looks like a number or a switch.")
_LIST = (
    "The value is not a list.",
    "Write a list such as [a, b], or one line for each entry that begins with a dash.",
)
_MAPPING = (
    "The value is not a mapping.",
    "Write settings with their names, such as {name: value}.",
)
_EMPTY = ("The value is empty.", "Write at least one entry or character.")
_TYPES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), _NUMBER),
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _WHOLE),
    **dict.fromkeys(("bool_type", "bool_parsing"), _SWITCH),
    **dict.fromkeys(("string_type", "path_type"), _TEXT),
    **dict.fromkeys(("list_type", "tuple_type"), _LIST),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), _MAPPING),
    **dict.fromkeys(("too_short", "string_too_short"), _EMPTY),
}
"""Problem and cure by the type of a pydantic error."""
_FORMS = {
    "bootstrap_servers": "Write the value as host:port, several separated by commas.",
    "addresses": "Write the value as host:port, several separated by commas.",
    "service_url": "Write the value as pulsar://host:6650 or pulsar+ssl://host:6651, hosts separated by commas.",
    "admin_url": "Write the value as http://host:8080 or https://host:8443, without a path.",
    "namespace": "Write the value as tenant/namespace.",
    "queue": 'Write {partition} into the value, such as "{topic}.{partition}".',
    "instance_id": "Use at most 249 letters, digits, dots, dashes and underscores.",
}


def findings_of(error: ValidationError, document: Document, hidden: set[Path]) -> Iterator[Finding]:
    """Yield a finding for each error, except for settings that already have a finding. ``hidden``
    has the paths of values from a reference or an environment variable, which messages must not
    repeat.
    """
    known = {finding.setting for finding in document.findings}
    for detail in _causes(error):
        path, message, cure = describe_error(detail, document.root, hidden)
        if written(path) not in known:
            yield Finding(
                level="error",
                setting=written(path),
                message=message,
                cure=cure,
                place=document.place(path),
            )


def _causes(error: ValidationError) -> Iterator[ErrorDetails]:
    """Yield the errors that are not due to others. pydantic counts only valid entries of a list, so a list whose
    entries are all faulty is empty to it.
    """
    details = error.errors(include_url=False)
    for each in details:
        size = len(each["loc"])
        inner = (other["loc"] for other in details if len(other["loc"]) > size)
        if each["type"] != "too_short" or all(loc[:size] != each["loc"] for loc in inner):
            yield each


def describe_error(detail: ErrorDetails, root: Any, hidden: set[Path]) -> tuple[Path, str, str]:
    """Return the path in ``root``, the problem and the cure of an error."""
    path = _path(detail, root)
    message, cure = _problem(detail, path)
    shown = _shown(detail, path, root, hidden)
    return path, f"{message.removesuffix('.')}; it is {shown}." if shown else message, cure


def _path(detail: ErrorDetails, root: Any) -> Path:
    """Return the path of an error without the steps that pydantic adds, such as tags of unions."""
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
    if detail["type"].startswith("union_tag") and isinstance(here, dict):
        chosen = _choice(detail)
        return (*path, chosen) if chosen in here else path
    return path


_WORKERS = (
    "The setting was removed.",
    "Run serve --role gateway several times, with server.events.reuse_port: true.",
)


def _problem(detail: ErrorDetails, path: Path) -> tuple[str, str]:
    """Return the problem and the cure."""
    context = detail.get("ctx", {})
    name = str(path[-1]) if path else ""
    match detail["type"]:
        case "extra_forbidden":
            return _unknown(name, detail["loc"])
        case "missing":
            return "The setting is missing.", f"Set {name}."
        case "union_tag_not_found" | "union_tag_invalid":
            return _chosen(detail, path)
        case "literal_error":
            known = context["expected"].replace("'", "")
            cure = f"Use one of {known}." if " or " in known else f"Write {known}."
            return "The value is not one of the choices.", cure
        case "string_pattern_mismatch":
            return "The value has the wrong form.", _PATTERNS.get(context["pattern"], _form(name))
        case (
            "greater_than_equal"
            | "greater_than"
            | "less_than_equal"
            | "string_too_long"
            | "too_long"
        ):
            return _bound(context)
        case kind if kind in _TYPES:
            return _TYPES[kind]
        case _:
            return problem_and_cure(detail["msg"])


def _bound(context: Mapping[str, Any]) -> tuple[str, str]:
    """Return the problem and the cure for a value that is too small, too large or too long."""
    match context:
        case {"max_length": most}:
            what = "entries" if "field_type" in context else "characters"
            return f"The value has more than {most} {what}.", f"Write at most {most} {what}."
        case {"ge": bound} if bound in {MIN_BODY, MIN_HEADERS}:
            why = "and an event of 64 KiB must pass (core: size limits)"
            return f"The limit is below {bound} bytes, {why}.", f"Set at least {bound}."
        case {"ge": bound}:
            return f"The value is below {bound}.", f"Set at least {bound}."
        case {"gt": bound}:
            return f"The value is not above {bound}.", f"Set more than {bound}."
    return f"The value is above {context['le']}.", f"Set at most {context['le']}."


_CHOSEN: Mapping[str, Any] = {
    "brokers": Broker,
    "store": Store,
    "verify": Verify,
    "auth": Auth,
    "to": AlertChannel,
}
"""The sections of which one setting chooses the model, by the name of the section."""


def _choice(detail: ErrorDetails) -> str:
    """Return the setting that chooses the model of a section: ``kind`` or ``preset``."""
    name = detail.get("ctx", {})["discriminator"].strip("'")
    return name if name.isidentifier() else "kind"


def _chosen(detail: ErrorDetails, path: Path) -> tuple[str, str]:
    """Return the problem and the cure of a section whose model is not chosen. pydantic lists no choices if the setting is
    missing."""
    context, name = detail.get("ctx", {}), _choice(detail)
    known = context.get("expected_tags") or ", ".join(_choices(name, path))
    what = "unknown" if "tag" in context else "missing"
    return f"The {name} is {what}.", "Use one of: {}.".format(known.replace("'", ""))


def _choices(name: str, path: Path) -> Iterator[str]:
    section = next((step for step in reversed(path) if step in _CHOSEN), "")
    models = get_args(get_args(_CHOSEN[str(section)])[0]) if section else ()
    return (get_args(each.model_fields[name].annotation)[0] for each in models)


def _form(name: str) -> str:
    return _FORMS.get(name, "Begin the JSON Pointer with /, and write ~ as ~0 and / as ~1.")


def _unknown(name: str, location: tuple[str | int, ...]) -> tuple[str, str]:
    if location == ("server", "workers"):
        return _WORKERS
    return "The setting is unknown.", did_you_mean(name, _siblings(location))


def _siblings(location: tuple[str | int, ...]) -> list[str]:
    """Return the names of the settings that exist where an unknown setting was written."""
    types: list[Any] = [Config]
    for step in location[:-1]:
        members = [each for kind in types for each in _members(kind)]
        types = [each for each in members if _has_tag(each, step)] or [
            inner for each in members for inner in _inside(each, step)
        ]
    return [name for kind in types for name in _models(kind, "model_fields")]


def _members(kind: Any) -> Iterator[Any]:
    """Yield the members of a union, or the type itself. A member keeps its ``Tag``."""
    if get_origin(kind) in {Union, UnionType}:
        for each in get_args(kind):
            yield from _members(each)
    elif get_origin(kind) is Annotated and not _tags(kind):
        yield from _members(get_args(kind)[0])
    else:
        yield kind


def _tags(kind: Any) -> list[str]:
    return [str(each.tag) for each in getattr(kind, "__metadata__", ()) if isinstance(each, Tag)]


def _has_tag(kind: Any, step: str | int) -> bool:
    """Return True if the member of a union has this tag: by ``Tag``, or by the setting that chooses it."""
    fields = kind.model_fields if _is_model(kind) else {}
    chosen = [fields[each].annotation for each in ("kind", "preset") if each in fields]
    return step in _tags(kind) or any(step in get_args(each) for each in chosen)


def _inside(kind: Any, step: str | int) -> list[Any]:
    """Return the types of a setting of a model, or of the members of a container. A step that is neither adds nothing."""
    if get_origin(kind) is Annotated:
        return _inside(get_args(kind)[0], step)
    if not _is_model(kind):
        return list(get_args(kind))
    field = kind.model_fields.get(str(step))
    return [kind] if field is None else [field.annotation]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _models(kind: Any, attribute: str) -> Iterator[str]:
    if _is_model(kind):
        yield from (field.alias or name for name, field in getattr(kind, attribute).items())
    for inner in get_args(kind):
        yield from _models(inner, attribute)


def _shown(detail: ErrorDetails, path: Path, root: Any, hidden: set[Path]) -> str:
    """Return the value as it was written, or empty text if it may be secret."""
    value: Any = root
    for step in path:
        value = value.get(step) if isinstance(value, dict) else value[int(step)]
    private = any(word in str(step).lower() for step in path for word in _SECRET)
    private = private or any(step in _HOLDS_SECRETS for step in path[-1:])
    private = private or any(step in _OF_SECRETS for step in path)
    private = private or path[-2:] in _SECRET_URLS
    if private or path in hidden or not isinstance(value, str | int | float):
        return ""
    if detail["type"] in {"extra_forbidden", "missing"} or detail["loc"][-1] == "[key]":
        return ""
    if detail["type"] in _MAPPINGS:  # may be kafka: PASSWORD instead of kafka: {password: ...}
        return ""
    if isinstance(value, str) and set("@?") & set(value):
        return ""  # may be a URL with a password or a token
    text = str(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= _CLIP else f"{text[:_CLIP]}..."
