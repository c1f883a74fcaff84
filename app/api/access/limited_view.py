"""The base of the parts of a service that are limited to what one caller may access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.api.access.reach import Reach


class LimitedView:
    """A limited view of a part of the service. A subclass replaces the methods that must be limited. All
    other methods are those of the part."""

    def __init__(self, whole: Any, reach: Reach) -> None:
        self._whole = whole
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


def reachable(reach: Reach, found: Sequence[Any]) -> list[Any]:
    """Return the items whose subscription the caller may access."""
    return [each for each in found if reach.subscription(each.subscription)]
