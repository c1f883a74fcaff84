"""Elect the one process of an installation that sends its alerts, by the store.

A process takes over when the sender has missed three looks (``LOOKS``), by the clock of the process that waits. So clocks
of two machines are never compared.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from app.delivery.alert_plan import AlertState, ProcessFindings
from app.errors import StoreUnavailable
from app.interfaces import AlertBoard, AlertReport, AlertStore

LOOKS = 3  # looks that the sender may miss
FORGOTTEN = 20  # such times after which the report of a process is deleted

States = Mapping[str, AlertState]
"""A mapping of each alert's name to what it has sent."""

_states: msgspec.json.Decoder[States] = msgspec.json.Decoder(dict[str, AlertState])
_findings = msgspec.json.Decoder(ProcessFindings)
_log = logging.getLogger(__name__)


Read = TypeVar("Read")


def _read(decoder: msgspec.json.Decoder[Read], document: bytes) -> Read | None:
    """Return a document of the store, or None if there is none or another release wrote it in another form."""
    try:
        return decoder.decode(document) if document else None
    except msgspec.DecodeError:
        return None


class AlertDuty:
    """The duty to send alerts, as one process sees it.

    Attributes:
        is_sender: Whether this process sends the alerts.
        states: What was sent, by name of the alert, as the store had it at the last look.
    """

    def __init__(self, store: AlertStore, process: str) -> None:
        self._store = store
        self._process = process
        self._beats: dict[str, tuple[int, float]] = {}
        self.is_sender = False
        self.states: States = {}

    async def report(
        self, found: ProcessFindings, now: float, every: float
    ) -> Sequence[ProcessFindings]:
        """Store what this process found, and return the fresh reports of all processes. If the sender has gone,
        become the sender.

        Args:
            found: the findings of this process.
            now: the monotonic clock in seconds.
            every: the seconds between two looks.

        Raises:
            StoreUnavailable: the store does not answer. This process stays sender if it was.
        """
        try:
            board = await self._store.report(self._process, msgspec.json.encode(found))
        except StoreUnavailable:
            self._beats = {}  # the sender could not write either, so its silence means nothing
            raise
        fresh, lost = self._sorted(board, now, LOOKS * every)
        was_sender, self.is_sender = self.is_sender, board.sender == self._process
        if not self.is_sender and board.sender not in {each.process for each in fresh}:
            self.is_sender = await self._store.take(self._process, board)
        if self.is_sender and not was_sender:
            _log.info("this process sends the alerts of the installation from now on")
        if self.is_sender and lost:
            await self._store.forget(lost)
        self.states = _read(_states, board.state) or {}
        reports = [_read(_findings, each.document) for each in fresh]
        return [each for each in reports if each is not None]

    def _sorted(
        self, board: AlertBoard, now: float, most: float
    ) -> tuple[list[AlertReport], list[AlertReport]]:
        """Return the reports of processes that work, and those of processes that ended long ago."""
        known = {}
        for each in board.reports:
            beat, at = self._beats.get(each.process, (None, now))
            known[each.process] = (each.beat, at) if beat == each.beat else (each.beat, now)
        self._beats = known
        age = {each.process: now - known[each.process][1] for each in board.reports}
        return (
            [each for each in board.reports if age[each.process] < most],
            [each for each in board.reports if age[each.process] > FORGOTTEN * most],
        )

    async def save(self, states: States) -> None:
        """Store what was sent, if it has changed. If another process sends now, stop sending."""
        if states == self.states:
            return
        self.states = states
        self.is_sender = await self._store.save(self._process, msgspec.json.encode(states))

    async def leave(self) -> None:
        """Give the duty up, so that another process takes it at its next look."""
        await self._store.leave(self._process)
