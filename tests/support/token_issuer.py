"""An OAuth 2 issuer on loopback that signs tokens for clients with the right secret (client
credentials)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any
from urllib.parse import parse_qs

from threaded_http import QuietHandler, ThreadedServer


def signed(secret: bytes, **claims: Any) -> str:
    """Return a JSON Web Token signed with HS256."""
    parts = [{"alg": "HS256", "typ": "JWT"}, claims]
    text = b".".join(_url(json.dumps(part).encode()) for part in parts)
    return b".".join([text, _url(hmac.digest(secret, text, hashlib.sha256))]).decode()


def _url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


class TokenIssuer(ThreadedServer):
    """The token endpoint of the issuer.

    Attributes:
        granted: The ids of the clients that got a token, in order.
        lasting: The lifetime of each token in seconds.
    """

    def __init__(self, signing: bytes, secrets: dict[str, str]) -> None:
        super().__init__(_Handler)
        self.signing = signing
        self.secrets = secrets
        self.granted: list[str] = []
        self.lasting = 3600

    def grant(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        client = form.get("client_id", "")
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        if self.secrets.get(client) != form.get("client_secret"):
            return 401, {
                "error": "invalid_client",
                "error_description": "the client id or its secret is wrong",
            }
        self.granted.append(client)
        token = signed(self.signing, sub=client, exp=time.time_ns() // 10**9 + self.lasting)
        return 200, {"access_token": token, "expires_in": self.lasting, "token_type": "Bearer"}


class _Handler(QuietHandler):
    server: TokenIssuer

    def get(self) -> None:
        url = self.server.address
        self._send(200, {"issuer": url, "token_endpoint": f"{url}/token"})

    def post(self) -> None:
        fields = parse_qs(self.body().decode())
        self._send(*self.server.grant({name: values[0] for name, values in fields.items()}))

    def _send(self, status: int, document: dict[str, Any]) -> None:
        self.answer(status, json.dumps(document).encode(), "application/json")
