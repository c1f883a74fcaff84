"""``skybridge attempts``: what was tried, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import asking, letters, printing
from app.cli.asking import SERVER, Json, Server, Token

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES = (
    "skybridge attempts",
    "skybridge attempts --subscription billing --outcome retry --limit 20",
    "skybridge attempts --event A-1001            # why did this one not arrive?",
    "skybridge attempts --event A-1001 --json | jq .detail",
)


def run(
    subscription: Annotated[
        str, typer.Option("--subscription", "-s", help="Of this one; all by default.")
    ] = "",
    event: Annotated[str, typer.Option("--event", "-e", help="Of the event with this id.")] = "",
    outcome: Annotated[
        str, typer.Option("--outcome", help="delivered, retry, dead-letter or disable.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="The newest so many.")
    ] = 50,
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Show attempts to deliver, the newest first: when, how long, what came back, when the next one is.

    By default the store keeps those that failed, and the last success of each subscription
    (store.attempts.keep); the service also remembers its newest thousand of each. Of an event
    that was not tried yet it is said behind which other of its key it waits."""
    query = {
        "subscription": subscription or None,
        "event_id": event or None,
        "outcome": outcome or None,
        "limit": limit,
    }
    answer = asking.ask(server, token, "/v1/attempts", query)
    found, waiting = answer["attempts"], answer["waiting"]
    if as_json:
        for each in (*waiting, *found):
            printing.json_line(each)
        return
    columns = (
        "at",
        "subscription",
        "event id",
        "no",
        "outcome",
        "status",
        "ms",
        "next in",
        "detail",
    )
    printing.table(columns, [*map(_waits, waiting), *map(_tried, found)])


def _tried(each: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        letters.moment(each["started_ms"]),
        each["subscription"],
        each["event"]["id"] or None,
        each["number"],
        each["outcome"],
        each["status"],
        round(each["duration_ms"]),
        None if each["next_try_in"] is None else f"{each['next_try_in']:.3g}s",
        printing.one_line(each["detail"]) or None,
    )


def _waits(each: Mapping[str, Any]) -> tuple[Any, ...]:
    """A row of the same columns, first of all: it is what happens now."""
    where, behind = "parked" if each["parked"] else "held", each["behind"]
    if behind is not None:
        where += f", behind event {behind['id']} of {behind['source']}"
    told = printing.one_line(where)
    return None, each["subscription"], each["event"]["id"], None, "waits", None, None, None, told
