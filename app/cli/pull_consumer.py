"""A consumer of a pull subscription: receives, has each event dealt with, and says what became of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from app.cli import admin_client, options, printing
from app.libraries.httpx_client import httpx

Deal = Callable[[dict[str, Any]], Awaitable[int]]
"""What is done with what was received; its exit code: 0, ``REJECT``, or any other for not now."""

REJECT = 65  # EX_DATAERR of sysexits.h: the input was wrong, and will be
WAIT = 30.0  # seconds that one request waits for events
PAUSE = 2.0  # seconds before a service that does not answer now is asked again
BUSY = frozenset({429, 502, 503, 504})
_DONE = {"acknowledge": "acknowledged", "release": "released", "reject": "rejected"}
_AWAY = "Start the service, or name its admin listener with --server."
_CURES = {404: "`skybridge subscriptions list` lists all subscriptions.", 409: ""}


class Wishes(NamedTuple):
    """``most`` events of a request; ``limit`` in all, 0 for no end; ``delay``: seconds of what is
    released."""

    most: int
    limit: int
    follow: bool
    delay: float


class Consumer:
    """One event after the other, in the order they came; the locks of those that wait their turn are
    renewed meanwhile."""

    def __init__(
        self, server: str, token: str, subscription: str, deal: Deal, wishes: Wishes
    ) -> None:
        self._server = server
        self._path = admin_client.subscription_path(subscription)
        self._http = httpx.AsyncClient(
            base_url=server,
            headers=httpx.Headers(admin_client.authorization(token), encoding="utf-8"),
            timeout=httpx.Timeout(WAIT + 10, connect=10),
            trust_env=False,
            verify=options.has_certificate(server),
        )
        self._deal = deal
        self._wishes = wishes
        self._held: list[str] = []
        self._asked = asyncio.Event()
        self._counts: Counter[str] = Counter()

    async def run(self, asked: asyncio.Event) -> Counter[str]:
        """What became of how many, until ``asked`` to end, or nothing is left to do. What is still held
        then is released."""
        self._asked = asked
        async with self._http:
            try:
                while not asked.is_set() and await self._page():
                    pass
            except (httpx.TransportError, httpx.InvalidURL) as fault:
                printing.nobody(self._server, fault, _AWAY)
            finally:
                await self._give_back()
        return self._counts

    async def _page(self) -> bool:
        """Whether there may be more to do."""
        left = self._wishes.limit - sum(self._counts.values())
        wanted = min(self._wishes.most, left) if self._wishes.limit else self._wishes.most
        if wanted <= 0:
            return False
        answer = await self._receive(wanted)
        if answer is None:
            return True
        events = answer["events"]
        self._held = [_token(each) for each in events]
        renewing = asyncio.create_task(self._renew(answer["lock"] / 2))
        try:
            for each in events:
                if not self._asked.is_set():
                    await self._settle(_token(each), await self._deal(each))
        finally:
            renewing.cancel()
        return bool(events) or self._wishes.follow

    async def _receive(self, wanted: int) -> dict[str, Any] | None:
        """None where it is to be asked again."""
        body = {"max_events": wanted, "max_wait": WAIT if self._wishes.follow else 0}
        request = asyncio.create_task(self._post("receive", body))
        asked = asyncio.create_task(self._asked.wait())
        await asyncio.wait((request, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not request.done():  # the service notices that we hang up, and hands out nothing
            request.cancel()
            await asyncio.wait((request,))
            return None
        answer = request.result()
        if answer.status_code in BUSY and self._wishes.follow:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), PAUSE)
            return None
        found: dict[str, Any] = self._read(answer)
        return found

    async def _settle(self, token: str, code: int) -> None:
        verb = {0: "acknowledge", REJECT: "reject"}.get(code, "release")
        body: dict[str, Any] = {"tokens": [token]}
        if verb == "release":
            body["delay"] = self._wishes.delay
        fates = self._read(await self._post(verb, body))
        self._held.remove(token)
        self._counts[_DONE[verb] if fates["succeeded"] else "lost"] += 1
        for each in fates["failed"]:
            printing.print_error(f"{verb} failed: {each['detail']}")

    async def _renew(self, every: float) -> None:
        """A failure is no matter here: what becomes of the event says it."""
        while True:
            await asyncio.sleep(every)
            with contextlib.suppress(httpx.TransportError):
                await self._post("renew", {"tokens": self._held})

    async def _give_back(self) -> None:
        """What nobody dealt with, at once: others need not wait for its lock to run out."""
        if self._held:
            with contextlib.suppress(httpx.TransportError):
                await self._post("release", {"tokens": self._held})

    async def _post(self, verb: str, body: dict[str, Any]) -> httpx.Response:
        content = msgspec.json.encode(body)
        json = {"content-type": "application/json"}
        return await self._http.post(f"{self._path}:{verb}", content=content, headers=json)

    def _read(self, answer: httpx.Response) -> Any:
        if not answer.is_success:
            admin_client.refused(self._server, answer, _CURES)
        return admin_client.read(self._server, answer)


def in_shell(command: str) -> Deal:
    """The event, or where there is none the record, is the command's standard input."""

    async def deal(received: dict[str, Any]) -> int:
        event = received["event"] if received["event"] is not None else received["record"]
        process = await asyncio.create_subprocess_shell(command, stdin=asyncio.subprocess.PIPE)
        await process.communicate(msgspec.json.encode(event))
        return process.returncode or 0

    return deal


def _token(received: dict[str, Any]) -> str:
    return str(received["broker_properties"]["lock_token"])
