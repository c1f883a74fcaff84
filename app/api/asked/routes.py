"""Routes and producers in force, as the API asks for them. A reload changes both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.access.caller import EventSender
from app.model.route import Route
from app.routing.plan import Resources


class Routes(Protocol):
    """The routes in force, and the schemas and files that they name (``resources``)."""

    @property
    def routes(self) -> Sequence[Route]: ...

    @property
    def resources(self) -> Resources: ...


class KnownProducers(Protocol):
    """The configured senders of events, by name, each with its rights and what it has sent."""

    @property
    def callers(self) -> Mapping[str, EventSender]: ...
