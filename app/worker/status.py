"""Why a subscription delivers nothing, in the words of its status."""

from __future__ import annotations

from app.interfaces import Halt


def halt_words(halt: Halt) -> str:
    """The cause of a dispatcher that the store says is to deliver nothing; it begins with the state."""
    return f"{halt.kind}: {halt.cause}" if halt.cause else halt.kind
