"""Check the setting ``request`` of subscriptions: its templates compile, and their pointers can have values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from app.config.derived.route_resources import load_check
from app.config.lint.reach import writing_routes
from app.config.lint.report import LintReport
from app.config.load.finding import Path
from app.errors import SetupError
from app.event.json_pointer import steps_of
from app.model.places import value_at
from app.model.route import DataSchema
from app.model.secret import HIDDEN
from app.model.subscription import Subscription
from app.outlets.compiled import Outlet, compile_outlet
from app.tls import read_regular

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_Schemas = dict[FilePath, Any]
"""The schemas that were read, by file; None for a file that cannot be used."""


def check_outlets(report: LintReport) -> None:
    """Report requests that cannot be compiled, and pointers that have no value in any event of the
    subscription's topics.
    """
    files: _Schemas = {}
    for n, subscription in enumerate(report.config.subscriptions):
        if subscription.request is None:
            continue
        at: Path = ("subscriptions", n)
        try:
            outlet = compile_outlet(
                subscription.request, subscription.webhook_url, lambda _secret: HIDDEN, 0
            )
        except SetupError as error:
            report.refused((*at, *_path(error.setting)), error)
        except ValueError:
            continue  # the check of the URL reports it
        else:
            _pointers(report, at, subscription, outlet, files)


def _path(setting: str) -> Path:
    return tuple(int(match[1]) if match[1] else match[2] for match in _STEP.finditer(setting))


def _pointers(
    report: LintReport, at: Path, subscription: Subscription, outlet: Outlet, files: _Schemas
) -> None:
    pointers = outlet.pointers if report.may_read_files else []
    schemas = _schemas(report, subscription, files) if pointers else []
    for pointer, setting in pointers if schemas else ():
        if all(_excludes(schema, steps_of(pointer)) for schema in schemas):
            report.warning(
                (*at, *_path(setting)),
                f"The pointer {pointer} has no value in any event, because the schema of the route excludes it.",
                "Correct the pointer, or add a default value, such as {pointer:/order/id ?? unknown}.",
            )


def _schemas(report: LintReport, subscription: Subscription, files: _Schemas) -> list[Any]:
    """Return the schema of every route to the topics of the subscription. If one of these routes
    may publish other data, return none.
    """
    routes = {
        route.name: route.data_schema
        for topic in subscription.source.topics
        for route in writing_routes(report.config.routes, subscription, topic)
    }
    found = []
    for setting in routes.values():
        if setting is None or setting.file is None or setting.on_invalid == "count":
            return []
        if setting.file not in files:
            files[setting.file] = _read(setting)
        if files[setting.file] is None:
            return []
        found.append(files[setting.file])
    return found


def _read(setting: DataSchema) -> Any:
    """Return the schema, or None if it cannot be used. The check of routes reports that."""
    try:
        load_check(setting, "schema")
        return json.loads(read_regular(setting.files[0]))
    except (SetupError, OSError, ValueError, RecursionError):
        return None


def _excludes(whole: Any, steps: tuple[str, ...]) -> bool:
    """Return True if no data that matches the schema has a value at these steps."""
    ahead, seen = [(whole, steps)], set()
    while ahead:
        schema, left = ahead.pop()
        if schema is False:
            return True
        place = (id(schema), len(left))
        if not isinstance(schema, dict) or place in seen:
            continue
        seen.add(place)
        if left and _has_no_member(schema, left[0]):
            return True
        ahead += _inner(schema, whole, left)
    return False


def _has_no_member(schema: dict[str, Any], step: str) -> bool:
    kind = schema.get("type")
    if isinstance(kind, str) and kind not in {"object", "array"}:
        return True
    closed = schema.get("additionalProperties", True) is False
    is_open = step in schema.get("properties", {}) or "patternProperties" in schema
    return closed and kind == "object" and not is_open


def _inner(
    schema: dict[str, Any], whole: Any, left: tuple[str, ...]
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the schemas that the data, or its member at the first step, must match too."""
    for part in schema.get("allOf", ()):
        yield part, left
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
        yield value_at(whole, steps_of(reference[1:])), left
    if left and left[0] in (properties := schema.get("properties", {})):
        yield properties[left[0]], left[1:]
