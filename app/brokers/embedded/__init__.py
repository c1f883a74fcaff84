"""Shell. The driver of the embedded log, which needs no other software.

``driver`` implements the interface of all brokers. ``consumer`` and ``owned_partition`` are a group member
and its partitions. ``tail`` reads a partition once for many members. ``commit_rounds`` commits for all
members with one timer, and ``backlog`` measures what a group has not finished.
"""

from __future__ import annotations

from typing import Any

from app.brokers.embedded.consumer import ConsumerSettings
from app.brokers.embedded.driver import CAPABILITIES, EmbeddedDriver
from app.brokers.portable import PortableLog, PublishBounds
from app.log.groups.membership import GroupTimes
from app.log.groups.positions import DeclaredGroup
from app.log.settings import EngineSettings, RetentionLimits

__all__ = [
    "CAPABILITIES",
    "ConsumerSettings",
    "DeclaredGroup",
    "EmbeddedDriver",
    "EngineSettings",
    "GroupTimes",
    "RetentionLimits",
    "open_log",
]


def open_log(
    *,
    bounds: PublishBounds | None = None,
    consumers: ConsumerSettings = ConsumerSettings(),  # noqa: B008 - frozen
    **settings: Any,
) -> PortableLog:
    """Return the embedded log as a ``Log``. Nothing is opened yet.

    Args:
        bounds: The limits of publishing.
        consumers: The settings of group members.
        settings: The fields of ``EngineSettings``.
    """
    return PortableLog(EmbeddedDriver(EngineSettings(**settings), consumers), bounds)
