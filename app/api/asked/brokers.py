"""The protocol through which the API uses the configured brokers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from app.interfaces import Log
from app.routing.publications import PulsarProfile


class Brokers(Protocol):
    """The brokers of the configuration, by name.

    Attributes:
        logs: The connection to each broker.
        kinds: The protocol of each broker, such as ``kafka``.
        manners: How events are written to each broker whose protocol permits several ways.
        attested: Names of the brokers whose records prove which producer sent them.
    """

    @property
    def logs(self) -> Mapping[str, Log]: ...

    @property
    def kinds(self) -> Mapping[str, str]: ...

    @property
    def manners(self) -> Mapping[str, PulsarProfile]: ...

    @property
    def attested(self) -> Collection[str]: ...
