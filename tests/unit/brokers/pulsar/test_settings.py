"""Settings: what is refused at the start, what is never shown, and tokens that are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from app.brokers.pulsar import PulsarSettings
from app.brokers.pulsar.tokens import ClientCredentialsAuth
from app.brokers.security import ClientTls, OAuth2
from app.errors import SetupError

PLAIN = {"name": "main", "service_url": "pulsar://h:6650", "admin_url": "http://h:8080"}


def test_no_secret_is_in_the_text_of_the_settings() -> None:
    """Tracebacks and logs show such texts (reliability S12)."""
    assert "secret-token" not in repr(PulsarSettings(**PLAIN, token="secret-token"))


def test_certificates_that_cannot_be_read_name_their_setting(tmp_path: Path) -> None:
    """An operator must not look for the wrong fault."""
    settings = PulsarSettings(**PLAIN, tls=ClientTls(ca=str(tmp_path / "none.pem")))
    with pytest.raises(SetupError) as refused:
        settings.ssl_context()
    assert refused.value.setting == "brokers.main.security.tls"


async def test_a_token_is_asked_for_once_and_shown_with_each_question(tmp_path: Path) -> None:
    """Client credentials as the client library does it: issuer, token endpoint, bearer token."""
    secrets = tmp_path / "credentials.json"
    secrets.write_text(json.dumps({"client_id": "me", "client_secret": "hush"}))
    seen: list[tuple[str, str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        shown = request.headers.get("authorization", "")
        seen.append((str(request.url), request.content.decode(), shown))
        if request.url.path.endswith("/openid-configuration"):
            return httpx.Response(200, json={"token_endpoint": "https://issuer/token"})
        if request.url.path == "/token":
            return httpx.Response(200, json={"access_token": "granted", "expires_in": 3600})
        return httpx.Response(200)

    oauth2 = OAuth2(issuer_url="https://issuer/", credentials=str(secrets), audience="pulsar")
    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(auth=ClientCredentialsAuth(oauth2), transport=transport) as client:
        await client.get("https://broker/admin")
        await client.get("https://broker/admin")
    form = "grant_type=client_credentials&client_id=me&client_secret=hush&audience=pulsar"
    assert seen == [
        ("https://issuer/.well-known/openid-configuration", "", ""),
        ("https://issuer/token", form, ""),
        ("https://broker/admin", "", "Bearer granted"),
        ("https://broker/admin", "", "Bearer granted"),
    ]
