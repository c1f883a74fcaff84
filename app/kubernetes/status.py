"""The status of an object: its conditions, made of the outcome and of what the admin API reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.kubernetes.outcome import Outcome

Status = dict[str, Any]
_LONGEST = 4096  # characters of a message; twenty faults have fewer


class Delivering(NamedTuple):
    """The condition ``Delivering``."""

    status: str
    reason: str
    message: str = ""


UNKNOWN = Delivering("Unknown", "NoSubscription", "The subscription does not exist yet.")
_BY_STATE: Mapping[str, Delivering] = {
    "running": Delivering("True", "Running"),
    "starting": Delivering("Unknown", "Starting"),
    "elsewhere": Delivering(
        "Unknown", "Elsewhere", "Another process delivers; operator.admin.url does not name it."
    ),
    "disabled": Delivering(
        "False", "Disabled", "The endpoint answered 410. Cure: skybridge subscriptions resume."
    ),
    "broken": Delivering("False", "CannotRun"),
}


def delivering(health: Mapping[str, Any] | None) -> Delivering:
    """Return the condition ``Delivering`` of a subscription. ``health`` is None if it does not exist."""
    if health is None:
        return UNKNOWN
    state, cause = health["state"], health["cause"]
    if state == "paused":
        if health["paused_for"] is None:
            return Delivering("False", "Paused", cause)
        return Delivering("False", "EndpointPaused", cause or health["last_error"])
    found = _BY_STATE.get(state, Delivering("False", state.capitalize()))
    return found if found.message or not cause else found._replace(message=cause)


def in_force(outcome: Outcome, health: Mapping[str, Any] | None) -> Outcome:
    """Return an outcome as the status has it. An accepted subscription is ready when it no longer starts."""
    is_starting = health is None or health["state"] == "starting"
    if outcome.reason == "Accepted" and is_starting:
        return Outcome("Starting", "The subscription is stored, and takes no event yet.")
    return outcome


def status_of(
    subscription: str,
    generation: int,
    outcome: Outcome,
    health: Mapping[str, Any] | None,
    before: Mapping[str, Any],
    now: str,
) -> Status:
    """Return the whole status of an object.

    Args:
        subscription: The id.
        generation: The generation of the object that ``outcome`` is about.
        outcome: What became of the object.
        health: The state of the subscription, as the admin API shows it, or None.
        before: The status before. A condition with the same status keeps its time.
        now: The time, as RFC 3339.
    """
    sends = delivering(health)
    conditions = [
        _condition("Ready", outcome.status, outcome.reason, outcome.message, generation),
        _condition("Delivering", sends.status, sends.reason, sends.message, generation),
    ]
    earlier = {each.get("type"): each for each in before.get("conditions", ())}
    for each in conditions:
        old = earlier.get(each["type"], {})
        same = old.get("status") == each["status"] and "lastTransitionTime" in old
        each["lastTransitionTime"] = old["lastTransitionTime"] if same else now
    found: Status = {"id": subscription, "observedGeneration": generation, "conditions": conditions}
    if health is not None:
        found["state"] = health["state"]
        if (letters := dead_letters_in(health)) is not None:
            found["deadLetters"] = letters
        if health["lag"] is not None:
            found["lag"] = health["lag"]
    return found


def dead_letters_in(health: Mapping[str, Any]) -> int | None:
    """Return the number of dead letters of a subscription. Return None if the service could not count them."""
    by_cause = health["dead_letters"]
    return None if by_cause is None else sum(by_cause.values())


def differs(before: Mapping[str, Any], now: Status, *, counts: bool) -> bool:
    """Return True if a status must be written. With ``counts`` false, other numbers alone do not matter."""
    numbers = () if counts else ("lag", "deadLetters")
    return _without(before, numbers) != _without(now, numbers)


def _without(status: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    return {name: value for name, value in status.items() if name not in names}


def _condition(kind: str, status: str, reason: str, message: str, generation: int) -> Status:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…",
        "observedGeneration": generation,
    }
