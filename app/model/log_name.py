"""The name of a log through which events are published."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Acknowledgements: TypeAlias = Literal["all", 1, 0]
"""The number of replicas that must have an event before the answer 202."""


class LogName(NamedTuple):
    """The name of a log that publishes for routes.

    A broker has one log for each number of acknowledgements that its routes demand, so that a relaxed route does
    not affect the others. Each spool has one more log, before the log of its target.

    Attributes:
        broker: The broker.
        acknowledgements: The replicas that must have an event.
        spooled: The route whose spool is before the log; "" for none.
    """

    broker: str
    acknowledgements: Acknowledgements = "all"
    spooled: str = ""
