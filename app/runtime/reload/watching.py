"""Looks at the file every few seconds, by its content: a ConfigMap that is mounted as a folder changes by a
link that is put in another's place, and tells nobody."""

from __future__ import annotations

import asyncio

from app.config.finding import BadConfiguration
from app.interfaces import Clock
from app.runtime.reload.reloader import Reloader, digest_of_bytes

SETTLED = 0.5  # seconds that a file must stay the same: an editor may be half through it
IDLE = 1.0  # seconds between looks at whether to look


async def watch(reloader: Reloader, clock: Clock) -> None:
    """For ever."""
    while True:
        await clock.sleep(reloader.every or IDLE)
        if reloader.every and await _changed(reloader, clock):
            await reloader.reload("file")


async def watch_credentials(reloader: Reloader, clock: Clock) -> None:
    """Looks at the files of producers' keys, as ``watch`` looks at the configuration. A key that is replaced
    holds from then on; what cannot be read or is no key leaves the old one in force. For ever."""
    seen = await asyncio.to_thread(reloader.credential_files)
    while True:
        await clock.sleep(reloader.every or IDLE)
        if not reloader.every:
            continue
        found = await asyncio.to_thread(reloader.credential_files)
        if found != seen:
            await clock.sleep(SETTLED)
            seen = await asyncio.to_thread(reloader.credential_files)
            await reloader.reload("file")


async def _changed(reloader: Reloader, clock: Clock) -> bool:
    found = await asyncio.to_thread(_digest, reloader)
    if found in {None, reloader.seen}:
        return False
    await clock.sleep(SETTLED)
    return await asyncio.to_thread(_digest, reloader) == found


def _digest(reloader: Reloader) -> str | None:
    """None for a file that cannot be read: it is being replaced."""
    try:
        return digest_of_bytes(reloader.read())
    except BadConfiguration:
        return None


async def hear(asked: asyncio.Event, reloader: Reloader) -> None:
    """A reload for each signal, for ever; signals that come meanwhile are one."""
    while True:
        await asked.wait()
        asked.clear()
        await reloader.reload("signal")
