"""The interface of the store for alerts: one process of an installation sends them, on the reports of all.

No time is compared between machines, because their clocks may differ. Each row has a number that grows (``beat``). A
reader takes a row as abandoned if its number has not grown for a while by the reader's own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class AlertReport(msgspec.Struct, frozen=True):
    """The last report of one process. ``document`` is JSON of ``alert_plan.ProcessFindings``."""

    process: str
    beat: int
    document: bytes


class AlertBoard(msgspec.Struct, frozen=True):
    """The rows of the store about alerts.

    Attributes:
        sender: The process that sends the alerts; "" if no process does.
        beat: The number that grows while the sender works.
        state: What was sent, as JSON; empty before the first message.
        reports: The last report of each process.
    """

    sender: str = ""
    beat: int = 0
    state: bytes = b""
    reports: tuple[AlertReport, ...] = ()


class AlertStore(Protocol):
    """The reports of all processes, and the process that sends the alerts."""

    async def report(self, process: str, document: bytes) -> AlertBoard:
        """Store the report of a process in place of its last one, and return the board. If the process is the
        sender, its beat grows."""

    async def take(self, process: str, board: AlertBoard) -> bool:
        """Make a process the sender. Returns False, and changes nothing, if sender or beat differ from ``board``."""

    async def save(self, process: str, state: bytes) -> bool:
        """Store what was sent. Returns False, and stores nothing, if another process is the sender now."""

    async def forget(self, reports: Sequence[AlertReport]) -> None:
        """Delete reports of processes that were killed, unless they have reported again."""

    async def leave(self, process: str) -> None:
        """Delete the report of a process. If the process is the sender, any process may become the sender at once."""
