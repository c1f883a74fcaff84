"""The configured brokers, as the API asks for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from app.interfaces import Log
from app.routing.publications import Manner


class Brokers(Protocol):
    """The brokers of the configuration, by name.

    ``kinds``     protocol of each broker.
    ``manners``   how events are written to some of them.
    ``attested``  brokers whose records prove which producer sent them.
    """

    @property
    def logs(self) -> Mapping[str, Log]: ...

    @property
    def kinds(self) -> Mapping[str, str]: ...

    @property
    def manners(self) -> Mapping[str, Manner]: ...

    @property
    def attested(self) -> Collection[str]: ...
