"""Check the setting ``request`` of subscriptions: its templates compile, and their pointers can have values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

from app.config.lint.report import LintReport
from app.config.load.finding import Path
from app.errors import SetupError
from app.event.json_pointer import steps_of
from app.model.places import value_at
from app.model.route import Target
from app.model.secret import HIDDEN
from app.model.subscription import Subscription
from app.outlets.compiled import Outlet, compile_outlet
from app.tls import read_regular

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_DEEPEST = 64  # references that a pointer follows


def check_outlets(report: LintReport) -> None:
    """Report requests that cannot be compiled, and pointers that have no value in any event of the
    subscription's topics.
    """
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
            _pointers(report, at, subscription, outlet)


def _path(setting: str) -> Path:
    return tuple(int(match[1]) if match[1] else match[2] for match in _STEP.finditer(setting))


def _pointers(report: LintReport, at: Path, subscription: Subscription, outlet: Outlet) -> None:
    schemas = [*_schemas(report, subscription)] if report.may_read_files else []
    for pointer, setting in outlet.pointers if schemas else ():
        if all(_excludes(schema, schema, steps_of(pointer)) for schema in schemas):
            report.warning(
                (*at, *_path(setting)),
                f"The pointer {pointer} has no value in any event, because the schema of the route excludes it.",
                "Correct the pointer, or add a default value, such as {pointer:/order/id ?? unknown}.",
            )


def _schemas(report: LintReport, subscription: Subscription) -> Iterator[Any]:
    """Yield the schema of every route to the topics of the subscription. If one of these routes has
    no readable schema, yield nothing.
    """
    found = []
    for route in report.config.routes:
        if not any(_feeds(target, subscription) for target in route.to):
            continue
        file = None if route.data_schema is None else route.data_schema.file
        schema = None if file is None else _read(file)
        if schema is None:
            return
        found.append(schema)
    yield from found


def _feeds(target: object, subscription: Subscription) -> bool:
    if not isinstance(target, Target) or target.broker != subscription.source.broker:
        return False
    return target.topic in subscription.source.topics or "{" in target.topic


def _read(file: FilePath) -> Any:
    try:
        return json.loads(read_regular(file))
    except (OSError, ValueError):
        return None  # the check of routes reports it


def _excludes(schema: Any, whole: Any, steps: tuple[str, ...], depth: int = 0) -> bool:
    """Return True if no data that matches the schema has a value at these steps."""
    if schema is False:
        return True
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return False
    parts = [*schema.get("allOf", ())]
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
        parts.append(value_at(whole, steps_of(reference[1:])))
    if any(_excludes(part, whole, steps, depth + 1) for part in parts):
        return True
    return bool(steps) and _has_no_member(schema, whole, steps, depth)


def _has_no_member(schema: dict[str, Any], whole: Any, steps: tuple[str, ...], depth: int) -> bool:
    kind, properties = schema.get("type"), schema.get("properties", {})
    if isinstance(kind, str) and kind not in {"object", "array"}:
        return True
    if steps[0] in properties:
        return _excludes(properties[steps[0]], whole, steps[1:], depth + 1)
    closed = schema.get("additionalProperties", True) is False
    return closed and "patternProperties" not in schema and kind == "object"
