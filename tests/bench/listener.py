"""The events listener alone: every request is accepted at once, and nothing is decoded or kept.

What it costs beside a bare ASGI callable is what the protocol-level hot path is worth (ADR 0002).
"""

from __future__ import annotations

import argparse
import asyncio
import signal

import uvloop

from app.gateway.answers import ACCEPTED, HttpAnswer
from app.gateway.request import EventRequest
from app.gateway.resource import Done
from app.gateway.server import EventsServer
from app.runtime.heap import settle_heap
from app.telemetry import Counters


class AcceptAll:
    def publish(self, request: EventRequest, done: Done) -> HttpAnswer | None:
        return ACCEPTED


async def serve(port: int) -> None:
    server = EventsServer(AcceptAll(), Counters(), port=port)
    await server.start()
    settle_heap()
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    await leave.wait()
    await server.stop(drain=1.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))
