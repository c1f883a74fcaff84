"""The places of a document's settings: line and column, or the environment variable that overrides the file.

A configuration may have a hundred thousand settings, and a service keeps their places as long as it runs. So a
place is one number until it is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.config.load.finding import NOWHERE, Location, Path

_COLUMN_BITS = 20
_LAST_COLUMN = (1 << _COLUMN_BITS) - 1


class Places:
    """The location of every setting, by its path. ``variables`` has the settings that an environment variable
    overrides.
    """

    def __init__(self) -> None:
        self._positions: dict[Path, int] = {}  # line and column in one number
        self._variables: dict[Path, str] = {}

    @property
    def variables(self) -> Mapping[Path, str]:
        return self._variables

    def __contains__(self, path: Path) -> bool:
        return path in self._positions or path in self._variables

    def add(self, path: Path, place: Location) -> None:
        """Store the place of a setting instead of an earlier one."""
        if place.variable:
            self._variables[path] = place.variable
        else:
            self._positions[path] = place.line << _COLUMN_BITS | min(place.column, _LAST_COLUMN)

    def override(self, path: Path, variable: str) -> None:
        """Store that a variable overrides a setting, and forget the places of what the file has there."""
        size = len(path)
        for below in [each for each in self._positions if each[:size] == path]:
            del self._positions[below]
        for below in [each for each in self._variables if each[:size] == path]:
            del self._variables[below]
        self._variables[path] = variable

    def find(self, path: Path) -> Location | None:
        """Return the location of a setting, or None if the document does not have it."""
        if (variable := self._variables.get(path)) is not None:
            return Location(variable=variable)
        position = self._positions.get(path)
        if position is None:
            return None
        return Location(position >> _COLUMN_BITS, position & _LAST_COLUMN)

    def nearest(self, path: Path) -> Location:
        """Return the location of a setting, or of the nearest setting above it that the document has."""
        while path:
            if found := self.find(path):
                return found
            path = path[:-1]
        return self.find(()) or NOWHERE
