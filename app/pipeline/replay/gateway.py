"""Send records of a replay through the events listener of a gateway, where rules, routes and keys
apply as usual.

Records that are not events cannot be sent this way. The record's key is sent in the query as the
sender's key, byte for byte. The route keeps it unless it has a key mapper.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote_from_bytes

import msgspec

from app.bindings import http, kafka
from app.bindings.record import Record
from app.bindings.transcode import EncodeOptions
from app.delivery.backoff import retry_after
from app.errors import BrokerUnavailable, SenderError
from app.event.json_text import NOT_JSON
from app.interfaces import Clock
from app.libraries.httpx_client import httpx
from app.pipeline.replay.topic import MARK, UPGRADED, Form, RetryWaits
from app.spark.settings import NOTHING

AT_ONCE: Final = 8  # concurrent requests
WITHIN: Final = 30.0  # seconds for one response
LATER: Final = frozenset({429, 502, 503, 504})  # a later attempt may succeed
_RECORDED: Final = EncodeOptions(mode="as_received")


class GatewayOutlet:
    """The outlet of a replay to a gateway. It sends one event of a key at a time."""

    def __init__(
        self,
        url: str,
        form: Form,
        mark: str | None,
        clock: Clock,
        headers: Mapping[str, str] = NOTHING,
    ) -> None:
        """Prepare the HTTP client.

        Args:
            url: The address of the events listener, such as ``http://127.0.0.1:8080/events``.
            form: The form in which records are sent.
            mark: The value of the header that marks a replay; None for no mark.
            clock: The clock for waits between attempts.
            headers: Headers that every request has.
        """
        self._url, self._mark, self._clock = url, mark, clock
        self._writing = _RECORDED if form == "recorded" else UPGRADED
        self._http = httpx.AsyncClient(timeout=WITHIN, trust_env=False, headers=headers)
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, records: Sequence[Record]) -> Mapping[str, int]:
        refused: Counter[str] = Counter()
        lanes: dict[object, list[Record]] = {}
        for n, record in enumerate(records):
            lanes.setdefault(n if record.key is None else record.key, []).append(record)
        try:
            async with asyncio.TaskGroup() as group:
                for lane in lanes.values():
                    group.create_task(self._lane(lane, refused))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return refused

    async def _lane(self, records: Sequence[Record], refused: Counter[str]) -> None:
        async with self._turns:
            for record in records:
                try:
                    decoded = kafka.decode(record)
                    message = http.encode(decoded, self._writing)
                except SenderError as error:
                    refused[error.code] += 1
                    continue
                if why := await self._posted(record.key, message):
                    refused[why] += 1

    async def _posted(self, key: bytes | None, message: http.HttpMessage) -> str:
        """Send an event until the gateway accepts it or refuses it permanently.

        Returns:
            Empty if the gateway has accepted the event, otherwise the cause of the refusal.
        """
        url, headers = self._url, _as_bytes(message.headers)
        if key is not None:
            url = f"{url}?key={quote_from_bytes(key, safe='')}"
        if self._mark is not None:
            headers.append((MARK.encode(), self._mark.encode()))
        trying = RetryWaits(self._clock)
        while True:
            try:
                answer = await self._http.post(url, content=message.body, headers=headers)
            except httpx.TransportError as fault:
                await trying.after(self._away(str(fault) or type(fault).__name__))
                continue
            if answer.is_success:
                return ""
            retryable, code = problem_of(answer)
            if answer.status_code not in LATER or not retryable:
                return f"{answer.status_code} {code}".strip()
            wait = wait_of(answer, self._clock.now())
            await trying.after(self._away(f"{answer.status_code}", wait))

    def _away(self, why: str, retry_after: float | None = None) -> BrokerUnavailable:
        return BrokerUnavailable(
            f"the gateway at {self._url} does not take events: {why}", retry_after=retry_after
        )


def _as_bytes(headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), text.encode("utf-8", "surrogateescape")) for name, text in headers]


def wait_of(answer: httpx.Response, now: float) -> float | None:
    """Return the seconds that the response asks to wait (Retry-After, RFC 9110 10.2.3), or None."""
    until = retry_after(answer.headers.get("retry-after", ""), now)
    return None if until is None else until - now


def problem_of(answer: httpx.Response) -> tuple[bool, str]:
    """Return whether a later attempt may succeed, and the code of the problem."""
    try:
        body = msgspec.json.decode(answer.content)
    except NOT_JSON:
        body = None
    problem = body if isinstance(body, dict) else {}
    code = str(problem.get("type", "")).rpartition(":")[2]
    return problem.get("retryable", True) is not False, code
