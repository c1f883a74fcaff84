"""Validate the data of events against a JSON Schema (2020-12). Each fault has a JSON Pointer.

A schema may refer only to its own file, and its patterns run in linear time. So neither a schema nor an event
can make the gateway fetch anything or hang.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from app.errors import Fault, SenderError, SetupError
from app.event import json_text
from app.event.json_pointer import is_json
from app.event.validate import clip, shorten
from app.event.value import CloudEvent
from app.model.route import DataSchema

if TYPE_CHECKING:
    import jsonschema_rs

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MOST = 50  # the most faults of one event that are listed
LISTED = 4 << 10
"""The most bytes of data for which all faults are listed. The library creates all faults at once, which would take
too much memory for larger data."""

_MORE = f"There may be more faults: for data above {LISTED} bytes only the first is listed."

Check = Callable[[CloudEvent], Sequence[Fault]]
"""A function that returns the faults of an event's data, or none if it matches the schema."""


class InvalidData(SenderError):
    """The error for an event whose data does not match the schema of its route (422)."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(
            "The data does not match the schema", status=422, code="invalid-data", faults=faults
        )


def compile_check(setting: DataSchema, texts: Mapping[str, bytes], at: str) -> Check:
    """Return the check of a route's setting ``schema``.

    Args:
        setting: The setting.
        texts: The contents of the schema files, by the path in the setting.
        at: The name of the setting, for errors.

    Raises:
        SetupError: A schema cannot be used. The error names the setting.
    """
    if setting.file is not None:
        return _of_schema(texts[str(setting.file)], f"{at}.file")
    checks = {
        uri: _of_schema(texts[str(file)], f"{at}.dataschema.{uri}")
        for uri, file in (setting.dataschema or {}).items()
    }
    return _of_table(checks)


def _of_table(checks: Mapping[str, Check]) -> Check:
    def check(event: CloudEvent) -> Sequence[Fault]:
        uri = event.attributes.get("dataschema")
        if uri is None:
            detail = "The event has no dataschema, and its route needs one."
            return (Fault("missing-dataschema", detail, "/dataschema"),)
        chosen = checks.get(uri)
        if chosen is None:
            detail = f"The route has no schema for dataschema {clip(uri)}."
            return (Fault("unknown-dataschema", detail, "/dataschema"),)
        return chosen(event)

    return check


def _of_schema(text: bytes, at: str) -> Check:
    validator = _validator(text, at)
    is_valid = validator.is_valid
    branches = b"anyOf" in text or b"oneOf" in text

    def check(event: CloudEvent) -> Sequence[Fault]:
        if event.data is None:
            return (Fault("missing-data", "The event has no data.", "/data"),)
        if not is_json(event):
            declared = shorten(event.datacontenttype or "of no type")
            return (Fault("data-not-json", f"The data is {declared}, not JSON.", "/data"),)
        try:
            value = _value(event.data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            why = json_text.reason(event.data, error)
            return (Fault("data-not-json", f"The data is not JSON: {why}.", "/data"),)
        try:
            if is_valid(value):
                return ()
            if len(event.data) > LISTED:
                return _first(validator, value, branches=branches)
            return _listed(validator.iter_errors(value))
        except ValueError as error:  # the library's "Recursion limit reached"
            return (Fault("invalid-data", f"The data cannot be checked: {error}.", "/data"),)

    return check


def _value(data: bytes) -> Any:
    """Return data as the library takes it: exact numbers beyond a double, and private-use characters for
    unpaired surrogates.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json_text.loaded(json_text.with_stand_ins(json_text.single_value(data)))


def _first(
    validator: jsonschema_rs.Draft202012Validator, value: Any, *, branches: bool
) -> Sequence[Fault]:
    """Return the first fault of large data, or one fault without a place if the schema has ``anyOf`` or
    ``oneOf``.

    A fault of ``anyOf`` or ``oneOf`` would contain every fault of each of its branches.
    """
    import jsonschema_rs  # noqa: PLC0415

    if not branches:
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return (_fault(error), Fault("invalid-data", _MORE, "/data"))
    detail = f"The data does not match the schema; for more than {LISTED} bytes no place is given."
    return (Fault("invalid-data", detail, "/data"),)


def _fault(error: Any) -> Fault:
    message = shorten(json_text.without_stand_ins(error.message))
    return Fault("invalid-data", f"{message}.", _pointer(error.instance_path))


def _listed(errors: Any) -> Sequence[Fault]:
    found = [_fault(error) for error in islice(errors, MOST + 1)]
    if len(found) > MOST:
        found[MOST] = Fault("invalid-data", f"There are more than {MOST} faults.", "/data")
    return found


def _pointer(path: Sequence[str | int]) -> str:
    """Return the JSON Pointer (RFC 6901) to a place in the event."""
    steps = [json_text.without_stand_ins(str(step)) for step in ("data", *path)]
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


def _validator(text: bytes, at: str) -> jsonschema_rs.Draft202012Validator:
    import jsonschema_rs  # noqa: PLC0415 - 3 MB of memory, only for routes with a schema

    try:
        document = text.decode(
            json.detect_encoding(text)
        ).encode()  # a file may have a byte order mark, or be UTF-16
        schema = json_text.loaded(json_text.with_stand_ins(document))
    except ValueError as error:
        raise SetupError(f"is not JSON: {error}", setting=at, cure="repair the file") from error
    draft = schema.get("$schema", DRAFT) if isinstance(schema, dict) else DRAFT
    if not isinstance(draft, str) or draft.removesuffix("#") != DRAFT:
        cure = f"write the schema for {DRAFT}"
        raise SetupError(f"is for {shorten(str(draft))}", setting=at, cure=cure)
    try:
        return jsonschema_rs.Draft202012Validator(
            schema, retriever=_refuse, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        message = str(error).partition("\n")[0]
        cure = "write JSON Schema 2020-12 that refers to its own file alone, with patterns without look-around and back references"
        raise SetupError(f"is no schema: {message}", setting=at, cure=cure) from error


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"a schema may refer to its own file alone, not to {uri}")
