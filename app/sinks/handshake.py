"""Ask a webhook for its consent; it answers at once, or later by a callback (webhook specification
4).
"""

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
from app.telemetry.tasks import stop_task

RENEW_AFTER = 86_400.0  # seconds after which a consent is renewed; it stays valid meanwhile
OPTIONAL_RETRY = 3_600.0  # seconds until a webhook that need not consent is asked again
REQUIRED_RETRY = (60.0, 3_600.0)  # first and longest wait for one that must consent; it doubles
UNANSWERED_RETRY = (1.0, 60.0)  # the same waits where a webhook did not answer at all

PATH = "/handshake/"
CALLBACK_VALID = 86_400.0  # seconds that a callback URL stays valid
_KEY = 32  # bytes

ConsentCallback = Callable[[str | None], None]
"""A function that gets the raw ``WebHook-Allowed-Rate``, or None if the webhook sent none."""

_log = logging.getLogger(__name__)


class ConsentCallbacks:
    """The callback URLs by which webhooks consent later.

    A URL contains an unguessable key and serves one request for consent. The store holds a digest
    of the key, so any gateway can take the call. The process that asked polls the store for the
    answer.

    ``base`` is the URL of the events listener for webhooks. ``now`` returns seconds since the
    epoch.
    """

    def __init__(self, base: str, consents: Consents, now: Callable[[], float]) -> None:
        self._base = base.rstrip("/")
        self._consents = consents
        self._now = now
        self._open: dict[bytes, ConsentCallback] = {}  # by digest: the questions of this process
        self._taking = asyncio.Lock()  # an answer is taken and reported as one step

    async def open(self, subscription: str, granted: ConsentCallback) -> str:
        """Create a callback URL that calls ``granted`` once. Return "" if the store does not
        answer.

        The URL ends after one day, when it was called, or when it is closed.
        """
        key = secrets.token_urlsafe(_KEY)
        digest, now = _digest(key), self._now()
        until_ms = int((now + CALLBACK_VALID) * 1000)
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
        """Close a callback URL, or let it expire after its day. If the webhook had called the URL,
        ``granted`` has been called, and True is returned."""
        digest = _digest(url.rpartition("/")[2])
        async with self._taking:
            if digest in self._open:
                with contextlib.suppress(StoreUnavailable):
                    self._report(await self._consents.close(digest))
            return self._open.pop(digest, None) is None

    async def call(self, key: str, rate: str | None) -> bool | None:
        """Record that a webhook called a callback URL. Return True if the URL was open, False if it
        is unknown or closed, None if the store does not answer.
        """
        digest = _digest(key)
        try:
            known = await self._consents.call(digest, rate, int(self._now() * 1000))
        except StoreUnavailable:
            return None
        if digest in self._open:
            with contextlib.suppress(
                StoreUnavailable
            ):  # the store has the call; a later look finds it
                await self.look()
        return known

    async def look(self) -> None:
        """Read from the store which callback URLs webhooks called at any gateway, and call the
        functions of this process that wait for them. Raise StoreUnavailable.
        """
        async with self._taking:
            if self._open:
                self._report(await self._consents.take(self._open))

    def _report(self, called: Mapping[bytes, str | None]) -> None:
        for digest, rate in called.items():
            self._open.pop(digest)(rate)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


class Handshake:
    """The consent of the webhook of one subscription, and the rate that the webhook allows.

    Before an attempt, the sink checks ``due``. If it is True, the sink awaits ``settle`` and obeys
    ``refusal``. It calls ``take`` when the attempt begins and adds ``headers`` to the request.

    ``origin`` is the value of ``WebHook-Request-Origin``. ``rate`` is the deliveries per minute to
    ask for; None means no limit. With ``required``, nothing is sent without consent. ``within``
    limits the answer, in seconds. ``name`` is the id of the subscription.
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
        callbacks: ConsentCallbacks | None = None,
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
        self._called = False  # the webhook called the callback of the last question
        self._ready: Callable[[], None] = lambda: None
        self._asking: asyncio.Task[None] | None = None
        self._due = 0.0  # when to ask next
        self._refusals = 0
        self._again = REQUIRED_RETRY
        self._limit: RateLimit | None = None
        self._consent: Consent | None = None
        self.required = required
        self.why = "not asked yet"
        self.headers: tuple[tuple[str, str], ...] = ((ORIGIN, origin),) if required else ()

    @property
    def granted(self) -> bool:
        """Return True if the webhook has consented."""
        return self._consent is not None

    @property
    def due(self) -> bool:
        """Return True if the webhook must be asked for consent now, or if a required consent is
        missing."""
        barred = self.required and self._consent is None
        return barred or self._monotonic() >= self._due

    async def settle(self) -> None:
        """Ask the webhook for consent if that is due. Concurrent callers share one request.

        Without a consent, wait for the answer. The renewal of a consent runs in the background.
        """
        if self._monotonic() < self._due:
            return
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name=f"handshake {self._origin}")
            self._asking.add_done_callback(self._asked)
        if not self.granted:
            await asyncio.shield(self._asking)

    def when_ready(self, ready: Callable[[], None]) -> None:
        """Set the function that is called when the webhook consents by the callback."""
        self._ready = ready

    def wait(self) -> float:
        """Return the seconds until the allowed rate permits the next attempt; 0 if it does now."""
        return 0.0 if self._limit is None else self._limit.wait(self._monotonic())

    def take(self) -> None:
        """Count an attempt that begins now against the allowed rate."""
        if self._limit is not None:
            self._limit.take(self._monotonic())

    def refusal(self) -> SinkAnswer | None:
        """Return the answer for an attempt that may not be made now, or None if it may be made."""
        if self.required and not self.granted:
            seconds = max(1.0, self._due - self._monotonic())
            return SinkAnswer(None, "no-consent", self.why, hold=seconds)
        seconds = self.wait()
        if seconds:  # another attempt that waited for this consent took the turn
            return SinkAnswer(None, "paced", "the rate that the webhook allows", hold=seconds)
        return None

    async def stop(self) -> None:
        await stop_task(self._asking)
        self._ready = lambda: None  # the sink has ended
        await self._close_callback()

    async def _ask(self) -> None:
        if await self._close_callback():
            return  # the webhook consented by the callback
        answer, headers = await self._answer()
        if answer.status is not None:
            found = consent(answer.status, headers, self._origin, self._rate)
            if (
                isinstance(found, Consent) or not self._called
            ):  # a callback may come before the answer
                self._conclude(found)
            if isinstance(found, Consent):
                await self._close_callback()
        elif self.granted:
            self._due = self._monotonic() + OPTIONAL_RETRY  # no answer does not revoke a consent
        else:
            self._refuse(f"{answer.fault} {answer.detail}", UNANSWERED_RETRY)

    async def _answer(self) -> tuple[SinkAnswer, Mapping[str, str]]:
        await self._open_callback()
        headers = questions(self._origin, self._rate, self._callback)
        url = self._url
        if self._static is not None:
            headers += self._static.current().headers
        if self._credentials is not None:
            try:
                sent = await self._credentials.current()
            except NoToken as error:
                return SinkAnswer(None, "token", str(error)), {}
            headers, url = headers + sent.headers, sent.url(url)
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
        self._due = self._monotonic() + RENEW_AFTER
        self.headers = ((ORIGIN, self._origin),)  # every delivery names its origin

    def _refuse(self, reason: str, again: tuple[float, float] = REQUIRED_RETRY) -> None:
        self.why = f"the webhook did not consent to {self._origin}: {reason.strip()}"
        self._consent, self._limit = None, None
        if again != self._again:
            self._again, self._refusals = again, 0
        self._refusals += 1
        if self.required:
            first, longest = again
            pause = min(longest, first * 2.0 ** min(self._refusals - 1, 16))
            _log.warning("%s; nothing is sent without its consent", self.why)
        else:
            pause, self.headers = OPTIONAL_RETRY, ()
        self._due = self._monotonic() + pause

    def _called_back(self, rate: str | None) -> None:
        """Take a consent that came by the callback. Without a rate, the requested rate applies."""
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
        """Close the callback of the last request for consent. Return True if the webhook called it
        before."""
        open_one, self._callback = self._callback, ""
        if self._callbacks is None or not open_one:
            return False
        return await self._callbacks.close(open_one)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the handshake failed unexpectedly", exc_info=error)
            self._due = self._monotonic() + REQUIRED_RETRY[0]
