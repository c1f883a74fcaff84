"""Environment variables that override the file: ``SKYBRIDGE_SERVER__EVENTS__PORT=9090``.

``__`` separates the parts of a path. A number is an index of a list, and the number after the last
index adds a member. Letters of any case match, and ``_`` matches ``-`` and ``.`` of a name. A list
or mapping is written as JSON. A variable without ``__`` overrides only ``installation``, because
Kubernetes and other programs set ``SKYBRIDGE_...`` too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from app.config.load.document import Document
from app.config.load.finding import Location, Path

PREFIX = "SKYBRIDGE_"
_ALONE = {"INSTALLATION"}


def override(document: Document, environ: Mapping[str, str]) -> set[Path]:
    """Put the values of environment variables into the document. Return the paths of these values,
    because no message may repeat them.
    """
    paths: set[Path] = set()
    named = (
        (each.removeprefix(PREFIX).split("__"), each) for each in environ if each.startswith(PREFIX)
    )
    for steps, variable in sorted(named, key=_order):
        if len(steps) == 1 and steps[0] not in _ALONE:
            continue
        path = _put(document, variable, steps, _read(environ[variable]))
        if path is not None:
            paths.add(path)
    return paths


def overrides_of(sections: Collection[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that override settings of some sections."""
    return {
        name: text
        for name, text in environ.items()
        if name.removeprefix(PREFIX).partition("__")[0].lower() in sections
    }


def _order(named: tuple[list[str], str]) -> tuple[object, ...]:
    """Return the sort key of a variable. Indexes sort as numbers, so that 10 comes after 9."""
    return tuple((0, int(step), "") if step.isdecimal() else (1, 0, step) for step in named[0])


def _put(document: Document, variable: str, steps: list[str], value: Any) -> Path | None:
    holder: Any = document.root
    path: Path = ()
    place = Location(variable=variable)
    for n, step in enumerate(steps):
        key = _key(holder, step)
        if key is None:
            document.add_error(
                path,
                f"The environment variable {variable} matches no setting.",
                "Correct the name of the variable.",
                place,
            )
            return None
        path = (*path, key)
        if isinstance(holder, list) and key == len(holder):
            holder.append({})
        if n == len(steps) - 1:
            holder[key] = value
            break
        if isinstance(holder, dict) and not isinstance(holder.get(key), dict | list):
            holder[key] = [] if steps[n + 1] == "0" and n + 2 < len(steps) else {}
            document.places.add(path, place)
        holder = holder[key]
    document.places.override(path, variable)
    return path


def _key(holder: Any, step: str) -> str | int | None:
    """Return the key of ``holder`` that a part of a variable's name means. This is an existing key
    that matches, or else a new key.
    """
    if isinstance(holder, list):
        return int(step) if step.isdecimal() and int(step) <= len(holder) else None
    if not isinstance(holder, dict) or not step:
        return None
    for key in holder:
        if _folded(str(key)) == _folded(step):
            return key  # type: ignore[no-any-return]
    return step.lower()


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _read(text: str) -> Any:
    """Return the value of an environment variable. A list or mapping is parsed as JSON; any other
    text is returned unchanged.
    """
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
