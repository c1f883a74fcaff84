"""The client of the admin API: the operator's token is the one that its file has now."""

import json

import httpx

from app.config.load.loader import load_sections
from app.kubernetes.admin import AdminApi


async def test_a_token_that_was_rotated_is_read_again(tmp_path, monkeypatch):
    """Otherwise each request gets 401 until the operator is restarted (issue 46)."""
    monkeypatch.setattr("app.sinks.secrets.CHECK_EVERY", 0.0)
    file, sent = tmp_path / "token", []
    file.write_text("the-first-token-of-the-operator\n")
    admin = {"url": "http://127.0.0.1:9", "token": f"${{file:{file}}}"}
    section = {"namespaces": [{"name": "team"}], "admin": admin}
    raw = json.dumps({"version": 1, "operator": section}).encode()
    config = load_sections(raw, ("version", "operator"), {})

    def answer(request):
        sent.append(request.headers["authorization"])
        return httpx.Response(200, json=[])

    api = AdminApi(config.operator.admin, httpx.MockTransport(answer))
    await api.subscriptions()
    file.write_text("the-second-token\n")
    await api.subscriptions()
    await api.close()
    assert sent == ["Bearer the-first-token-of-the-operator", "Bearer the-second-token"]
