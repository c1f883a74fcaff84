"""Shell. ``skybridge demo`` runs the whole product on this machine, with nothing else installed.

stage    the configuration, the service as a child process, three endpoints that misbehave
ledger   pure: what was sent, accepted and delivered, and whether the account holds
lines    the output: one line per event, the account as a table
play     sends the feed and watches its delivery
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, options, printing
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from app.cli.demo.ledger import Account
    from app.cli.demo.stage import Child
    from app.cli.feed import Feed

    After = Callable[[Child], Awaitable[None]]

GENERATED = 329  # events, if the examples of GitHub cannot be fetched


@verb(
    "demo",
    "skybridge demo",
    "skybridge demo --generated --count 2000    # generated events",
    "skybridge demo --stay                      # then look around in the console",
    "skybridge demo --keep /tmp/demo            # look at the configuration and the log afterwards",
    "skybridge demo --json | tail -1 | jq .",
)
def run(
    generated: Annotated[
        bool,
        option(
            "Use generated events instead of the example events of GitHub, which npm can fetch."
        ),
    ] = False,
    count: Annotated[
        int,
        option("Generate this many events, if the example events of GitHub are not used.", min=1),
    ] = GENERATED,
    keep: Annotated[
        Path | None, option("Work in this folder and keep it; by default a temporary folder.")
    ] = None,
    stay: Annotated[
        bool,
        option("Keep the service and its console running until Ctrl+C or SIGTERM."),
    ] = False,
    as_json: Annotated[
        bool, option("Print one JSON object per event, then one object with the totals.", "--json")
    ] = False,
) -> None:
    """Run a demonstration on this machine.

    The service runs as a separate process with an embedded log. It receives real events and
    delivers them to three webhooks. The first webhook refuses one type of event, so dead letters
    arise. The second fails at first, so the service retries. The third asks for pauses with 429 and
    Retry-After. Exits with 0 only if accepted = delivered + dead-lettered for each webhook, no byte
    was changed and the order per key was kept.
    """
    import os
    import tempfile

    feed = _feed(os.environ, generated=generated, count=count)
    printing.err().print(f"[bold]feed[/]     {feed.origin}")
    after = _stay if stay else _end_now
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="skybridge-demo-") as folder:
            account = _play(feed, Path(folder), after, as_json=as_json)
    else:
        keep.mkdir(parents=True, exist_ok=True)
        account = _play(feed, keep.absolute(), after, as_json=as_json)
    if not account.holds:
        raise typer.Exit(exits.FAILED)


def _feed(environ: Mapping[str, str], *, generated: bool, count: int) -> Feed:
    from app.cli import feed

    received = options.now("seconds")
    if generated:
        return feed.generated_feed(count, received)
    return feed.load_feed(environ, received, count)


def _play(feed: Feed, folder: Path, after: After, *, as_json: bool) -> Account:
    """Run the demonstration and print a line for each event. On a terminal, a further line at the
    bottom shows the progress.
    """
    import asyncio
    import os

    from rich.live import Live

    from app.cli.demo import lines
    from app.cli.demo.ledger import DemoLedger, EventTrace
    from app.cli.demo.play import play
    from app.cli.demo.stage import NAMES

    console = printing.out()
    live = Live(console=console, auto_refresh=False, transient=True)

    def show(trace: EventTrace) -> None:
        if as_json:
            printing.json_line(lines.trace_json(trace))
        else:
            console.print(lines.trace_line(trace, NAMES))

    def progress(ledger: DemoLedger, dead_letters: dict[str, int]) -> None:
        if console.is_terminal and not as_json:
            live.update(lines.progress(ledger, dead_letters), refresh=True)

    def begun(child: Child) -> None:
        printing.err().print(f"[bold]console[/]  {child.console}")

    async def close(account: Account, child: Child) -> None:
        live.stop()
        _close(account, feed, as_json=as_json)
        await after(child)

    printing.err().print(f"[bold]service[/]  a process of its own, on an embedded log in {folder}")
    if console.is_terminal and not as_json:
        live.start()
    try:
        playing = play(feed, folder, os.environ, show, progress, begun=begun, close=close)
        return asyncio.run(playing)
    finally:
        live.stop()


async def _end_now(_: Child) -> None:
    """Print by which option the service keeps running, and return, so that the demo ends."""
    printing.err().print(
        "The service ends now. With --stay (make demo ARGS=--stay) it keeps running, with its console."
    )


async def _stay(child: Child) -> None:
    import asyncio
    import signal

    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, asked.set)
    printing.err().print(
        "\n[bold]The service keeps running[/] until Ctrl+C."
        f"\n[bold]console[/]  {child.console}\n[bold]events[/]   {child.events}"
    )
    await asked.wait()


def _close(account: Account, feed: Feed, *, as_json: bool) -> None:
    """Print the final account, and whether every accepted event was delivered or dead-lettered."""
    from app.cli.demo import lines

    if as_json:
        printing.json_line(lines.account_json(account, feed.origin))
    else:
        console = printing.out()
        console.print()
        console.print(lines.account_table(account))
        console.print(f"sent {account.sent} · accepted {account.accepted} · {feed.origin}")
        verdict = (
            "[bold green]The account holds:[/] accepted = delivered + dead-lettered, "
            "no byte changed, order kept per key."
            if account.holds
            else "[bold red]The account does not hold.[/]"
        )
        console.print(verdict)
