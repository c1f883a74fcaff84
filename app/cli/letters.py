"""Which dead letters a verb means: the filters that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

Subscription = Annotated[
    str, typer.Option("--subscription", "-s", help="Of this one; all by default.")
]
Cause = Annotated[
    list[str] | None,
    typer.Option("--cause", "-c", help="As `count` shows it: status-415, schedule-exhausted."),
]
Since = Annotated[
    str, typer.Option(help="Given up then or later: 2026-01-01T00:00:00Z, or milliseconds.")
]
Until = Annotated[str, typer.Option(help="Given up before then.")]
Source = Annotated[str, typer.Option(help="The event's source.")]
Type = Annotated[
    str, typer.Option("--type", "-t", help="The event's type; com.example.* for what begins so.")
]
Ids = Annotated[list[int] | None, typer.Option("--id", min=1, help="This one; may be repeated.")]


def chosen(
    subscription: str,
    cause: Sequence[str] | None,
    since: str,
    until: str,
    source: str,
    type_: str,
    ids: Sequence[int] | None = None,
) -> dict[str, Any]:
    """As the API takes them, without what was not given."""
    given = {
        "subscription": subscription,
        "cause": list(cause or ()),
        "since": since,
        "until": until,
        "source": source,
        "type": type_,
        "id": list(ids or ()),
    }
    return {name: value for name, value in given.items() if value}


def moment(milliseconds: int) -> str:
    """RFC 3339, to the second."""
    import datetime as dt

    at = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def event_of(message: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the event in a message, as far as there is one."""
    found: dict[str, Any] = message.get("event") or message.get("attributes") or {}
    return found
