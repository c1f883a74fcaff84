"""The demo itself: everything set up, the feed sent, every event's way shown, the account closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from app.bindings.record import ContentMode, Decoded
from app.cli.client import EventsClient, Fate, Mode
from app.cli.feed import Feed
from app.cli.receiver import Receiver
from app.cli.rehearsal.ledger import Account, Ledger, Way
from app.cli.rehearsal.stage import INTAKE, NAMES, Child, Endpoints, configuration, service
from app.gateway.server import HttpServer
from app.libraries.httpx_client import httpx

FINISH_WITHIN = 60.0  # seconds after the last event was accepted
LOOK_EVERY = 0.2
BATCH = 25  # events

Show = Callable[[Way], None]
Progress = Callable[[Ledger, dict[str, int]], None]
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
    """The closing account. ``begun`` is told where the service listens. ``close`` is given the account while the
    service still runs; the service ends when it returns. Raises SetupError when the service cannot be run."""
    ledger = Ledger(feed.events, NAMES)
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


async def _run(ledger: Ledger, feed: Feed, child: Child, show: Show, progress: Progress) -> Account:
    """Sends while it watches; ends when every event is finished, or time is up."""
    sending = asyncio.create_task(_send(ledger, feed, child.events))
    shown: set[str] = set()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + FINISH_WITHIN
    async with httpx.AsyncClient(
        base_url=child.admin,
        trust_env=False,
        timeout=60,  # the first answer comes once the admin application is made
    ) as admin:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if not sending.done():
                deadline = loop.time() + FINISH_WITHIN
            dead = await _dead_letters(admin)
            counts = {name: len(ids) for name, ids in dead.items()}
            for way in ledger.ways.values():
                if way.event.id not in shown and (way.refusal or ledger.is_finished(way, dead)):
                    shown.add(way.event.id)
                    show(way)
            progress(ledger, counts)
            if sending.done() and (len(shown) == len(ledger.ways) or loop.time() > deadline):
                sending.result()
                return ledger.account(counts)


async def _send(ledger: Ledger, feed: Feed, url: str) -> None:
    """One request after another, so that order per key is defined: as their publisher sends them, or a third
    in each content mode."""
    if feed.webhooks:
        await _send_webhooks(ledger, feed, url)
        return
    client = EventsClient(url)
    try:
        for mode, events in _requests(feed):
            for fate in await client.send(events, mode):
                _note(ledger, fate)
    finally:
        await client.close()


async def _send_webhooks(ledger: Ledger, feed: Feed, url: str) -> None:
    client = EventsClient(f"{url.removesuffix('/events')}/in/{INTAKE}")
    try:
        for event, message in zip(feed.events, feed.webhooks, strict=True):
            _note(ledger, await client.send_as(Decoded(event, ContentMode.BINARY), message))
    finally:
        await client.close()


def _note(ledger: Ledger, fate: Fate) -> None:
    if fate.accepted:
        ledger.accepted(fate.event.event.id, fate.receipts[0])
    else:
        why = str((fate.problem or {}).get("detail", ""))
        ledger.refused(fate.event.event.id, f"{fate.status} {why}")


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
    """Event ids by subscription, as the service has them stored."""
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
