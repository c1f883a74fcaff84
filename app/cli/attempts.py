"""``skybridge attempts``: what was tried, and how it ended."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli import asking, letters, printing
from app.cli.asking import SERVER, Json, Server, Token

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
    (store.attempts.keep); the service also remembers its newest thousand of each."""
    query = {
        "subscription": subscription or None,
        "event_id": event or None,
        "outcome": outcome or None,
        "limit": limit,
    }
    found = asking.ask(server, token, "/v1/attempts", query)["attempts"]
    if as_json:
        for each in found:
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
    printing.table(
        columns,
        [
            (
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
            for each in found
        ],
    )
