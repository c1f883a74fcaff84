"""An operator's own key mappers: entry points of the group ``skybridge.key_mappers``.

Each names a plain callable ``(attributes, data, request_key) -> bytes | str | None``, which imports
nothing of ours. Only those that a route asks for are looked for and imported. A built-in name cannot
be taken.
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
    """Names that a route may give: of the built-in ones only, when ``wanted`` is one of them."""
    if wanted in BUILT_IN_MAPPERS:
        return BUILT_IN_MAPPERS
    return (*BUILT_IN_MAPPERS, *entry_points(group=GROUP).names)


def load_key_mappers(routes: Iterable[Route]) -> dict[str, PlainMapper]:
    """The mappers that the routes ask for, by name. An unregistered one is left out.

    Raises SetupError for one that is registered twice, cannot be imported, or cannot be called.
    """
    names = {route.key.mapper for route in routes}.difference(BUILT_IN_MAPPERS)
    loaded = {}
    for name in sorted(names):
        registered = set(entry_points(group=GROUP, name=name))
        if len({point.value for point in registered}) > 1:
            places = ", ".join(sorted(point.value for point in registered))
            raise _refused(f"key mapper {name!r} is registered twice: {places}", "keep one")
        for point in registered:
            loaded[name] = _load(point)
    return loaded


def _load(point: EntryPoint) -> PlainMapper:
    what = f"key mapper {point.name!r} ({point.value})"
    try:
        mapper: Any = point.load()
    except Exception as error:
        cure = "repair or reinstall the package that registers it"
        raise _refused(
            f"{what} cannot be imported: {type(error).__name__}: {error}", cure
        ) from error
    if not callable(mapper) or iscoroutinefunction(mapper):
        raise _refused(f"{what} is not a plain callable", "name a function that is not async")
    return mapper  # type: ignore[no-any-return]  # what it returns is checked at each call


def _refused(message: str, cure: str) -> SetupError:
    return SetupError(message, setting="key.mapper", cure=cure)
