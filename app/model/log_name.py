"""The name of a log that events are published through."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Acknowledgements: TypeAlias = Literal["all", 1, 0]
"""How many replicas must have an event before 202."""


class LogName(NamedTuple):
    """A log that publishes for routes. A broker has one log for each number of acknowledgements that its routes wait
    for, so that a relaxed route changes nothing for the others. Each spool has one more, before that of its target.

    ``spooled``  the route whose spool stands before the log; "" for none.
    """

    broker: str
    acknowledgements: Acknowledgements = "all"
    spooled: str = ""
