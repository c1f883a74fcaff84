"""Load the key mappers of an operator: entry points of the group ``skybridge.key_mappers``.

Each is a plain callable ``(attributes, data, request_key) -> bytes | str | None`` that imports
nothing of Skybridge. Only mappers that a route names are imported. They cannot replace built-in
mappers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutinefunction
from typing import Any

from app.errors import SetupError
from app.model.route import BUILT_IN_MAPPERS, Route
from app.routing.keys import PlainMapper

GROUP = "skybridge.key_mappers"


def known_mappers(wanted: str) -> Sequence[str]:
    """Return the names of the key mappers that a route may use. If ``wanted`` is a built-in mapper,
    return only the built-in names.
    """
    if wanted in BUILT_IN_MAPPERS:
        return BUILT_IN_MAPPERS
    return (*BUILT_IN_MAPPERS, *entry_points(group=GROUP).names)


def load_key_mappers(routes: Iterable[Route]) -> dict[str, PlainMapper]:
    """Import the key mappers that the routes name, and return them by name. A mapper that is not
    registered is left out.

    Raises:
        SetupError: If a mapper is registered twice, cannot be imported, or is not a plain callable.
    """
    names = {route.key.mapper for route in routes}.difference(BUILT_IN_MAPPERS)
    loaded = {}
    for name in sorted(names):
        registered = set(entry_points(group=GROUP, name=name))
        if len({point.value for point in registered}) > 1:
            places = ", ".join(sorted(point.value for point in registered))
            raise _refused(
                f"The key mapper {name!r} is registered twice: {places}.",
                "Uninstall one of the two.",
            )
        for point in registered:
            loaded[name] = _load(point)
    return loaded


def _load(point: EntryPoint) -> PlainMapper:
    what = f"The key mapper {point.name!r} ({point.value})"
    try:
        mapper: Any = point.load()
    except Exception as error:
        cure = "Repair or reinstall the package that registers it."
        raise _refused(
            f"{what} cannot be imported: {type(error).__name__}: {error}", cure
        ) from error
    if not callable(mapper) or iscoroutinefunction(mapper):
        raise _refused(f"{what} is not a plain callable.", "Register a function that is not async.")
    return mapper  # type: ignore[no-any-return]  # what it returns is checked at each call


def _refused(message: str, cure: str) -> SetupError:
    return SetupError(message, setting="key.mapper", cure=cure)
