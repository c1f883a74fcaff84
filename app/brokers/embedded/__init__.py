"""Shell. The embedded log behind the interface of every broker: nothing else to install.

``driver`` · ``consumer`` · ``owned_partition`` · ``tail``: one reading for many · ``commit_rounds``: one timer for all
"""

from __future__ import annotations

from typing import Any

from app.brokers.embedded.consumer import ConsumerSettings
from app.brokers.embedded.driver import CAPABILITIES, EmbeddedDriver
from app.brokers.portable import Bounds, PortableLog
from app.log.groups.membership import GroupTimes
from app.log.groups.positions import Declared
from app.log.settings import EngineSettings, Retention

__all__ = [
    "CAPABILITIES",
    "ConsumerSettings",
    "Declared",
    "EmbeddedDriver",
    "EngineSettings",
    "GroupTimes",
    "Retention",
    "open_log",
]


def open_log(
    *,
    bounds: Bounds | None = None,
    consumers: ConsumerSettings = ConsumerSettings(),  # noqa: B008 - frozen
    **settings: Any,
) -> PortableLog:
    """An embedded log as a ``Log``, by the fields of ``EngineSettings``. Nothing is opened yet."""
    return PortableLog(EmbeddedDriver(EngineSettings(**settings), consumers), bounds)
