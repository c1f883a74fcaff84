"""An OAuth 2 issuer on loopback: signed tokens by client credentials, for whoever knows the secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs


def signed(secret: bytes, **claims: Any) -> str:
    """A JSON Web Token under HS256."""
    parts = [{"alg": "HS256", "typ": "JWT"}, claims]
    text = b".".join(_url(json.dumps(part).encode()) for part in parts)
    return b".".join([text, _url(hmac.digest(secret, text, hashlib.sha256))]).decode()


def _url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


class TokenIssuer(ThreadingHTTPServer):
    """``granted``: whom it gave a token. ``lasting``: how long each counts, in seconds."""

    daemon_threads = True

    def __init__(self, signing: bytes, secrets: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.signing = signing
        self.secrets = secrets
        self.granted: list[str] = []
        self.lasting = 3600

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        client = form.get("client_id", "")
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        if self.secrets.get(client) != form.get("client_secret"):
            return 401, {"error": "invalid_client", "error_description": "no such id and secret"}
        self.granted.append(client)
        token = signed(self.signing, sub=client, exp=time.time_ns() // 10**9 + self.lasting)
        return 200, {"access_token": token, "expires_in": self.lasting, "token_type": "Bearer"}


class _Handler(BaseHTTPRequestHandler):
    server: TokenIssuer

    def do_GET(self) -> None:
        self._send(200, {"issuer": self.server.url, "token_endpoint": f"{self.server.url}/token"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0"))).decode()
        fields = parse_qs(body)
        self._send(*self.server.answer({name: values[0] for name, values in fields.items()}))

    def _send(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: a test's output is for tests."""


@contextmanager
def issuing(signing: bytes, secrets: dict[str, str]) -> Iterator[TokenIssuer]:
    issuer = TokenIssuer(signing, secrets)
    thread = threading.Thread(target=issuer.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield issuer
    finally:
        issuer.shutdown()
        issuer.server_close()
        thread.join()
