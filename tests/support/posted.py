"""An endpoint that answers in a thread of its own: for tests that run the service and wait, without a loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str, Message], int]
"""The status for a POST, by its path and its headers. It is asked in the thread of the request."""


def accepted(_path: str, _headers: Message) -> int:
    return 204


@contextmanager
def posted(answer: Answer = accepted) -> Iterator[str]:
    """Its address, without a path; it is gone in the end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(answer(self.path, self.headers))
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
