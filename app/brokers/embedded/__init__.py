"""Shell. The embedded log behind the interface of every broker: nothing else to install.

driver · consumer · membership (of a group) · owned (a partition) · tail and cursor (one reading for many) ·
upkeep (one timer for all) · assignment
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.brokers.embedded.consumer import ConsumerSettings
from app.brokers.embedded.driver import CAPABILITIES, EmbeddedDriver
from app.brokers.embedded.membership import GroupTimes
from app.brokers.portable import Bounds, PortableLog
from app.log.positions import Declared
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
    name: str,
    path: Path,
    partitions: int = 8,
    max_partitions: int = 10_000,
    group_age: float = 7 * 86_400.0,
    max_bytes: int = 0,
    retention: Retention = Retention(),  # noqa: B008 - frozen
    topic_retention: Mapping[str, Retention] | None = None,
    check_on_start: bool = False,
    bounds: Bounds | None = None,
    consumers: ConsumerSettings = ConsumerSettings(),  # noqa: B008 - frozen
) -> PortableLog:
    """The log in the folder ``path``, not started yet. See EngineSettings for the rest."""
    settings = EngineSettings(
        path=path,
        name=name,
        partitions=partitions,
        max_partitions=max_partitions,
        group_age=group_age,
        max_bytes=max_bytes,
        retention=retention,
        topic_retention=topic_retention or {},
        check_on_start=check_on_start,
    )
    return PortableLog(EmbeddedDriver(settings, consumers), bounds)
