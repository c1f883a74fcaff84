"""The JSON Schema of the configuration file. With it, editors complete the names of settings, and
show their meanings and defaults.
"""

from __future__ import annotations

from typing import Any

from app.config.model.config import Config
from app.model.duration import with_bounds

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = {
    "type": "string",
    "pattern": r"\$\{(env|file):[^}]+\}",
    "description": "a value from the environment or from a file",
}
_NOT_TEXT = {"integer", "number", "boolean"}


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12). Numbers, switches and choices may also be references."""
    made = _open_to_references(with_bounds(Config.model_json_schema()))
    return {"$schema": DIALECT, **made, "title": "Skybridge configuration"}


def _open_to_references(node: Any) -> Any:
    if isinstance(node, list):
        return [_open_to_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("type")  # a mapping if a setting is called type
    if isinstance(kind, str) and (kind in _NOT_TEXT or (kind == "string" and "enum" in node)):
        return _either(node)
    return {name: _open_to_references(inner) for name, inner in node.items() if name != "title"}


def _either(node: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows a value or a reference. The description and the default stay at
    the top of the schema, where editors look for them.
    """
    outside: dict[str, Any] = {
        name: node[name] for name in ("description", "default") if name in node
    }
    inside = {name: inner for name, inner in node.items() if name not in {*outside, "title"}}
    return {**outside, "anyOf": [inside, REFERENCE]}
