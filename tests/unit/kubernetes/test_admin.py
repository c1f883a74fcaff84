"""The client of the admin API: the operator's token is the one that its file has now, and an answer may be anything."""

import json

import httpx
import pytest

from app.config.load.loader import load_sections
from app.errors import SkybridgeError
from app.kubernetes.admin import AdminApi, AdminUnavailable


def api_of(token, answer):
    admin = {"url": "http://127.0.0.1:9", "token": f"${{file:{token}}}"}
    section = {"namespaces": [{"name": "team"}], "admin": admin}
    raw = json.dumps({"version": 1, "operator": section}).encode()
    config = load_sections(raw, ("version", "operator"), {})
    return AdminApi(config.operator.admin, httpx.MockTransport(answer))


@pytest.mark.parametrize(
    "body", [b"[" * 200_000, b'{"detail": "\xff"}', b"<html>", b"[]", b'{"faults": ["x"]}']
)
async def test_a_refusal_that_is_no_problem_is_told_by_its_status(tmp_path, body):
    (tmp_path / "token").write_text("the-token-of-the-operator\n")
    api = api_of(tmp_path / "token", lambda _: httpx.Response(503, content=body))
    with pytest.raises(SkybridgeError, match="503"):
        await api.subscriptions()
    await api.close()


@pytest.mark.parametrize(
    "body", [b"[" * 200_000, b"<html>", b"{}", b'[{"name": "x"}]', b"[1]", b""]
)
async def test_what_is_not_the_admin_api_is_waited_for(tmp_path, body):
    """A proxy that answers 200 with a page of its own must not end the operator."""
    (tmp_path / "token").write_text("the-token-of-the-operator\n")
    api = api_of(tmp_path / "token", lambda _: httpx.Response(200, content=body))
    with pytest.raises(AdminUnavailable, match="as the admin API does"):
        await api.subscriptions()
    with pytest.raises(AdminUnavailable, match="as the admin API does"):
        await api.create({"id": "team.x"})
    with pytest.raises(AdminUnavailable, match="as the admin API does"):
        await api.has_parked("team.x")
    await api.close()


async def test_a_token_that_was_rotated_is_read_again(tmp_path, monkeypatch):
    """Otherwise each request gets 401 until the operator is restarted (issue 46)."""
    monkeypatch.setattr("app.sinks.secrets.CHECK_EVERY", 0.0)
    file, sent = tmp_path / "token", []
    file.write_text("the-first-token-of-the-operator\n")

    def answer(request):
        sent.append(request.headers["authorization"])
        return httpx.Response(200, json=[])

    api = api_of(file, answer)
    await api.subscriptions()
    file.write_text("the-second-token\n")
    await api.subscriptions()
    await api.close()
    assert sent == ["Bearer the-first-token-of-the-operator", "Bearer the-second-token"]
