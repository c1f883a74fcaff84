"""The status of a subscription, as the API and the command line show it."""

from __future__ import annotations

from typing import Literal

import msgspec

from app.model.message import Partition
from app.model.state_word import state_word

SubscriptionState = Literal[
    "starting", "running", "paused", "disabled", "restarting", "stopping", "stopped", "broken",
    "elsewhere",
]  # fmt: skip
"""Every state of a subscription, as ``SubscriptionStatus.state`` has it."""
PAUSED_BY_CONFIGURATION = "paused by its configuration"
"""The cause of a subscription that its document pauses."""


class SubscriptionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a subscription in its worker.

    Attributes:
        id: The subscription.
        sink: The sink, as text.
        state: starting, running, paused, disabled (its target answered 410), restarting (it failed),
            stopping, stopped, broken (it cannot be created), or elsewhere (another process runs it).
        broker: The source broker.
        group: The group on the broker.
        cause: The reason for ``paused``, ``restarting`` or ``broken``.
        partitions: The partitions that the worker owns.
        held: Messages that were read and are not finished.
        in_flight: Messages of ``held`` with a running attempt.
        waiting: Messages of ``held`` that wait for their next attempt.
        window: Messages from the commit position to the newest message read, in the partition where this is
            longest.
        paused_for: Seconds until the pause ends. None if the subscription is not paused, or if the end is unknown.
        oldest: Seconds since the oldest message of ``held`` was stored in the log. None if there is none.
        parked_rows: Parked events of the owned partitions.
        parked_keys: Keys of these parked events.
        restarts: Restarts since the process started.
        last_status: The status of the answer to the newest failed attempt. None if no answer came.
        last_error: The text of this answer, or why none came.
        failures: Failed attempts since the last success.
        failing_for: Seconds since the first of these failures.
        queue_bound: The most events of its pull queue. None if it is not a pull subscription.
    """

    id: str
    sink: str
    state: str
    broker: str = ""
    group: str = ""
    cause: str = ""
    partitions: tuple[Partition, ...] = ()
    held: int = 0
    in_flight: int = 0
    waiting: int = 0
    window: int = 0
    paused_for: float | None = None
    oldest: float | None = None
    parked_rows: int = 0
    parked_keys: int = 0
    restarts: int = 0
    last_status: int | None = None
    last_error: str = ""
    failures: int = 0
    failing_for: float = 0.0
    queue_bound: int | None = None

    @property
    def word(self) -> str:
        """Return the state in a word that shows who has to act, such as ``target fails``."""
        return state_word(self.state, self.paused_for, self.sink)

    @property
    def ready(self) -> bool:
        """Return True if the subscription runs or is paused.

        A failing target recovers by itself, so it does not make the worker unready.
        """
        return self.state in {"running", "paused"}
