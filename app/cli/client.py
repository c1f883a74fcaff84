"""The client of the events listener. It posts events, waits as long as an answer demands, and
repeats failed requests.

Only events that were *not* accepted are sent again. So if a batch is answered 503 and half of its
events were accepted, this half is not sent twice.
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
from app.bindings.transcode import EncodeOptions
from app.cli.options import needs_certificates
from app.cli.printing import reason
from app.event.json_text import NOT_JSON
from app.libraries.httpx_client import httpx

Mode = Literal["binary", "structured", "batch"]
REPEATED = frozenset({429, 502, 503, 504})  # statuses after which the same request may succeed
FIRST_WAIT = 0.5  # seconds, doubled each time, if the answer has no Retry-After
LONGEST_WAIT = 30.0


class SendResult(NamedTuple):
    """The result of sending one event.

    ``receipts`` has one entry per target that stored the event. ``problem`` is the problem document
    of the answer if the event was not accepted.
    """

    event: Decoded
    status: int
    receipts: Sequence[Mapping[str, Any]] = ()
    problem: Mapping[str, Any] | None = None
    attempts: int = 1

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - 2xx

    @property
    def is_worth_repeating(self) -> bool:
        """Return True if a repetition of the same request may succeed, without a repair by a
        person.
        """
        return self.status in REPEATED and (self.problem or {}).get("retryable", True)


Encoder = Callable[[Sequence[Decoded]], HttpMessage]


class EventsClient:
    """An HTTP client of the events listener that retries.

    Args:
        url: The whole address, such as ``http://127.0.0.1:8080/events``.
        key: The record key of each event, or None.
        format: The format of structured and batch documents.
        retries: The number of repeated requests per call.
        timeout: The time for one request, in seconds.
        on_wait: Called before each wait with its reason and its length in seconds.

    Raises:
        httpx.TransportError: If network errors outlast the retries.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        format: FormatName = "as_received",  # noqa: A002 - the name of the option
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
            verify=needs_certificates(url),
        )
        self._sleep = sleep
        self._on_wait = on_wait

    async def close(self) -> None:
        await self._http.aclose()

    async def send_as(self, event: Decoded, message: HttpMessage) -> SendResult:
        """Send ``message`` unchanged, and repeat it while a repetition may succeed. ``event`` is
        the event that the service decodes from ``message``.
        """
        (result,) = await self._send([event], lambda _: message)
        return result

    async def send(self, events: Sequence[Decoded], mode: Mode) -> list[SendResult]:
        """Send the events in one request, and send failed events again while a repetition may
        succeed. A request in mode binary or structured can contain only one event.
        """
        return await self._send(events, lambda waiting: encode(waiting, mode, self._format))

    async def _send(self, events: Sequence[Decoded], encode_events: Encoder) -> list[SendResult]:
        results: dict[int, SendResult] = {}
        waiting = list(range(len(events)))
        for attempt in range(1, self._retries + 2):
            answer = await self._post(encode_events([events[index] for index in waiting]), attempt)
            said = _results([events[index] for index in waiting], answer, attempt)
            results.update(zip(waiting, said, strict=True))
            waiting = [index for index in waiting if results[index].is_worth_repeating]
            if not waiting or attempt > self._retries:
                break
            await self._hold(f"{answer.status_code} {answer.reason_phrase}", _wait(answer, attempt))
        return [results[index] for index in range(len(events))]

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
    """Return the headers and body of one request. ``name`` is the format of the body in modes
    structured and batch.
    """
    if mode == "batch":
        return http.encode_batch(events, "json" if name == "as_received" else name)
    return http.encode(events[0], EncodeOptions(mode=mode, format=name))


def _results(events: Sequence[Decoded], answer: httpx.Response, attempt: int) -> list[SendResult]:
    said = _document(answer)
    if answer.is_success:
        return [
            SendResult(event, answer.status_code, receipts, None, attempt)
            for event, receipts in zip(events, _by_event(said, len(events)), strict=True)
        ]
    entries = _by_event(said.get("events") if isinstance(said, dict) else None, len(events))
    if all(entries):
        return [
            _combined_result(event, each, attempt)
            for event, each in zip(events, entries, strict=True)
        ]
    problem = said if isinstance(said, dict) else {"title": answer.reason_phrase}
    return [SendResult(event, answer.status_code, (), problem, attempt) for event in events]


def _combined_result(
    event: Decoded, entries: Sequence[Mapping[str, Any]], attempt: int
) -> SendResult:
    """Return the result of an event with several targets. It is accepted only if every target
    stored it.
    """
    worst = max(int(entry["status"]) for entry in entries)
    causes = [entry["cause"] for entry in entries if "cause" in entry]
    return SendResult(
        event,
        worst,
        [entry["receipt"] for entry in entries if "receipt" in entry],
        {"title": causes[0].get("detail", ""), **causes[0]} if causes else None,
        attempt,
    )


def _by_event(said: Any, count: int) -> list[list[Mapping[str, Any]]]:
    """Group the entries of an answer by the index of their event. An event has one entry per
    target.
    """
    found: list[list[Mapping[str, Any]]] = [[] for _ in range(count)]
    for entry in said if isinstance(said, list) else []:
        found[int(entry.get("index", 0))].append(entry)
    return found


def _document(answer: httpx.Response) -> Any:
    try:
        return msgspec.json.decode(answer.content) if answer.content else None
    except NOT_JSON:
        return {"title": answer.text[:200]}


def _wait(answer: httpx.Response, attempt: int) -> float:
    """Return the seconds to wait: the value of Retry-After, or else a wait that grows with each
    attempt. A date in Retry-After is not parsed, because the events listener writes none.
    """
    said = answer.headers.get("retry-after", "")
    return min(float(said), LONGEST_WAIT) if said.isdecimal() else _backoff(attempt)


def _backoff(attempt: int) -> float:
    return float(min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT))
