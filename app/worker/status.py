"""Why a subscription delivers nothing, in words for a person."""

from __future__ import annotations

from app.interfaces import Halt


def halt_words(halt: Halt) -> str:
    """The cause of a dispatcher that the store says is to deliver nothing; it begins with the state."""
    return f"{halt.kind}: {halt.cause}" if halt.cause else halt.kind


def disabled_words(subscription: str, cause: str) -> str:
    """That its target answered 410, and what a person does about it. ``cause``: of its status."""
    return (
        f"subscription {subscription} is disabled: {cause.removeprefix('disabled: ')}; "
        f"deliver again with: skybridge subscriptions resume {subscription}"
    )
