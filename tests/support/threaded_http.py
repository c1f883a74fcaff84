"""An HTTP/1 server on loopback that runs in threads, for tests that observe processes from outside."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class QuietHandler(BaseHTTPRequestHandler):
    """The handler of a request. Subclasses override ``get``, ``post``, ``put`` or ``options``."""

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def do_PUT(self) -> None:
        self.put()

    def do_OPTIONS(self) -> None:
        self.options()

    def get(self) -> None:
        self.answer(405)

    put = post = options = get

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def answer(self, status: int, body: bytes = b"", media_type: str = "") -> None:
        self.send_response(status)
        if media_type:
            self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing, so that the output of the tests stays readable."""


class ThreadedServer(ThreadingHTTPServer):
    """A server that serves while its ``with`` block runs."""

    daemon_threads = True

    def __init__(self, handler: type[QuietHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self) -> str:
        """Return the URL of the server without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
