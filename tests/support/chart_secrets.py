"""Make the part of the chart's schema that requires secrets in ``config`` to be written as
references.

The definitions come from the model of the configuration, so that no secret setting can be
forgotten. ``make chart`` writes them into ``values.schema.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.config.model.schema import schema

Node = dict[str, Any]

_REFERENCE = {"type": "string", "pattern": r"\$\{(env|file):[^}]+\}"}
_URL_WITHOUT_PASSWORD = {
    "type": "string",
    "pattern": "^[a-z][a-z0-9+.-]*://([^:/?#@]*@)?[^@]*$",
    "not": {"pattern": "password="},
}
_SECRET = {
    "description": "a reference, or an address without a password: values lie in a ConfigMap and in Helm's history",
    "if": {
        "type": ["string", "number", "boolean"],
        "not": {"anyOf": [_REFERENCE, _URL_WITHOUT_PASSWORD]},
    },
    # enum, because its message has the cure, and no version of Helm repeats the value in it
    "then": {"enum": ["${env:NAME}", "${file:/path}"]},
}
_TO_SECRET = {"$ref": "#/definitions/secret"}

# Settings that Spark and Iceberg name: most are no secrets; the pattern of names selects those that are.
_BY_NAME = {("Spark", "conf"), ("Catalog", "properties")}
_SECRET_NAMES = (
    r"([Pp]assword|[Ss]ecret|[Tt]oken|[Cc]redential|[Kk]ey|jaas\.config)$|account\.key\."
)


def definitions() -> Node:
    """Return the ``definitions`` of the chart's schema: ``config``, and the ``secret`` to which it
    refers.
    """
    model = schema()
    return {"config": _below(model, model["$defs"], ()), "secret": _SECRET}


def paths(node: Node) -> Iterator[tuple[str, ...]]:
    """Yield the path of every secret in ``definitions()["config"]``.

    In a path ``*`` is any name, and ``0`` is any position in a list.
    """
    if node == _TO_SECRET:
        yield ()
    for name, each in node.get("properties", {}).items():
        yield from ((name, *path) for path in paths(each))
    for keyword, step in (("items", "0"), ("additionalProperties", "*")):
        if keyword in node:
            yield from ((step, *path) for path in paths(node[keyword]))
    for each in node.get("patternProperties", {}).values():
        yield from (("some.password", *path) for path in paths(each))


def write(file: Path) -> None:
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "definitions": definitions()}, indent=1) + "\n")


def _below(node: Node, known: Node, above: tuple[str, ...]) -> Node:
    """Return the part of a schema node that leads to secrets, or an empty node if nothing does.

    All kinds of a broker or of a store are merged into one node.
    """
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return {} if name in above else _below(known[name], known, (*above, name))
    if node.get("format") == "password":
        return _TO_SECRET
    found: Node = {}
    for choices in ("oneOf", "anyOf"):
        for each in node.get(choices, ()):
            found = _merged(found, _below(each, known, above))
    for each in node.get("patternProperties", {}).values():  # also of a name that is none
        found = _holding(found, "additionalProperties", _below(each, known, above))
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            found = _holding(found, keyword, _below(node[keyword], known, above))
    for name, each in node.get("properties", {}).items():
        inner = _below(each, known, above)
        if (*above[-1:], name) in _BY_NAME:
            inner = {"patternProperties": {_SECRET_NAMES: inner["additionalProperties"]}}
        found = _holding(found, "properties", {name: inner} if inner else {})
    return found


def _holding(found: Node, keyword: str, inner: Node) -> Node:
    return _merged(found, {keyword: inner}) if inner else found


def _merged(one: Node, other: Node) -> Node:
    """Merge two schema nodes. Raises ValueError if a setting is a secret in one node and an object
    in the other."""
    if one and other and (one == _TO_SECRET) != (other == _TO_SECRET):
        raise ValueError(f"{one} and {other}")
    return {
        **one,
        **{
            name: _merged(one[name], each) if isinstance(one.get(name), dict) else each
            for name, each in other.items()
        },
    }
