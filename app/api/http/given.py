"""The parts of a service that its API uses. A part is found by its kind, which is a protocol of the API or a
class."""

from __future__ import annotations

from typing import Any, TypeVar, cast

T = TypeVar("T")


class ServiceParts:
    """The parts of a running service, by kind. Each handler looks up only the kinds that it uses."""

    def __init__(self) -> None:
        self._parts: dict[type[Any], Any] = {}

    def add(self, kind: type[T], part: T) -> None:
        """Set the part of a kind."""
        self._parts[kind] = part

    def of(self, kind: type[T]) -> T:
        """Return the part of a kind. Raise LookupError if the service has none."""
        try:
            return cast("T", self._parts[kind])
        except KeyError:
            raise LookupError(f"The service has no {kind.__name__} for its API.") from None
