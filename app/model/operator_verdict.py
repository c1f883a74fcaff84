"""A verdict on a service: one thing that needs a person, with its cure.

Names of verdicts are stable, because settings and programs select verdicts by name.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

AlertCause = Literal[
    "broker-away",
    "store-away",
    "spool-filling",
    "disk",
    "not-ready",
    "cannot-run",
    "disabled",
    "endpoint-fails",
    "queue-full",
    "restarting",
    "lag-grows",
    "late-events",
    "unread-queue",
    "parked-keys",
    "dead-letters",
    "silent-producer",
    "reload-refused",
    "paused",
]
"""The names of the verdicts that an alert can report, the gravest first."""

VerdictName = Literal[AlertCause, "alert-fails"]
"""The names of all verdicts, the gravest first. No alert reports that an alert fails."""

Severity = Literal["error", "warning", "notice"]
"""The severities. ``error``: events are refused or not delivered. ``warning``: events wait, or were given up. ``notice``: an
operator caused the state, and only an operator ends it."""

_RANKS = {name: rank for rank, name in enumerate(get_args(VerdictName))}
_SEVERITIES = {severity: rank for rank, severity in enumerate(get_args(Severity))}


class OperatorVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs a person.

    Attributes:
        subject: The part at fault: a kind and a name, such as ``subscription billing``.
        detail: What happened.
        cure: What the person has to do, in words.
        command: The command that does so, or that shows more.
    """

    name: VerdictName
    severity: Severity
    subject: str
    detail: str
    cure: str
    command: str


def rank(name: VerdictName, severity: Severity) -> tuple[int, int]:
    """Return the place of a verdict in a list: errors first, then by name in the order of ``VerdictName``."""
    return _SEVERITIES[severity], _RANKS[name]
