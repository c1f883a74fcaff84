"""Watch the configuration file and the files that it names, and reload when their content changes.

Content is compared, because a ConfigMap that is mounted as a folder changes by replacing a link.
"""

from __future__ import annotations

import asyncio

from app.config.load.finding import BadConfiguration
from app.interfaces import Clock
from app.runtime.reload.reloader import Reloader, digest_of_bytes

SETTLED = 0.5  # seconds that a file must not change, as an editor may still be writing it
IDLE = 1.0  # seconds between checks whether watching was turned on


async def watch(reloader: Reloader, clock: Clock) -> None:
    """Reload when the content of the configuration file changes. This never returns."""
    while True:
        await clock.sleep(reloader.every or IDLE)
        if reloader.every and await _changed(reloader, clock):
            await reloader.reload("file")


async def watch_files(reloader: Reloader, clock: Clock) -> None:
    """Reload when a file that the configuration names changes, such as a producer's key or a route's schema.
    This never returns.

    If a file cannot be read or is invalid, its old content stays in use. The files are compared with what the
    service read at its start, because a file may change during the start.
    """
    while True:
        await clock.sleep(reloader.every or IDLE)
        if reloader.every and await asyncio.to_thread(reloader.named_files) != reloader.files:
            await clock.sleep(SETTLED)
            await reloader.reload("file")


async def _changed(reloader: Reloader, clock: Clock) -> bool:
    """Return True if the content of the file has changed and stayed the same for half a second."""
    found = await asyncio.to_thread(_digest, reloader)
    if found in {None, reloader.seen}:
        return False
    await clock.sleep(SETTLED)
    return await asyncio.to_thread(_digest, reloader) == found


def _digest(reloader: Reloader) -> str | None:
    """Return the digest of the file, or None if it cannot be read because it is being replaced."""
    try:
        return digest_of_bytes(reloader.read())
    except BadConfiguration:
        return None


async def reload_on_signal(asked: asyncio.Event, reloader: Reloader) -> None:
    """Reload for each signal. Signals that arrive during a reload count as one. This never returns."""
    while True:
        await asked.wait()
        asked.clear()
        await reloader.reload("signal")
