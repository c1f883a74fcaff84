"""The uvicorn_check: uvicorn is as we know it, and we notice when it is not."""

from __future__ import annotations

import tomllib

import pytest
from uvicorn.protocols.http import httptools_impl

from app.gateway import uvicorn_check
from pages import CHECKOUT


def test_the_installed_uvicorn_is_as_expected() -> None:
    assert uvicorn_check.differences() == []


def test_the_pinned_version_is_one_that_is_known() -> None:
    """An upgrade without a look at the internals would switch the hot path off unnoticed."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    (pin,) = (line for line in project["dependencies"] if line.startswith("uvicorn"))
    assert pin.removeprefix("uvicorn==") in uvicorn_check.KNOWN_VERSIONS


def test_another_version_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_check.uvicorn, "__version__", "9.9.9")
    assert uvicorn_check.differences() == ["uvicorn is 9.9.9"]


def test_a_missing_method_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(httptools_impl.HttpToolsProtocol, "_start_asgi_task")
    assert uvicorn_check.differences() == ["HttpToolsProtocol has no _start_asgi_task"]


def test_a_renamed_field_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    class RequestResponseCycle:
        def __init__(self) -> None:
            self.disconnected = self.response_started = self.message_event = False

    monkeypatch.setattr(httptools_impl, "RequestResponseCycle", RequestResponseCycle)
    assert "RequestResponseCycle sets no keep_alive" in uvicorn_check.differences()
