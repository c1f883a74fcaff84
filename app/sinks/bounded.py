"""Connections on which no answer is longer than it may be, whatever it is made of.

The client bounds lines, the number of headers, and what it hands on of a body. What it reads and drops
(interim answers, extensions of chunks, trailers) it would read until the attempt's time is over, at the
speed of the network: so all bytes are counted, and the connection is cut.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

BESIDE_BODY = 2**20  # bytes of an answer beyond its body: the head, and what chunks are wrapped in


class BoundedConnector(aiohttp.TCPConnector):
    """``answer_limit``: most bytes of one answer on the wire."""

    def __init__(self, *, answer_limit: int, **settings: Any) -> None:
        super().__init__(**settings)
        # Private there, and there is no other way to have it.
        self._factory = cast(
            "partial[ResponseHandler]", partial(_BoundedHandler, self._loop, answer_limit)
        )


class _BoundedHandler(ResponseHandler):
    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        super().__init__(loop)
        self._limit = limit
        self._taken = 0

    def set_response_params(self, **settings: Any) -> None:
        """An answer begins."""
        self._taken = 0
        super().set_response_params(**settings)

    def data_received(self, data: bytes) -> None:
        self._taken += len(data)
        if self._taken <= self._limit:
            super().data_received(data)
        elif self.transport is not None:
            self.transport.abort()  # told as cut short, or as no answer at all
