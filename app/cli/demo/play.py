"""Run the demo: start the service and the endpoints, send the events, show each event, and print
the final account.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from app.bindings.record import ContentMode, Decoded
from app.cli.client import EventsClient, Mode, SendResult
from app.cli.demo.ledger import Account, DemoLedger, EventTrace
from app.cli.demo.stage import INTAKE, NAMES, Child, Endpoints, configuration, service
from app.cli.feed import Feed
from app.cli.receiver import Receiver
from app.gateway.server import HttpServer
from app.libraries.httpx_client import httpx

FINISH_WITHIN = 60.0  # seconds after the last event was accepted
POLL = 0.2  # seconds between requests for the dead letters
BATCH = 25  # events

Show = Callable[[EventTrace], None]
Progress = Callable[[DemoLedger, dict[str, int]], None]
Close = Callable[[Account, Child], Awaitable[None]]


async def play(
    feed: Feed,
    folder: Path,
    environ: Mapping[str, str],
    show: Show,
    progress: Progress,
    *,
    begun: Callable[[Child], None] = lambda _: None,
    close: Close | None = None,
) -> Account:
    """Run the demo in ``folder`` and return the final account.

    Args:
        feed: The events to send.
        folder: The folder of the configuration, the store and the log.
        environ: The environment of the service.
        show: Called once per finished event.
        progress: Called several times per second.
        begun: Called when the service accepts connections.
        close: Awaited with the account while the service still runs.

    Raises:
        SetupError: If the service cannot be run.
    """
    ledger = DemoLedger(feed.events, NAMES)
    webhook = HttpServer(Receiver(Endpoints(ledger).answer))
    await webhook.start()
    try:
        file = folder / "demo.yaml"
        file.write_text(configuration(folder, webhook.url, NAMES))
        async with service(file, folder / "serve.log", environ) as child:
            begun(child)
            account = await _run(ledger, feed, child, show, progress)
            if close is not None:
                await close(account, child)
            return account
    finally:
        await webhook.stop(drain=1.0)


async def _run(
    ledger: DemoLedger, feed: Feed, child: Child, show: Show, progress: Progress
) -> Account:
    """Send all events and watch their delivery. Return the account when every event is finished, or
    after FINISH_WITHIN seconds.
    """
    sending = asyncio.create_task(_send(ledger, feed, child.events))
    shown: set[str] = set()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + FINISH_WITHIN
    async with httpx.AsyncClient(
        base_url=child.admin,
        trust_env=False,
        timeout=60,  # the first request builds the admin application
    ) as admin:
        while True:
            await asyncio.sleep(POLL)
            if not sending.done():
                deadline = loop.time() + FINISH_WITHIN
            dead = await _dead_letters(admin)
            counts = {name: len(ids) for name, ids in dead.items()}
            for trace in ledger.traces.values():
                if trace.event.id not in shown and (
                    trace.refusal or ledger.is_finished(trace, dead)
                ):
                    shown.add(trace.event.id)
                    show(trace)
            progress(ledger, counts)
            if sending.done() and (len(shown) == len(ledger.traces) or loop.time() > deadline):
                sending.result()
                return ledger.account(counts)


async def _send(ledger: DemoLedger, feed: Feed, url: str) -> None:
    """Send one request after another, so that the order per key is defined.

    If the feed has signed webhook requests, send these. Otherwise send a third of the events in
    each content mode.
    """
    if feed.webhooks:
        await _send_webhooks(ledger, feed, url)
        return
    client = EventsClient(url)
    try:
        for mode, events in _requests(feed):
            for result in await client.send(events, mode):
                _note(ledger, result)
    finally:
        await client.close()


async def _send_webhooks(ledger: DemoLedger, feed: Feed, url: str) -> None:
    client = EventsClient(f"{url.removesuffix('/events')}/in/{INTAKE}")
    try:
        for event, message in zip(feed.events, feed.webhooks, strict=True):
            _note(ledger, await client.send_as(Decoded(event, ContentMode.BINARY), message))
    finally:
        await client.close()


def _note(ledger: DemoLedger, result: SendResult) -> None:
    """Record the result of sending an event in the ledger."""
    if result.accepted:
        ledger.accepted(result.event.event.id, result.receipts[0])
    else:
        why = str((result.problem or {}).get("detail", ""))
        ledger.refused(result.event.event.id, f"{result.status} {why}")


def _requests(feed: Feed) -> Iterator[tuple[Mode, Sequence[Decoded]]]:
    events = [Decoded(event, ContentMode.BINARY) for event in feed.events]
    third = len(events) // 3
    for event in events[:third]:
        yield "binary", (event,)
    for event in events[third : 2 * third]:
        yield "structured", (event,)
    for first in range(2 * third, len(events), BATCH):
        yield "batch", events[first : first + BATCH]


async def _dead_letters(admin: httpx.AsyncClient) -> dict[str, set[str]]:
    """Return the event ids of the dead letters in the service's store, by subscription."""
    found: dict[str, set[str]] = {}
    path = "/v1/dead-letters?limit=1000"
    while path:
        answer = await admin.get(path)
        answer.raise_for_status()
        page = answer.json()
        for letter in page["dead_letters"]:
            event = letter["message"].get("event") or {}
            found.setdefault(letter["subscription"], set()).add(event.get("id", ""))
        path = page["next"]
    return found
