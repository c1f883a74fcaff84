"""``skybridge alerts`` lists the alerts of a running service, and tests their channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from app.cli import exits, printing, verbs
from app.cli.admin_client import AdminClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.cli.printing import Column

app = verbs.group("alerts", "List alerts, and test their channels.")

_ALERTS: Sequence[Column] = (
    ("alert", "name"),
    "channel",
    "host",
    ("reported", lambda each: len(each["reported"])),
    ("last sent", lambda each: each["last_sent"] or "never"),
    ("state", lambda each: (each["error"] and f"fails: {each['error']}") or "ok"),
)


@app.verb("list", "skybridge alerts list", "skybridge alerts list --json")
def list_(*, service: AdminClient) -> None:
    """List the alerts of a running service.

    Each row has the channel, the number of problems that the alert has reported and that last, and
    the time of its last message. A channel that takes no messages is shown with the cause.
    """
    service.show_all(service.get("/v1/alerts")["alerts"], _ALERTS)


@app.verb("test", "skybridge alerts test ops", "skybridge alerts test ops --json")
def test(
    name: Annotated[str, typer.Argument(help="Test the channel of this alert.")],
    *,
    service: AdminClient,
) -> None:
    """Send a test message to the channel of an alert.

    The command prints the answer of the channel. Exits with 1 if the channel does not take the
    message.
    """
    found = service.post(f"/v1/alerts/{quote(name, safe='')}:test")
    service.show(found, lambda answer: printing.text_line(_words(name, answer)))
    if not found["delivered"]:
        raise typer.Exit(exits.FAILED)


def _words(name: str, answer: dict[str, Any]) -> str:
    if answer["delivered"]:
        return f"alert {name}: the channel has taken the test message ({answer['status']})"
    return f"alert {name}: the channel does not take messages: {answer['detail']}"
