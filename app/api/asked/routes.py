"""The protocols through which the API reads the routes and producers of the current configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.access.caller import EventSender
from app.model.route import Route
from app.routing.plan import Resources


class Routes(Protocol):
    """The routes of the current configuration. ``resources`` has the schemas and files that the routes name.
    A reload replaces both."""

    @property
    def routes(self) -> Sequence[Route]: ...

    @property
    def resources(self) -> Resources: ...


class KnownProducers(Protocol):
    """The configured producers by name, each with its rights and counts. A reload replaces them."""

    @property
    def callers(self) -> Mapping[str, EventSender]: ...

    @property
    def required(self) -> bool:
        """Return True if the events listener answers 401 to a request without a producer's credential."""
        ...
