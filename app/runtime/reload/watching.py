"""Looks at the file every few seconds, by its content: a ConfigMap that is mounted as a folder changes by a
link that is put in another's place, and tells nobody."""

from __future__ import annotations

import asyncio

from app.config.load.finding import BadConfiguration
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


async def watch_files(reloader: Reloader, clock: Clock) -> None:
    """Looks at the files that the configuration names, as ``watch`` looks at the configuration: keys of
    producers, schemas of routes. A file that is replaced holds from then on; one that cannot be read or is
    wrong leaves the old one in force. For ever.

    The disk is held against the marks of what was read, not of a first look: a file may change while the
    service starts."""
    while True:
        await clock.sleep(reloader.every or IDLE)
        if reloader.every and await asyncio.to_thread(reloader.named_files) != reloader.files:
            await clock.sleep(SETTLED)
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
