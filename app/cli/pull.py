"""``skybridge pull`` fetches events of a pull subscription and acknowledges those that were
processed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import printing
from app.cli.admin_client import AdminClient
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from app.cli.pull_consumer import Handler, PullConsumer


@verb(
    "pull",
    "skybridge pull billing                      # print, acknowledge, continue",
    "skybridge pull billing --no-follow --json   # what waits now",
    "skybridge pull billing --exec './book.sh'   # the event on its standard input",
    json="Print one JSON object per event.",
)
def run(
    subscription: Annotated[
        str, typer.Argument(help="Fetch events of the subscription with this id.")
    ],
    command: Annotated[
        str,
        option(
            "Run this shell command for each event; by default print the event. Its "
            "standard input is the event in the JSON format. Exit code 0 "
            "acknowledges, 65 rejects (a dead letter), any other code releases.",
            "--exec",
        ),
    ] = "",
    most: Annotated[
        int, option("Fetch at most this many events per request.", "--max", min=1, max=1000)
    ] = 10,
    limit: Annotated[int, option("End after this many events; 0: never.", min=0)] = 0,
    follow: Annotated[
        bool,
        option(
            "Wait for more events; --no-follow ends when no event is waiting.",
            "--follow/--no-follow",
        ),
    ] = True,
    delay: Annotated[
        float,
        option(
            "Let a released event wait this many seconds before a consumer gets the event again.",
            min=0,
            max=3600,
        ),
    ] = 10.0,
    *,
    service: AdminClient,
) -> None:
    """Fetch events of a pull subscription.

    The sink of the subscription must be {pull: {}}. The command acknowledges each event after it
    was printed or processed. If the command ends before that, the event is handed out again.
    """
    import asyncio

    from app.cli.pull_consumer import PullConsumer, PullOptions, in_shell

    show = printing.json_line if service.as_json else _show
    handler = in_shell(command) if command else _printed(show)
    choices = PullOptions(most, limit, follow, delay)
    consumer = PullConsumer(service.server, service.token, subscription, handler, choices)
    counts = asyncio.run(_pull(consumer))
    if not service.as_json:
        summary = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        printing.err().print(summary or "no event waits", markup=False)


async def _pull(consumer: PullConsumer) -> Counter[str]:
    from app.runtime.signals import Signals

    with Signals() as signals:
        return await consumer.run(signals.asked)


def _printed(show: Callable[[dict[str, Any]], None]) -> Handler:
    """Return a handler that prints each event and acknowledges it."""

    async def handle(received: dict[str, Any]) -> int:
        show(received)
        return 0

    return handle


def _show(received: dict[str, Any]) -> None:
    """Print the attributes and data of the event on a few lines for a person."""
    from rich.markup import escape

    from app.cli.tail import show_data, summary

    count = received["broker_properties"]["delivery_count"]
    again = f" [yellow]delivery {escape(str(count))}[/]" if count > 1 else ""
    shown = received["record"] if received["event"] is None else received
    printing.out().print(f"{summary(shown)}{again}")
    show_data(shown)
