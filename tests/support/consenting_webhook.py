"""A webhook that consents later: it records the callback addresses of handshakes and counts
events.
"""

from __future__ import annotations

import urllib.error
import urllib.request

from threaded_http import QuietHandler, ThreadedServer


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: ConsentingWebhook

    def options(self) -> None:
        self.server.callbacks.append(self.headers["webhook-request-callback"])
        self.answer(200)

    def post(self) -> None:
        self.body()
        self.server.events += 1
        self.answer(204)


class ConsentingWebhook(ThreadedServer):
    def __init__(self) -> None:
        super().__init__(_Handler)
        self.callbacks: list[str] = []
        self.events = 0

    @property
    def url(self) -> str:
        return f"{self.address}/hook"

    @staticmethod
    def call(url: str) -> int:
        """Send a GET on a new connection and return its status."""
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return refusal.code
