"""A configuration as plain values by the names of its settings: all of them, defaults too.

``exact`` holds what is compared, secrets among it; ``shown`` what may be read by a person: a secret is
hidden, and what came out of a reference or the environment is the reference. The digest is of what is
shown, so that it gives no secret away, and pods whose ``${env:HOSTNAME}`` differs agree.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from pydantic import BaseModel

from app.config.load.finding import Path
from app.config.load.loader import Loaded

Tree = Any
"""Mappings and lists of leaves."""

NAMED = {"routes": "name", "intakes": "name", "producers": "name", "subscriptions": "id"}
"""Lists of sections that have names, and the setting that is the name."""


class View(NamedTuple):
    """Both have the same shape, but for what a reference stands for as a whole."""

    exact: Tree
    shown: Tree


def view_of(loaded: Loaded) -> View:
    shown = loaded.config.model_dump(mode="json", by_alias=True)
    for path, origin in loaded.origins().items():
        told = _told(shown, path, origin)
        shown = _with(shown, path, told)
    return View(_tree(loaded.config), shown)


def view_of_shown(shown: Tree) -> View:
    """Of a configuration that only its service knows: secrets of it cannot be compared."""
    return View(shown, shown)


def digest_of(shown: Tree) -> str:
    """12 hexadecimal digits."""
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _tree(value: Any) -> Tree:
    """By the names that users write."""
    match value:
        case BaseModel():
            fields = type(value).model_fields
            return {f.alias or name: _tree(getattr(value, name)) for name, f in fields.items()}
        case dict():
            return {str(name): _tree(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_tree(inner) for inner in value]
    return value


def _told(shown: Tree, path: Path, origin: str) -> Tree:
    """What stands at ``path`` instead: of a section with a name, which an environment variable gives as a whole,
    each setting but the name."""
    match path:
        case (str(section), int(number)) if section in NAMED and number < len(shown[section]):
            whole, field = shown[section][number], NAMED[section]
            return {name: inner if name == field else origin for name, inner in whole.items()}
    return origin


def _with(tree: Tree, path: Path, origin: Tree) -> Tree:
    """The value at ``path`` replaced by ``origin``. Where the file may say less than the model holds (one
    target for a list of one), the nearest above it is: nothing of a reference is ever shown."""
    if not path:
        return origin
    step, *rest = path
    if isinstance(tree, dict) and str(step) in tree:
        return {**tree, str(step): _with(tree[str(step)], tuple(rest), origin)}
    if isinstance(tree, list) and isinstance(step, int) and step < len(tree):
        return [_with(e, tuple(rest), origin) if n == step else e for n, e in enumerate(tree)]
    if isinstance(tree, list) and len(tree) == 1:
        return [_with(tree[0], path, origin)]
    return origin
