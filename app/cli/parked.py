"""``skybridge parked``: which keys wait in the store, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli import asking, letters, printing
from app.cli.asking import SERVER, Json, Server, Token

EXAMPLES = (
    "skybridge parked",
    "skybridge parked --subscription billing --json",
)


def run(
    subscription: Annotated[
        str, typer.Option("--subscription", "-s", help="Of this one; all by default.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many keys.")
    ] = 50,
    server: Server = SERVER,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Show the keys that wait, those that wait longest first: how many messages, why, until when.

    A key parks when its oldest message has used up the waits that hold its lane (retry.hold), so that
    all other keys go on; redriven dead letters wait here too, until they are sent."""
    query = {"subscription": subscription or None, "limit": limit}
    found = asking.ask(server, token, "/v1/parked/keys", query)["keys"]
    if as_json:
        for each in found:
            printing.json_line(each)
        return
    columns = ("subscription", "key", "rows", "redriven", "since", "next try", "attempts", "cause")
    printing.table(
        columns,
        [
            (
                each["subscription"],
                each["key"],
                each["rows"],
                each["redriven"] or None,
                letters.moment(each["at_ms"]),
                _next_try(each["due_ms"]),
                each["attempts"],
                each["cause"] or None,
            )
            for each in found
        ],
    )


def _next_try(due_ms: int) -> str:
    """A wait that is over is no moment to wait for: its endpoint is, or the events before it."""
    from app.runtime.clock import SystemClock

    return "due" if due_ms <= SystemClock().now() * 1000 else letters.moment(due_ms)
