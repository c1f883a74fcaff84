"""The parts that a service gives its API, by kind: a protocol of the API, or a class."""

from __future__ import annotations

from typing import Any, TypeVar, cast

T = TypeVar("T")


class Given:
    """Parts by kind. A resource asks for the kinds that it uses, and for no others."""

    def __init__(self) -> None:
        self._parts: dict[type[Any], Any] = {}

    def add(self, kind: type[T], part: T) -> None:
        """Give the part that answers for its kind."""
        self._parts[kind] = part

    def of(self, kind: type[T]) -> T:
        """Return the part of a kind. Raises LookupError if the service gave none."""
        try:
            return cast("T", self._parts[kind])
        except KeyError:
            raise LookupError(f"The service gives its API no {kind.__name__}.") from None
