"""An OpenID Connect issuer on loopback, in a process of its own.

The issuer offers discovery, keys, and tokens with any claims::

    GET  /.well-known/openid-configuration, /jwks     as any issuer
    POST /tokens   {"alg": ..., "kid": ..., "header": {...}, "claims": {...}} -> a signed token
    POST /rotate   replace all keys; the answer has the new key ids
    GET  /asked    how often the keys were requested
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 120.0
HOUR = 3_600


class Keys:
    """The signing keys of the issuer: one for each algorithm, with key ids such as ``RS256-1``."""

    def __init__(self) -> None:
        self.generation = 0
        self.asked = 0
        self.rotate()

    def rotate(self) -> list[str]:
        from joserfc.jwk import ECKey, OKPKey, RSAKey

        self.generation += 1
        self.keys = {}
        for algorithm, key in (
            ("RS256", RSAKey.generate_key(2048)),
            ("ES256", ECKey.generate_key("P-256")),
            ("EdDSA", OKPKey.generate_key("Ed25519")),
        ):
            name = f"{algorithm}-{self.generation}"
            self.keys[name] = type(key).import_key(
                {**key.as_dict(private=True), "kid": name, "use": "sig"}
            )
        return list(self.keys)

    def public(self) -> dict[str, Any]:
        self.asked += 1
        return {"keys": [key.as_dict(private=False) for key in self.keys.values()]}

    def signed(self, asked: dict[str, Any]) -> str:
        from joserfc import jws

        algorithm = asked["alg"]
        kid = asked.get("kid") or f"{algorithm}-{self.generation}"
        header = {"alg": algorithm, "typ": "JWT", "kid": kid, **asked.get("header", {})}
        return jws.serialize_compact(
            header, json.dumps(asked["claims"]), self.keys[kid], algorithms=[algorithm]
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    keys: Keys


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = f"http://127.0.0.1:{self.server.server_port}"
        if self.path == "/.well-known/openid-configuration":
            self._send({"issuer": url, "jwks_uri": f"{url}/jwks"})
        elif self.path == "/jwks":
            self._send(self.server.keys.public())
        else:
            self._send(self.server.keys.asked)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        keys = self.server.keys
        self._send(keys.rotate() if self.path == "/rotate" else keys.signed(json.loads(body)))

    def _send(self, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class OidcIssuer:
    """The client by which a test calls the issuer process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data, timeout=PATIENCE) as answer:
            return json.load(answer)

    def token(self, algorithm: str = "RS256", *, header: Any = None, **claims: Any) -> str:
        """Return a signed token that is valid for an hour, for the audience ``skybridge``.

        Args:
            algorithm: The algorithm of the signature.
            header: More fields of the header of the token.
            claims: Claims to add or replace. None removes a claim.
        """
        now = time.time_ns() // 10**9
        full = {"iss": self.url, "aud": "skybridge", "iat": now, "exp": now + HOUR, **claims}
        kept = {name: value for name, value in full.items() if value is not None}
        return self.ask("/tokens", {"alg": algorithm, "claims": kept, "header": header or {}})

    def rotate(self) -> list[str]:
        return self.ask("/rotate", {})

    @property
    def asked(self) -> int:
        return self.ask("/asked")


@contextmanager
def oidc_issuer() -> Iterator[OidcIssuer]:
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield OidcIssuer(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stdout.close()


def main() -> None:
    warnings.simplefilter("ignore")  # the library warns of the algorithm name EdDSA
    server = _Server(("127.0.0.1", 0), _Handler)
    server.keys = Keys()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    main()
