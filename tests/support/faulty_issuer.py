"""A token issuer on loopback whose discovery fails in a way that the test chooses."""

from __future__ import annotations

import json
import threading
from typing import NamedTuple

from threaded_http import QuietHandler, ThreadedServer


class IssuerAnswer(NamedTuple):
    """An answer of the issuer. An answer with ``held`` is never sent. An answer with ``short``
    never ends, because it declares a larger length than it has."""

    status: int = 200
    body: bytes = b""
    location: str = ""
    held: bool = False
    short: bool = False


class FaultyIssuer(ThreadedServer):
    """A server of ``answers`` by path, with 404 for other paths. ``asked`` has the requested paths
    in order.
    """

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.answers: dict[str, IssuerAnswer] = {}
        self.asked: list[str] = []
        self.over = threading.Event()

    def document(self, **changed: object) -> bytes:
        whole = {"issuer": self.address, "jwks_uri": f"{self.address}/jwks", **changed}
        return json.dumps(whole).encode()

    def __exit__(self, *error: object) -> None:
        self.over.set()
        super().__exit__(*error)


class _Handler(QuietHandler):
    server: FaultyIssuer

    def get(self) -> None:
        self.server.asked.append(self.path)
        said = self.server.answers.get(self.path, IssuerAnswer(404))
        if said.held:
            self.server.over.wait()
            return
        self.send_response(said.status)
        if said.location:
            self.send_header("location", said.location)
        self.send_header("content-length", str(len(said.body) + said.short))
        self.end_headers()
        self.wfile.write(said.body)
        if said.short:
            self.wfile.flush()
            self.server.over.wait()
