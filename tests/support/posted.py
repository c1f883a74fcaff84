"""An endpoint that answers in a thread of its own: for tests that run the service and wait, without a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message

from threaded_http import QuietHandler, ThreadedServer

Answer = Callable[[str, Message], int]
"""The status for a POST, by its path and its headers. It is asked in the thread of the request."""


def accepted(_path: str, _headers: Message) -> int:
    return 204


@contextmanager
def posted(answer: Answer = accepted) -> Iterator[str]:
    """Its address, without a path; it is gone in the end."""

    class Handler(QuietHandler):
        def post(self) -> None:
            self.body()
            self.send_response(answer(self.path, self.headers))
            self.end_headers()

    with ThreadedServer(Handler) as server:
        yield server.address
