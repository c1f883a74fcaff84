"""JSON Merge Patch (RFC 7396): a document and what is to become different in it."""

from __future__ import annotations

from typing import Any


def merged(document: Any, patch: Any) -> Any:
    """A new document; neither argument is touched. ``None`` in the patch takes a member away, a list
    replaces a list as a whole."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
