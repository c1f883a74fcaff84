"""uvicorn is as we know it, and we notice when it is not."""

from __future__ import annotations

import pytest

from app.errors import SetupError
from app.gateway import uvicorn_adapter


def test_the_installed_uvicorn_is_as_expected() -> None:
    assert uvicorn_adapter.differences() == []


def test_a_missing_method_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(uvicorn_adapter.HttpToolsProtocol, "_start_asgi_task")
    assert uvicorn_adapter.differences() == ["HttpToolsProtocol has no _start_asgi_task"]
    with pytest.raises(SetupError, match=r"has no _start_asgi_task.*Cure: install uvicorn"):
        uvicorn_adapter.demand_known_uvicorn()


def test_a_renamed_field_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        """Of a module that sets none of them."""

    monkeypatch.setattr(uvicorn_adapter, "HttpToolsProtocol", Other)
    assert "the module of Other sets no keep_alive" in uvicorn_adapter.differences()
