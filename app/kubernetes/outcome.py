"""The result of one look at an object: its reason and message, as the condition ``Ready`` has them."""

from __future__ import annotations

from typing import Literal, NamedTuple

Reason = Literal[
    "Accepted", "Starting", "Draining", "InvalidSpec", "NotAllowed", "SecretMissing", "SecretNotLabelled", "ServiceNotAllowed",
    "IdTaken", "LimitReached", "CannotRun", "ServiceRefused", "ServiceUnavailable", "NamespaceUnreadable",
]  # fmt: skip
"""The reasons of the condition ``Ready``."""
DENIED: frozenset[Reason] = frozenset(
    {"NotAllowed", "SecretMissing", "SecretNotLabelled", "ServiceNotAllowed"}
)
"""The reasons for which a subscription that exists already is paused. Its namespace has no right to it, or has withdrawn
the secret that it uses."""

_UNKNOWN: frozenset[Reason] = frozenset({"Starting", "ServiceUnavailable", "NamespaceUnreadable"})


class Outcome(NamedTuple):
    """The reason and the message of the condition ``Ready``."""

    reason: Reason
    message: str = ""

    @property
    def status(self) -> Literal["True", "False", "Unknown"]:
        """Return the status of the condition."""
        if self.reason == "Accepted":
            return "True"
        return "Unknown" if self.reason in _UNKNOWN else "False"


class NotAccepted(Exception):
    """An object cannot become a subscription. ``outcome`` has the reason, and no secret."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.outcome = Outcome(reason, message)
