"""``skybridge attempts`` shows delivery attempts and their results; ``skybridge parked`` shows
parked keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from app.cli import printing
from app.cli.admin_client import AdminClient, Subscription
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.cli.printing import Column


@verb(
    "attempts",
    "skybridge attempts",
    "skybridge attempts --subscription billing --outcome retry --limit 20",
    "skybridge attempts --event A-1001            # why did this event not arrive?",
    "skybridge attempts --event A-1001 --json | jq .detail",
)
def attempts(
    subscription: Subscription = "",
    event: Annotated[
        str, option("Show only attempts of the event with this id; by default all.", "-e")
    ] = "",
    outcome: Annotated[
        Literal["delivered", "retry", "dead-letter", "disable", "unsent"] | None,
        option("Show only attempts with this outcome; by default all."),
    ] = None,
    limit: Annotated[int, option("Show at most this many attempts.", "-n", min=1, max=1000)] = 50,
    *,
    service: AdminClient,
) -> None:
    """Show delivery attempts, the newest first.

    Each row has the time, the duration, the answer and the wait until the next attempt. By default
    the store keeps failed attempts, and the last success of each subscription
    (store.attempts.keep). The service also keeps its newest thousand attempts of each subscription
    in memory. If the event of --event has no attempt yet, the output names the earlier event of its
    key for which it waits.
    """
    query = {"subscription": subscription, "event_id": event, "outcome": outcome, "limit": limit}
    answer = service.get("/v1/attempts", query)
    waiting, found = answer["waiting"], answer["attempts"]
    if not waiting and not found:
        service.demand_subscriptions(subscription)
    shown = waiting if service.as_json else map(_as_attempt, waiting)
    service.show_all([*shown, *found], _ATTEMPTS)  # waiting events come first


@verb("parked", "skybridge parked", "skybridge parked --subscription billing --json")
def parked(
    subscription: Subscription = "",
    limit: Annotated[int, option("Show at most this many keys.", "-n", min=1, max=1000)] = 50,
    *,
    service: AdminClient,
) -> None:
    """Show the parked keys, the longest wait first.

    Each row has the number of messages, the cause and the time of the next attempt. A key is parked
    when its oldest message has failed too often (retry.hold). Its messages then wait in the store,
    and all other keys continue. Redriven dead letters are also listed until they are sent.
    """
    query = {"subscription": subscription, "limit": limit}
    found = service.get("/v1/parked/keys", query)["keys"]
    if not found:
        service.demand_subscriptions(subscription)
    service.show_all(found, _KEYS)


def _as_attempt(waiting: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an attempt row for an event that has no attempt yet and waits. The outcome in the row
    is ``waits``.
    """
    where, behind = "parked" if waiting["parked"] else "held", waiting["behind"]
    if behind is not None:
        where += f", after event {behind['id']} of {behind['source']}"
    none = dict.fromkeys(("started_ms", "number", "status", "duration_ms", "next_try_in"))
    return {**waiting, **none, "outcome": "waits", "detail": where}


def _next_try(key: Mapping[str, Any]) -> str:
    """Return the time of the next attempt of a parked key. If this time has passed, return ``due``,
    because the key then waits for its endpoint or for earlier events.
    """
    from app.interfaces.clock import SystemClock

    due_ms = key["due_ms"]
    return "due" if due_ms <= SystemClock().now() * 1000 else printing.moment(due_ms)


_ATTEMPTS: Sequence[Column] = (
    ("at", printing.moment_of("started_ms")),
    "subscription",
    ("event id", lambda each: each["event"]["id"] or None),
    ("no", "number"),
    "outcome",
    "status",
    ("ms", printing.rounded("duration_ms")),
    ("next in", printing.rounded("next_try_in", "{:.3g}s")),
    ("detail", lambda each: printing.escape_line(each["detail"]) or None),
)
_KEYS: Sequence[Column] = (
    "subscription",
    "key",
    "rows",
    ("redriven", lambda each: each["redriven"] or None),
    ("since", printing.moment_of("at_ms")),
    ("next try", _next_try),
    "attempts",
    ("cause", lambda each: each["cause"] or None),
)
