"""An HTTP endpoint that answers in a thread of its own, for tests that run without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message

from threaded_http import QuietHandler, ThreadedServer

StatusOfPost = Callable[[str, Message], int]
"""A function that returns the status of a POST from its path and headers. The server calls it in the thread of the
request."""


def accepted(_path: str, _headers: Message) -> int:
    return 204


@contextmanager
def posting_endpoint(answer: StatusOfPost = accepted) -> Iterator[str]:
    """Run the endpoint until the block ends, and yield its URL without a path."""

    class Handler(QuietHandler):
        def post(self) -> None:
            self.body()
            self.send_response(answer(self.path, self.headers))
            self.end_headers()

    with ThreadedServer(Handler) as server:
        yield server.address
