"""A configuration as plain values with the names of its settings, defaults included.

``exact`` has the values for comparison, with secrets. ``shown`` has the values for people: secrets
are hidden, and a value from a reference or an environment variable is shown as the reference. The
digest is computed from ``shown``, so it reveals no secret. Two pods that differ only in the value
of ``${env:HOSTNAME}`` have the same digest.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from pydantic import BaseModel

from app.config.load.finding import Path
from app.config.load.loader import Loaded

Tree = Any
"""A configuration as nested mappings, lists and plain values."""

NAMED = {
    "routes": "name",
    "intakes": "name",
    "producers": "name",
    "subscriptions": "id",
    "alerts": "name",
}
"""The sections that are lists of members with a name. The value is the setting that has the name.
"""


class ConfigView(NamedTuple):
    """The exact and the redacted values of a configuration. Both have the same shape, except where
    a reference replaces a section.
    """

    exact: Tree
    shown: Tree


def view_of(loaded: Loaded) -> ConfigView:
    """Return the exact and the redacted values of a loaded configuration."""
    return ConfigView(_tree(loaded.config), shown_of(loaded))


def shown_of(loaded: Loaded) -> Tree:
    """Return the redacted values of a loaded configuration."""
    shown = loaded.config.model_dump(mode="json", by_alias=True)
    for path, origin in loaded.origins().items():
        shown = _with(shown, path, _redacted(shown, path, origin))
    return shown


def view_of_shown(shown: Tree) -> ConfigView:
    """Return the view of a redacted configuration. Its secrets cannot be compared."""
    return ConfigView(shown, shown)


def digest_of(shown: Tree) -> str:
    """Return the digest of the redacted values, 12 hexadecimal digits."""
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _tree(value: Any) -> Tree:
    """Return a model as plain values, with the names that users write."""
    match value:
        case BaseModel():
            fields = type(value).model_fields
            return {f.alias or name: _tree(getattr(value, name)) for name, f in fields.items()}
        case dict():
            return {str(name): _tree(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_tree(inner) for inner in value]
    return value


def _redacted(shown: Tree, path: Path, origin: str) -> Tree:
    """Return the redacted value at ``path``.

    ``origin`` is the reference that replaces the value. If an environment variable sets a whole
    member of a list, each of its settings except its name is replaced.
    """
    match path:
        case (str(section), int(number)) if section in NAMED and number < len(shown[section]):
            whole, field = shown[section][number], NAMED[section]
            return {name: inner if name == field else origin for name, inner in whole.items()}
    return origin


def _with(tree: Tree, path: Path, origin: Tree) -> Tree:
    """Return the tree with the value at ``path`` replaced by ``origin``.

    The path may not exist in the tree, because the file may have a short form, such as one target
    instead of a list. Then the nearest value above is replaced, so that no resolved reference is
    shown.
    """
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
