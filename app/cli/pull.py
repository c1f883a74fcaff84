"""``skybridge pull``: fetches events of a pull subscription, and acknowledges what was dealt with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import options, printing
from app.cli.admin_client import SERVER, Service
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from app.cli.pull_consumer import Consumer, Deal


@verb(
    "pull",
    "skybridge pull billing                      # print, acknowledge, continue",
    "skybridge pull billing --no-follow --json   # what waits now",
    "skybridge pull billing --exec './book.sh'   # the event on its standard input",
    json="Print one JSON object per event.",
)
def run(
    subscription: Annotated[
        str, typer.Argument(help="Id of a subscription with sink: {pull: {}}.")
    ],
    command: Annotated[
        str,
        option(
            "Run this shell command for each event instead of printing it. Its "
            "standard input is the event in the JSON format. Exit code 0 "
            "acknowledges, 65 rejects (a dead letter), any other code releases.",
            "--exec",
        ),
    ] = "",
    most: Annotated[int, option("Most events of one request.", "--max", min=1, max=1000)] = 10,
    limit: Annotated[int, option("End after this number; 0: never.", min=0)] = 0,
    follow: Annotated[
        bool, option("Wait for more events, or end when none waits.", "--follow/--no-follow")
    ] = True,
    delay: Annotated[
        float, option("Seconds before a released event is handed out again.", min=0, max=3600)
    ] = 10.0,
    *,
    service: Service,
) -> None:
    """Fetch events of a subscription with sink: {pull: {}}, and acknowledge each after it is printed or processed.

    An event that is not acknowledged, because this or the command ended, is handed out again."""
    import asyncio

    from app.cli.pull_consumer import Consumer, Wishes, in_shell

    options.demand_address("--server", service.server, SERVER)
    show = printing.json_line if service.as_json else _show
    deal = in_shell(command) if command else _printed(show)
    wishes = Wishes(most, limit, follow, delay)
    counts = asyncio.run(_pull(Consumer(service.server, service.token, subscription, deal, wishes)))
    if not service.as_json:
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        printing.err().print(told or "nothing waits", markup=False)


async def _pull(consumer: Consumer) -> Counter[str]:
    from app.runtime.signals import Signals

    with Signals() as signals:
        return await consumer.run(signals.asked)


def _printed(show: Callable[[dict[str, Any]], None]) -> Deal:
    async def deal(received: dict[str, Any]) -> int:
        show(received)
        return 0

    return deal


def _show(received: dict[str, Any]) -> None:
    """For a person: the event in a few words."""
    from rich.markup import escape

    from app.cli.tail import summary

    count = received["broker_properties"]["delivery_count"]
    again = f" [yellow]delivery {escape(str(count))}[/]" if count > 1 else ""
    shown = received["record"] if received["event"] is None else received
    printing.out().print(f"{summary(shown)}{again}")
