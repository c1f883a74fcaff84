"""A consumer of a pull subscription: it receives events, passes each to a handler, and reports the
result.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from app.cli import admin_client, options, printing
from app.libraries.httpx_client import httpx

Handler = Callable[[dict[str, Any]], Awaitable[int]]
"""A function that processes one received event and returns an exit code. The code 0 acknowledges
the event, ``REJECT`` rejects it, and any other code releases it.
"""

REJECT = 65  # EX_DATAERR of sysexits.h: the input is wrong for good
WAIT = 30.0  # seconds that one request waits for events
PAUSE = 2.0  # seconds between requests to a service that is busy or away
BUSY = frozenset({429, 502, 503, 504})
_DONE = {"acknowledge": "acknowledged", "release": "released", "reject": "rejected"}
_AWAY = "Start the service, or name its admin listener with --server."


class PullOptions(NamedTuple):
    """The settings of one ``skybridge pull``.

    ``most`` is the largest number of events per request. ``limit`` is the number of events after
    which the consumer ends; 0 means no limit. If ``follow`` is set, the consumer waits for more
    events. ``delay`` is the time in seconds before a released event is handed out again.
    """

    most: int
    limit: int
    follow: bool
    delay: float


class PullConsumer:
    """A client that handles the events of a pull subscription one after another, in the order of
    their arrival.

    While it handles an event, it renews the locks of the received events that wait.
    """

    def __init__(
        self, server: str, token: str, subscription: str, handler: Handler, choices: PullOptions
    ) -> None:
        self._server = server
        self._path = admin_client.subscription_path(subscription)
        self._http = httpx.AsyncClient(
            base_url=server,
            headers=httpx.Headers(admin_client.authorization(token), encoding="utf-8"),
            timeout=httpx.Timeout(WAIT + 10, connect=10),
            trust_env=False,
            verify=options.needs_certificates(server),
        )
        self._handle = handler
        self._options = choices
        self._held: list[str] = []
        self._asked = asyncio.Event()
        self._counts: Counter[str] = Counter()

    async def run(self, asked: asyncio.Event) -> Counter[str]:
        """Consume events until ``asked`` is set or no event is left. Then release the events that
        are still locked.

        Returns:
            The number of events by result, such as ``acknowledged``.
        """
        self._asked = asked
        async with self._http:
            try:
                while not asked.is_set() and await self._page():
                    pass
            except (httpx.TransportError, httpx.InvalidURL) as fault:
                printing.fail_unreachable(self._server, fault, _AWAY)
            finally:
                await self._give_back()
        return self._counts

    async def _page(self) -> bool:
        """Receive and handle one page of events. Return True if there may be more."""
        left = self._options.limit - sum(self._counts.values())
        wanted = min(self._options.most, left) if self._options.limit else self._options.most
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
                    await self._settle(_token(each), await self._handle(each))
        finally:
            renewing.cancel()
        return bool(events) or self._options.follow

    async def _receive(self, wanted: int) -> dict[str, Any] | None:
        """Return one page of events. Return None if the request failed for now, so that the caller
        must ask again.
        """
        body = {"max_events": wanted, "max_wait": WAIT if self._options.follow else 0}
        request = asyncio.create_task(self._post("receive", body))
        asked = asyncio.create_task(self._asked.wait())
        await asyncio.wait((request, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not request.done():  # the service notices the closed connection and hands out no event
            request.cancel()
            await asyncio.wait((request,))
            return None
        answer = request.result()
        if answer.status_code in BUSY and self._options.follow:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE):
                    await self._asked.wait()
            return None
        found: dict[str, Any] = self._read(answer)
        return found

    async def _settle(self, token: str, code: int) -> None:
        verb = {0: "acknowledge", REJECT: "reject"}.get(code, "release")
        body: dict[str, Any] = {"tokens": [token]}
        if verb == "release":
            body["delay"] = self._options.delay
        fates = self._read(await self._post(verb, body))
        self._held.remove(token)
        self._counts[_DONE[verb] if fates["succeeded"] else "lost"] += 1
        for each in fates["failed"]:
            printing.print_error(f"The service could not {verb} an event: {each['detail']}")

    async def _renew(self, every: float) -> None:
        """Renew the locks every ``every`` seconds. A failed renewal is not reported here, because
        acknowledging the event will then fail.
        """
        while True:
            await asyncio.sleep(every)
            with contextlib.suppress(httpx.TransportError):
                await self._post("renew", {"tokens": self._held})

    async def _give_back(self) -> None:
        """Release the unhandled events at once, so that other consumers need not wait until the
        locks expire.
        """
        if self._held:
            with contextlib.suppress(httpx.TransportError):
                await self._post("release", {"tokens": self._held})

    async def _post(self, verb: str, body: dict[str, Any]) -> httpx.Response:
        content = msgspec.json.encode(body)
        json = {"content-type": "application/json"}
        return await self._http.post(f"{self._path}:{verb}", content=content, headers=json)

    def _read(self, answer: httpx.Response) -> Any:
        if not answer.is_success:
            admin_client.fail_with_answer(self._server, answer)
        return admin_client.read(self._server, answer)


def in_shell(command: str) -> Handler:
    """Return a handler that runs a shell command with the event, or the undecoded record, as its
    standard input.
    """

    async def handle(received: dict[str, Any]) -> int:
        event = received["event"] if received["event"] is not None else received["record"]
        process = await asyncio.create_subprocess_shell(command, stdin=asyncio.subprocess.PIPE)
        await process.communicate(msgspec.json.encode(event))
        return process.returncode or 0

    return handle


def _token(received: dict[str, Any]) -> str:
    return str(received["broker_properties"]["lock_token"])
