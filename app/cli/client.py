"""The sender's side of the events listener: posts, waits where it is told to, repeats what failed.

Only what was *not* accepted is sent again, so that a 503 for half a batch does not double the other
half.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from app.bindings import http
from app.bindings.documents import FormatName
from app.bindings.http import HttpMessage
from app.bindings.record import Decoded
from app.bindings.transcode import Writing
from app.cli.options import has_certificate
from app.cli.printing import reason
from app.libraries.httpx_client import httpx

Mode = Literal["binary", "structured", "batch"]
REPEATED = frozenset({429, 502, 503, 504})  # the same bytes may be welcome later
FIRST_WAIT = 0.5  # seconds, doubled each time, where the answer names no Retry-After
LONGEST_WAIT = 30.0


class Fate(NamedTuple):
    """What became of one event. ``receipts``: one a place it is stored in. ``problem``: why not."""

    event: Decoded
    status: int
    receipts: Sequence[Mapping[str, Any]] = ()
    problem: Mapping[str, Any] | None = None
    attempts: int = 1

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - the class of success

    @property
    def is_worth_repeating(self) -> bool:
        """False as well for what passes only when a person acts (``retryable`` of the cause)."""
        return self.status in REPEATED and (self.problem or {}).get("retryable", True)


Written = Callable[[Sequence[Decoded]], HttpMessage]


class EventsClient:
    """``url`` is the whole address, ``http://127.0.0.1:8080/events``. Network faults that outlast
    the retries raise httpx.TransportError. ``format`` is that of documents. ``on_wait`` is told why it
    waits, and how long (seconds).
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        format: FormatName = "as_received",  # noqa: A002 - the word of the option
        retries: int = 5,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_wait: Callable[[str, float], None] | None = None,
    ) -> None:
        self._url = url
        self._headers = {"prefer": "return=representation", **(headers or {})}
        if key is not None:
            self._headers["skybridge-key"] = key
        self._retries = retries
        self._format = format
        self._http = httpx.AsyncClient(
            timeout=timeout,
            transport=transport,
            trust_env=False,
            verify=has_certificate(url),
        )
        self._sleep = sleep
        self._on_wait = on_wait

    async def close(self) -> None:
        await self._http.aclose()

    async def send_as(self, event: Decoded, message: HttpMessage) -> Fate:
        """One request as it stands, of which the service makes ``event``; repeated while it is worth it."""
        (fate,) = await self._send([event], lambda _: message)
        return fate

    async def send(self, events: Sequence[Decoded], mode: Mode) -> list[Fate]:
        """One request (binary and structured take one event), repeated while it is worth it."""
        return await self._send(events, lambda waiting: encode(waiting, mode, self._format))

    async def _send(self, events: Sequence[Decoded], written: Written) -> list[Fate]:
        fates: dict[int, Fate] = {}
        waiting = list(range(len(events)))
        for attempt in range(1, self._retries + 2):
            answer = await self._post(written([events[index] for index in waiting]), attempt)
            said = _fates([events[index] for index in waiting], answer, attempt)
            fates.update(zip(waiting, said, strict=True))
            waiting = [index for index in waiting if fates[index].is_worth_repeating]
            if not waiting or attempt > self._retries:
                break
            await self._hold(f"{answer.status_code} {answer.reason_phrase}", _wait(answer, attempt))
        return [fates[index] for index in range(len(events))]

    async def _post(self, message: HttpMessage, attempt: int) -> httpx.Response:
        headers = httpx.Headers([*message.headers, *self._headers.items()], encoding="utf-8")
        while True:
            try:
                return await self._http.post(self._url, content=message.body, headers=headers)
            except httpx.TransportError as fault:
                if attempt > self._retries:
                    raise
                await self._hold(reason(fault), _backoff(attempt))
                attempt += 1

    async def _hold(self, why: str, seconds: float) -> None:
        if self._on_wait is not None:
            self._on_wait(why, seconds)
        await self._sleep(seconds)


def encode(events: Sequence[Decoded], mode: Mode, name: FormatName = "as_received") -> HttpMessage:
    """One request's headers and body. ``name``: the format of documents."""
    if mode == "batch":
        return http.encode_batch(events, "json" if name == "as_received" else name)
    return http.encode(events[0], Writing(mode=mode, format=name))


def _fates(events: Sequence[Decoded], answer: httpx.Response, attempt: int) -> list[Fate]:
    said = _document(answer)
    if answer.is_success:
        return [
            Fate(event, answer.status_code, receipts, None, attempt)
            for event, receipts in zip(events, _by_event(said, len(events)), strict=True)
        ]
    entries = _by_event(said.get("events") if isinstance(said, dict) else None, len(events))
    if all(entries):
        return [_fate(event, each, attempt) for event, each in zip(events, entries, strict=True)]
    problem = said if isinstance(said, dict) else {"title": answer.reason_phrase}
    return [Fate(event, answer.status_code, (), problem, attempt) for event in events]


def _fate(event: Decoded, entries: Sequence[Mapping[str, Any]], attempt: int) -> Fate:
    """Of an event whose places met different fates: accepted when all of them have it."""
    worst = max(int(entry["status"]) for entry in entries)
    causes = [entry["cause"] for entry in entries if "cause" in entry]
    return Fate(
        event,
        worst,
        [entry["receipt"] for entry in entries if "receipt" in entry],
        {"title": causes[0].get("detail", ""), **causes[0]} if causes else None,
        attempt,
    )


def _by_event(said: Any, count: int) -> list[list[Mapping[str, Any]]]:
    """Entries by the index of their event; an event has one for each place it goes to."""
    found: list[list[Mapping[str, Any]]] = [[] for _ in range(count)]
    for entry in said if isinstance(said, list) else []:
        found[int(entry.get("index", 0))].append(entry)
    return found


def _document(answer: httpx.Response) -> Any:
    try:
        return msgspec.json.decode(answer.content) if answer.content else None
    except msgspec.DecodeError:
        return {"title": answer.text[:200]}


def _wait(answer: httpx.Response, attempt: int) -> float:
    """Retry-After where the answer has it (in seconds; our own listener writes no dates)."""
    said = answer.headers.get("retry-after", "")
    return min(float(said), LONGEST_WAIT) if said.isdecimal() else _backoff(attempt)


def _backoff(attempt: int) -> float:
    return float(min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT))
