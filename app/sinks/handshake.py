"""Asks a webhook for its consent, and remembers what it said (spec 5.3)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from app.bindings.http import HttpMessage
from app.delivery.handshake import ORIGIN, Consent, Refusal, consent, granted, questions
from app.delivery.rate import RateLimit
from app.interfaces import SinkAnswer
from app.sinks.callbacks import Callbacks
from app.sinks.credentials import Credentials, NoToken, StaticHeaders
from app.sinks.http_client import HttpClient
from app.telemetry.tasks import ended

RENEW = 86_400.0  # seconds after which a consent is asked for again; it counts meanwhile
ASK_AGAIN = 3_600.0  # seconds until a webhook that goes without is asked again
REQUIRED_AGAIN = (60.0, 3_600.0)  # likewise one that must consent: doubled from one to the other

_log = logging.getLogger(__name__)


class Handshake:
    """Of one subscription. Where it is ``due``, ``settle`` and ask for a ``refusal`` before an attempt;
    ``take`` as it begins. ``headers`` go onto it.

    ``rate``      deliveries a minute to ask for; None for as many as we like.
    ``required``  nothing is sent without consent.
    ``within``    seconds for the answer.
    ``name``      of the subscription.
    """

    def __init__(
        self,
        url: str,
        client: HttpClient,
        *,
        origin: str,
        rate: int | None = None,
        required: bool = False,
        within: float = 10.0,
        credentials: Credentials | None = None,
        headers: StaticHeaders | None = None,
        callbacks: Callbacks | None = None,
        name: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._client = client
        self._origin = origin
        self._rate = rate
        self._within = within
        self._credentials = credentials
        self._static = headers
        self._callbacks = callbacks
        self._name = name
        self._monotonic = monotonic
        self._callback = ""
        self._called = False  # consent came by the callback of the last question
        self._ready: Callable[[], None] = lambda: None
        self._asking: asyncio.Task[None] | None = None
        self._due = 0.0  # when to ask next
        self._refusals = 0
        self._limit: RateLimit | None = None
        self._consent: Consent | None = None
        self.required = required
        self.why = "not asked yet"
        self.headers: tuple[tuple[str, str], ...] = ((ORIGIN, origin),) if required else ()

    @property
    def granted(self) -> bool:
        return self._consent is not None

    @property
    def due(self) -> bool:
        """Whether there is something to ask now, or nothing may be sent."""
        barred = self.required and self._consent is None
        return barred or self._monotonic() >= self._due

    async def settle(self) -> None:
        """Ask if it is time to; all who want to know meanwhile wait for the same answer. Nobody waits
        for the renewal of a consent."""
        if self._monotonic() < self._due:
            return
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name=f"handshake {self._origin}")
            self._asking.add_done_callback(self._asked)
        if not self.granted:
            await asyncio.shield(self._asking)

    def when_ready(self, ready: Callable[[], None]) -> None:
        """``ready`` is to be called when consent has come by the callback."""
        self._ready = ready

    def wait(self) -> float:
        """Seconds until the rate that was allowed lets another attempt begin."""
        return 0.0 if self._limit is None else self._limit.wait(self._monotonic())

    def take(self) -> None:
        """An attempt begins."""
        if self._limit is not None:
            self._limit.take(self._monotonic())

    def refusal(self) -> SinkAnswer | None:
        """The answer to an attempt that may not be made now, None when it may."""
        if self.required and not self.granted:
            seconds = max(1.0, self._due - self._monotonic())
            return SinkAnswer(None, "no-consent", self.why, hold=seconds)
        seconds = self.wait()
        if seconds:  # a send that waited for the same answer goes first
            return SinkAnswer(None, "paced", "the rate that the webhook allows", hold=seconds)
        return None

    async def stop(self) -> None:
        await ended(self._asking)
        self._ready = lambda: None  # the sender has gone
        await self._close_callback()

    async def _ask(self) -> None:
        if await self._close_callback():
            return  # what it said there in the meantime counts
        answer, headers = await self._answer()
        if answer.status is not None:
            found = consent(answer.status, headers, self._origin, self._rate)
            if isinstance(found, Consent) or not self._called:  # it may call before it answers
                self._conclude(found)
            if isinstance(found, Consent):
                await self._close_callback()
        elif self.granted:
            self._due = self._monotonic() + ASK_AGAIN  # unheard is not refused
        else:
            self._refuse(f"{answer.fault} {answer.detail}")

    async def _answer(self) -> tuple[SinkAnswer, Mapping[str, str]]:
        await self._open_callback()
        headers = questions(self._origin, self._rate, self._callback)
        url = self._url
        if self._static is not None:
            headers += self._static.show().headers
        if self._credentials is not None:
            try:
                shown = await self._credentials.show()
            except NoToken as error:
                return SinkAnswer(None, "token", str(error)), {}
            headers, url = headers + shown.headers, shown.url(url)
        return await self._client.ask(url, HttpMessage.of(headers, b""), self._within)

    def _conclude(self, found: Consent | Refusal) -> None:
        if isinstance(found, Consent):
            self._take_consent(found)
        else:
            self._refuse(found.why)

    def _take_consent(self, granted: Consent) -> None:
        if self._consent != granted:
            self._limit = None if granted.rate is None else RateLimit(granted.rate)
        self._consent, self._refusals, self.why = granted, 0, ""
        self._due = self._monotonic() + RENEW
        self.headers = ((ORIGIN, self._origin),)  # W2

    def _refuse(self, said: str) -> None:
        self.why = f"the webhook did not consent to {self._origin}: {said.strip()}"
        self._consent, self._limit = None, None
        self._refusals += 1
        if self.required:
            first, longest = REQUIRED_AGAIN
            pause = min(longest, first * 2.0 ** min(self._refusals - 1, 16))
            _log.warning("%s; nothing is sent without", self.why)
        else:
            pause, self.headers = ASK_AGAIN, ()
        self._due = self._monotonic() + pause

    def _called_back(self, rate: str | None) -> None:
        """Consent that came later, by the callback; without a rate the one asked for applies."""
        self._callback = ""
        self._conclude(granted(rate, self._rate))
        self._called = self.granted
        if self._called:
            self._ready()

    async def _open_callback(self) -> None:
        self._called = False
        if self._callbacks is not None:
            self._callback = await self._callbacks.open(self._name, self._called_back)

    async def _close_callback(self) -> bool:
        """Whether it was called in the meantime."""
        open_one, self._callback = self._callback, ""
        if self._callbacks is None or not open_one:
            return False
        return await self._callbacks.close(open_one)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the handshake failed unexpectedly", exc_info=error)
            self._due = self._monotonic() + REQUIRED_AGAIN[0]
