"""What the chart's schema says of ``config``: a secret is written as a reference. Made from the model of the
configuration, so that no secret setting can be forgotten; ``make chart`` writes it into ``values.schema.json``.
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
    # enum, because its message tells the cure and no version of Helm repeats the value in it
    "then": {"enum": ["${env:NAME}", "${file:/path}"]},
}
_TO_SECRET = {"$ref": "#/definitions/secret"}

# Settings that Spark and Iceberg name: most are no secrets, and the name says which are.
_BY_NAME = {("Spark", "conf"), ("Catalog", "properties")}
_SECRET_NAMES = (
    r"([Pp]assword|[Ss]ecret|[Tt]oken|[Cc]redential|[Kk]ey|jaas\.config)$|account\.key\."
)


def definitions() -> Node:
    """For ``definitions`` of the chart's schema: ``config``, and the ``secret`` that it refers to."""
    model = schema()
    return {"config": _below(model, model["$defs"], ()), "secret": _SECRET}


def paths(node: Node) -> Iterator[tuple[str, ...]]:
    """Of every secret in ``definitions()["config"]``. ``*`` stands for a name, ``0`` for a place in a list."""
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
    """What of a node leads to secrets; all kinds of a broker or store in one. Empty where nothing does."""
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
    """Raises ValueError for a setting that is secret in one kind and holds others in the next."""
    if one and other and (one == _TO_SECRET) != (other == _TO_SECRET):
        raise ValueError(f"{one} and {other}")
    return {
        **one,
        **{
            name: _merged(one[name], each) if isinstance(one.get(name), dict) else each
            for name, each in other.items()
        },
    }
