"""Asks a webhook for its consent, and remembers what it said (spec 5.3). It may also consent later, at an address
that it is told (``WebHook-Request-Callback``)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping

from app.bindings.http import HttpMessage
from app.delivery.handshake import ORIGIN, Consent, ConsentRefusal, consent, granted, questions
from app.delivery.rate import RateLimit
from app.errors import StoreUnavailable
from app.interfaces import Consents, SinkAnswer
from app.sinks.credentials import Credentials, NoToken, StaticHeaders
from app.sinks.http_client import HttpClient
from app.telemetry.tasks import ended

RENEW = 86_400.0  # seconds after which a consent is asked for again; it counts meanwhile
ASK_AGAIN = 3_600.0  # seconds until a webhook that goes without is asked again
REQUIRED_AGAIN = (60.0, 3_600.0)  # likewise one that must consent: doubled from one to the other
UNHEARD_AGAIN = (1.0, 60.0)  # likewise one that must consent and did not answer

PATH = "/handshake/"
LASTING = 86_400.0  # seconds
_KEY = 32  # bytes

Granted = Callable[[str | None], None]
"""Called with the raw ``WebHook-Allowed-Rate``, None without one."""

_log = logging.getLogger(__name__)


class Callbacks:
    """An address holds a key that nobody can guess, serves one question, and ends. The store keeps a digest of it,
    so that any gateway can be called; the process that asked looks there for what was said.

    ``base``: URL of the events listener as webhooks reach it. ``now``: seconds since the epoch."""

    def __init__(self, base: str, consents: Consents, now: Callable[[], float]) -> None:
        self._base = base.rstrip("/")
        self._consents = consents
        self._now = now
        self._open: dict[bytes, Granted] = {}  # what this process asked
        self._taking = asyncio.Lock()  # what one takes is told before another misses it

    async def open(self, subscription: str, granted: Granted) -> str:
        """The URL to be called. It ends after a day, when it was called, or when it is closed. "" while
        the store does not answer."""
        key = secrets.token_urlsafe(_KEY)
        digest, now = _digest(key), self._now()
        until_ms = int((now + LASTING) * 1000)
        try:
            await self._consents.open(
                digest, subscription, until_ms=until_ms, now_ms=int(now * 1000)
            )
        except StoreUnavailable as error:
            _log.warning("%s is asked without a callback: %s", subscription, error)
            return ""
        self._open[digest] = granted
        return f"{self._base}{PATH}{key}"

    async def close(self, url: str) -> bool:
        """Whether it was called before; then ``granted`` knows. One that the store cannot close now ends
        after its day."""
        digest = _digest(url.rpartition("/")[2])
        async with self._taking:
            if digest in self._open:
                with contextlib.suppress(StoreUnavailable):
                    self._tell(await self._consents.close(digest))
            return self._open.pop(digest, None) is None

    async def call(self, key: str, rate: str | None) -> bool | None:
        """Somebody called. False: there is no such address, or it has ended. None: the store, which
        would know, does not answer."""
        digest = _digest(key)
        try:
            known = await self._consents.call(digest, rate, int(self._now() * 1000))
        except StoreUnavailable:
            return None
        if digest in self._open:
            with contextlib.suppress(StoreUnavailable):  # it is kept, and found by a later look
                await self.look()
        return known

    async def look(self) -> None:
        """Tell those who asked here what was said at any gateway. StoreUnavailable."""
        async with self._taking:
            if self._open:
                self._tell(await self._consents.take(self._open))

    def _tell(self, called: Mapping[bytes, str | None]) -> None:
        for digest, rate in called.items():
            self._open.pop(digest)(rate)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


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
        self._again = REQUIRED_AGAIN
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
            self._refuse(f"{answer.fault} {answer.detail}", UNHEARD_AGAIN)

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

    def _conclude(self, found: Consent | ConsentRefusal) -> None:
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

    def _refuse(self, said: str, again: tuple[float, float] = REQUIRED_AGAIN) -> None:
        self.why = f"the webhook did not consent to {self._origin}: {said.strip()}"
        self._consent, self._limit = None, None
        if again != self._again:
            self._again, self._refusals = again, 0
        self._refusals += 1
        if self.required:
            first, longest = again
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
